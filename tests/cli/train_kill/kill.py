"""Kills a run of training at random moments, again and again, with another number of threads each
time, and compares it with a run that nobody touched: every loss of the log, and the bytes of the
model. FOCAL_TEST_KILLS says how often (5); the seed is printed when something differs."""
import json
import os
import random
import subprocess
import sys
import time

focal, kills = os.environ["FOCAL"], int(os.environ.get("FOCAL_TEST_KILLS", "5"))
seed = int(os.environ.get("FOCAL_TEST_SEED", random.randrange(1 << 30)))
chance = random.Random(seed)


def command(out, threads, *more):
    return [focal, "train", "run.conf", "-o", out, "-t", str(threads), "-q", *more]


def curve(out):
    with open(f"{out}/log.jsonl", encoding="utf-8") as log:
        lines = [json.loads(line) for line in log]
    for line in lines:
        line.pop("seconds", None)  # all else is the same to the bit
    return lines


def model(out):
    with open(f"{out}/model/model.safetensors", "rb") as file:
        return file.read()


begin = time.monotonic()
subprocess.run(command("whole", 2), check=True)
whole_seconds = time.monotonic() - begin
killed = ended = 0
while killed < kills:
    process = subprocess.Popen(command("killed", 1 + killed % 3))
    try:  # some die while they start, some in a step, a save, or the end
        process.wait(timeout=chance.uniform(0.0, 1.2 * whole_seconds))
        ended += 1
        if ended > kills:
            break  # it has been finished for long
        subprocess.run(["rm", "-rf", "killed"], check=True)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        killed += 1
subprocess.run(command("killed", 1), check=True)
if curve("killed") != curve("whole") or model("killed") != model("whole"):
    sys.exit(f"the runs differ; FOCAL_TEST_SEED={seed}")
print("equal")
