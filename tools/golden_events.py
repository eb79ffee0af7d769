#!/usr/bin/env python3
"""Writes tests/golden/events.bin: the records of an event file as tensorboard's own messages and
record writer make them. test_log_tensorboard.c writes the same events. Needs the package tensorboard.
Usage: golden_events.py [ROOT]."""
import io
import pathlib
import sys

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.summary.writer.record_writer import RecordWriter

NOW = 1700000000.25


def scalar(step, tag, value):
    return Event(wall_time=NOW, step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)]))


def text(step, tag, words):
    tensor = TensorProto(dtype="DT_STRING", string_val=[words.encode()],
                         tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]))
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return Event(wall_time=NOW, step=step,
                 summary=Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=metadata)]))


EVENTS = [
    Event(wall_time=NOW, file_version="brain.Event:2"),
    Event(wall_time=NOW, step=101, session_log=SessionLog(status=SessionLog.START)),
    scalar(0, "loss/train", 10.5),
    scalar(150, "loss/train", 3.14159),
    scalar(1 << 40, "lr", -0.0),
    scalar(3, "nan", float("nan")),
    text(200, "sample", "Once upon a tïme\n" * 20),
]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    out = io.BytesIO()
    writer = RecordWriter(out)
    for event in EVENTS:
        writer.write(event.SerializeToString())
    (root / "tests/golden/events.bin").write_bytes(out.getvalue())


if __name__ == "__main__":
    main()
