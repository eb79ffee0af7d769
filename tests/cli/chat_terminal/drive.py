"""Types into `focal chat` on a terminal and says what came of it. Usage: drive.py FOCAL MODEL."""
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

LIMIT = 60  # seconds that anything may take
READS = b"\x1b[?2004h"  # what the editor writes when it begins to read


class Chat:
    def __init__(self, *arguments):
        self.shown = b""
        self.reads = 0
        self.ours, self.theirs = os.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.process = subprocess.Popen(arguments, stdin=self.theirs, stderr=self.theirs,
                                        stdout=subprocess.PIPE, start_new_session=True,
                                        env={**os.environ, "TERM": "xterm"})
        self.wait_for_prompt()

    def pump(self, seconds):
        if select.select([self.ours], [], [], seconds)[0]:
            self.shown += os.read(self.ours, 65536)

    def wait(self, is_there, what):
        end = time.monotonic() + LIMIT
        while not is_there():
            if time.monotonic() > end:
                self.process.kill()
                sys.exit(f"no {what}; shown: {self.shown!r}")
            self.pump(0.1)

    def wait_for_prompt(self):
        self.reads += 1
        self.wait(lambda: self.shown.count(READS) >= self.reads, "prompt")
        self.wait(lambda: self.shown.rpartition(READS)[2].find(b"> ") >= 0, "prompt")

    def keys(self, keys):
        os.write(self.ours, keys)

    def line(self, keys):
        """Types a line; what the editor and the program then showed, without the drawing."""
        begin = len(self.shown)
        self.keys(keys + b"\r")
        self.wait_for_prompt()
        return self.shown[begin:]

    def command(self, keys):
        """The word that the program took for an unknown command."""
        found = re.search(rb"no command '([^']*)'", self.line(keys))
        return found.group(1).decode() if found else "nothing"

    def end(self):
        """The exit status; whether the terminal is as it was."""
        def is_told():  # that pasting is over; what it wrote last may come after its end
            return self.shown.rfind(b"\x1b[?2004l") > self.shown.rfind(READS)
        self.wait(lambda: self.process.poll() is not None and is_told(), "end")
        is_same = termios.tcgetattr(self.theirs) == self.before
        return f"exit {self.process.returncode}, terminal {'as before' if is_same else 'changed'}"


def main():
    arguments = [sys.argv[1], "chat", "-m", sys.argv[2], "--temp", "0"]
    chat = Chat(*arguments)
    print("left:", chat.command(b"/ac\x1b[Db"))
    print("history:", chat.command(b"\x1b[A!"))
    print("wide:", chat.command("/é日\x7fx".encode()))
    print("typed ahead:", chat.command(b"/one\r/two"))
    chat.wait_for_prompt()
    chat.line(b"Hello")
    chat.line(b"\x1b[200~three\rpasted\rlines\x1b[201~")
    chat.keys(b"dropped\x03")
    chat.wait_for_prompt()
    os.kill(chat.process.pid, signal.SIGINT)
    chat.wait_for_prompt()
    print("long:", len(chat.command(b"/" + 5000 * b"x")))
    chat.keys(b"\x04")
    print("Ctrl-D:", chat.end())
    answers = chat.process.stdout.read().decode()
    print(answers, end="")

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        chat = Chat(*arguments)
        chat.keys(b"half a line")
        os.kill(chat.process.pid, number)
        print(f"{number.name}:", chat.end())


main()
