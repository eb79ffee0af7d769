"""Trains in a terminal and closes it in the middle."""
import os
import pty
import time

child, terminal = pty.fork()
if child == 0:
    focal = os.environ["FOCAL"]
    os.execv(focal, [focal, "train", "run.conf", "-o", "out"])
while not os.path.exists("out/log.jsonl") or os.path.getsize("out/log.jsonl") == 0:
    time.sleep(0.01)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
