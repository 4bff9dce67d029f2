"""A model with which something goes wrong, with less in it: what is left out changes nothing of what goes wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

__all__ = ["Fails", "kind_of", "smaller"]

Fails = Callable[[bytes], str | None]  # what is wrong with a model's bytes; None: nothing
MOST = 200  # attempts


def kind_of(verdict: str) -> str:
    """What a verdict has in common with that of a smaller model: where an error was raised and of which kind it is."""
    places = re.findall(r'File "([^"]+)", line (\d+)', verdict)
    last = verdict.strip().splitlines()[-1] if verdict.strip() else ""
    return f"{Path(places[-1][0]).name}:{places[-1][1]} {last.partition(':')[0]}" if places else last


def smaller(content: bytes, verdict: str, fails: Fails, most: int = MOST) -> bytes:
    """`content` without what may be left out of it; as it is where it is no message."""
    base = onnx.ModelProto()
    try:
        base.ParseFromString(content)
    except DecodeError:
        return content
    wanted, left = kind_of(verdict), most

    def still(candidate: onnx.ModelProto) -> bool:
        nonlocal left
        left -= 1
        found = fails(candidate.SerializeToString())
        return found is not None and kind_of(found) == wanted

    for name in ("graph.node", "graph.initializer", "functions", "graph.value_info", "graph.input", "graph.output"):
        size = max(1, len(_field(base, name)) // 2)
        while left > 0 and _field(base, name):
            found = next((c for c in _without(base, name, size) if left > 0 and still(c)), None)
            if found is not None:
                base = found
            elif size == 1:
                break
            else:
                size = -(-size // 2)
    return base.SerializeToString()


def _field(base: onnx.ModelProto, name: str) -> list[object]:
    found: object = base
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value]  # a repeated field


def _without(base: onnx.ModelProto, name: str, size: int) -> Iterator[onnx.ModelProto]:
    """The model without `size` elements of a field, those at each place in turn."""
    for at in range(0, len(_field(base, name)), size):
        found = onnx.ModelProto()
        found.CopyFrom(base)
        del _field(found, name)[at : at + size]
        yield found
