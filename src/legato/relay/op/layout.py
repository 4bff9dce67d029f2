"""Changes of layout, as transposes and reshapes."""

from __future__ import annotations

import re
from typing import Any

from legato.base.errors import TypeCheckError, UnsupportedError
from legato.ir.expr import Expr
from legato.ir.types import TensorType
from legato.relay.op._functions import function

__all__ = ["layout_transform"]

Axis = tuple[str, int]  # the letter, and the size of a block (0: not a block)


def layout_transform(data: Expr, src_layout: str, dst_layout: str) -> Any:
    """`data` of layout `src_layout` ("NCHW", "NCHW16c", …) in layout `dst_layout`.

    The original has an operator for this; here it is a transpose, between reshapes where letters are split into blocks.
    TypeCheckError for layouts that do not have the same letters; UnsupportedError where blocks are joined or split and
    the type of `data` is not known.
    """
    if src_layout == dst_layout:
        return data
    source, target = _axes(src_layout), _axes(dst_layout)
    if {name for name, _ in source} != {name for name, _ in target}:
        raise TypeCheckError(f"layouts {src_layout} and {dst_layout} have different letters")
    if sorted(source) == sorted(target):
        return function("transpose")(data, [source.index(axis) for axis in target])
    return _through_blocks(data, source, target)


def _axes(layout: str) -> list[Axis]:
    """The dims of a layout: a capital is a whole dim or what is left of it, a number with a small letter a block."""
    found = [(letter.upper(), int(size or 0)) for size, letter in re.findall(r"(\d{0,9})([A-Za-z])", layout)]
    if "".join(f"{size or ''}{letter.lower() if size else letter}" for letter, size in found) != layout:
        raise TypeCheckError(f"{layout!r} is not a layout", hint="write one like NCHW or NCHW16c")
    return found


def _blocks(letter: str, axes: list[Axis]) -> list[int]:
    return [size for name, size in axes if name == letter and size]


def _through_blocks(data: Expr, source: list[Axis], target: list[Axis]) -> Any:
    """Whole letters first (blocks joined), then blocks split."""
    if not isinstance(data.ty, TensorType):
        raise UnsupportedError("layout_transform needs the type of its argument", hint="infer types first")
    if len(data.ty.shape) != len(source):
        raise TypeCheckError(f"a layout of {len(source)} dims for a tensor of {len(data.ty.shape)}")
    extents = dict(zip(source, data.ty.shape, strict=True))
    letters = list(dict.fromkeys(name for name, _ in source))
    parts = {name: [axis for axis in source if axis[0] == name] for name in letters}
    joined = [axis for name in letters for axis in sorted(parts[name], key=lambda a: a[1] != 0)]
    whole = {}
    for name in letters:
        whole[name] = extents[parts[name][0]]
        for axis in parts[name][1:]:
            whole[name] = whole[name] * extents[axis]
    x = function("transpose")(data, [source.index(axis) for axis in joined])
    x = function("reshape")(x, [whole[name] for name in letters])
    split: list[tuple[Axis, Any]] = []
    for name in letters:
        outer = whole[name]
        blocks = _blocks(name, target)
        for size in blocks:
            outer = outer // size
        split += [((name, 0), outer), *(((name, size), size) for size in blocks)]
    x = function("reshape")(x, [extent for _, extent in split])
    order = [axis for axis, _ in split]
    return function("transpose")(x, [order.index(axis) for axis in target])
