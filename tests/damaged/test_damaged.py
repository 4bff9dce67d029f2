"""Damaged files and odd command lines: some of each kind; `make damaged` tries thousands.

ONNX's node tests, damaged, are in tests/frontend/onnx/test_damage.py; real models are `make fuzz-import`'s.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import onnx
import pytest
from google.protobuf.message import DecodeError

from tests.damaged.smaller import kind_of, smaller
from tests.damaged.structure import nodes_within
from tests.damaged.trees import altered_message
from tests.frontend.onnx.random_graphs import draw

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["onnx", "text", "json", "script", "artifact", "command"])
def test_some_of_each_kind(kind: str, tmp_path: Path) -> None:
    arguments = ["--kinds", kind, "--files", "40", "--commands", "40", "--jobs", "1", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "tests.damaged", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 tried" in done.stdout


def test_altered_messages_are_messages() -> None:
    """What is around the damage still fits: protobuf reads most of them."""
    proto = draw(0).proto
    data, read = proto.SerializeToString(), 0
    for seed in range(100):
        changed = altered_message(data, Random(seed))
        with suppress(DecodeError):
            read += type(proto).FromString(changed) != proto
    assert read > 50


def test_what_goes_wrong_is_made_small() -> None:
    """One node of a graph is what something dislikes; the rest is left out."""
    proto = next(found for seed in range(100) if len((found := draw(seed).proto).graph.node) > 5)
    bad = proto.graph.node[len(proto.graph.node) // 2].op_type
    verdict = 'File "/a/b.py", line 7, in f\nKeyError: 1'

    def fails(content: bytes) -> str | None:
        ops = [node.op_type for node in nodes_within(onnx.ModelProto.FromString(content))]
        return verdict.replace(": 1", f": {len(ops)}") if bad in ops else None

    left = onnx.ModelProto.FromString(smaller(proto.SerializeToString(), verdict, fails))
    assert [node.op_type for node in left.graph.node] == [bad]
    assert not left.graph.input
    assert kind_of(verdict) == "b.py:7 KeyError"
    assert smaller(b"\xff", verdict, fails) == b"\xff"
