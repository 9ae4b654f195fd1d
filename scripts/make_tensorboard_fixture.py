"""Writes tests/fixtures/tensorboard/scalars.tfevents with tensorboard's own code.

Needs `pip install tensorboard==2.20.0` (and setuptools<81); run from the repository root.
"""

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter


def scalar(wall_time, step, tag, value):
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
    return Event(wall_time=wall_time, step=step, summary=summary)


EVENTS = [
    Event(wall_time=1.5, file_version="brain.Event:2"),
    Event(wall_time=2.5, step=8, session_log=SessionLog(status=SessionLog.START)),
    scalar(3.25, 300, "loss", 0.75),
    scalar(4.0, 301, "alpha/encoder.0.0.R", -1e-3),
]

with open("tests/fixtures/tensorboard/scalars.tfevents", "wb") as file:
    writer = RecordWriter(file)
    for event in EVENTS:
        writer.write(event.SerializeToString())
    writer.flush()
