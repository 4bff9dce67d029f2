"""A run as a trace that Perfetto and chrome://tracing show (the Trace Event Format, JSON object form)."""

from __future__ import annotations

import json

from legato.profile.report import Profile

__all__ = ["trace_json"]


def trace_json(p: Profile) -> str:
    """One complete event for each launch of a kernel, on the lane "program", and one for each thread's share of it."""
    lanes = sorted({event.lane for event in p.events})
    named = [
        {
            "name": "thread_name",
            "ph": "M",
            "pid": 1,
            "tid": lane,
            "args": {"name": f"thread {lane}" if lane else "program"},
        }
        for lane in lanes
    ]
    events = [
        {
            "name": e.name,
            "cat": e.kind,
            "ph": "X",
            "pid": 1,
            "tid": e.lane,
            "ts": round(e.start * 1e6, 3),
            "dur": round(e.seconds * 1e6, 3),
            "args": dict(e.details),
        }
        for e in p.events
    ]
    other = {"target": p.target, "threads": p.threads}
    return json.dumps({"traceEvents": named + events, "displayTimeUnit": "ms", "otherData": other})
