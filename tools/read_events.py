#!/usr/bin/env python3
"""Prints what TensorBoard reads in a folder of event files: a line for each scalar ("TAG STEP VALUE")
and each text ("TAG STEP TEXT"). Needs the package tensorboard. Usage: read_events.py FOLDER."""
import logging
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: read_events.py FOLDER")
    logging.disable(logging.WARNING)
    events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    for tag in sorted(tags["scalars"]):
        for event in events.Scalars(tag):
            print(f"{tag} {event.step} {event.value:.2f}")
    for tag in sorted(tags["tensors"]):
        for event in events.Tensors(tag):
            print(f"{tag} {event.step} {b' '.join(event.tensor_proto.string_val).decode()}")


if __name__ == "__main__":
    main()
