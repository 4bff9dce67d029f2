"""Layouts: which axis each dim of a tensor is, by letters, and where axes are cut into blocks.

    NCHW, NHWC       the dims of images: N the batch, C channels, H and W rows and columns
    NCHW16c          channel c is element c % 16 of block c // 16: C is which block, 16c which element
    OIHW4i16o        weights, in blocks of 4 input and 16 output channels

A capital is an axis, or what its blocks leave of it. Several blocks of an axis lie in each other, the first outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from legato.arith.assume import surely_equal
from legato.arith.expr import Expr, ExprLike, cdiv, const, expr, floordiv, floormod
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.ir.types import Dim

__all__ = ["Layout", "divided", "is_blocked", "layout"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """`dims`: for each dim of a tensor the letter of its axis, and the size of the block that it is (0: none)."""

    dims: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return "".join(f"{size}{letter.lower()}" if size else letter for letter, size in self.dims)

    @property
    def letters(self) -> str:
        """The axes, in order."""
        return "".join(letter for letter, size in self.dims if not size)

    @property
    def is_blocked(self) -> bool:
        """Whether an axis is cut into blocks."""
        return any(size for _, size in self.dims)

    def places(self, letter: str) -> tuple[int, ...]:
        """The dims of an axis: what is left of it by its blocks, then these."""
        whole = [n for n, (name, size) in enumerate(self.dims) if name == letter and not size]
        return (*whole, *(n for n, (name, size) in enumerate(self.dims) if name == letter and size))

    def block(self, letter: str) -> int:
        """How many elements of an axis its blocks hold; 1 where it has none."""
        total = 1
        for name, size in self.dims:
            if name == letter and size:
                total *= size
        return total

    def renamed(self, names: Mapping[str, str]) -> Layout:
        """The same with other letters."""
        return Layout(tuple((names[letter], size) for letter, size in self.dims))

    # ------------------------------------------------------------------ extents and subscripts

    def extents(self, shape: Sequence[Dim]) -> dict[str, Dim]:
        """The extent of each axis of a tensor of `shape`."""
        return {letter: shape[self.places(letter)[0]] * self.block(letter) for letter in self.letters}

    def shape(self, extents: Mapping[str, Dim]) -> tuple[Dim, ...]:
        """The shape of a tensor with axes of `extents`; a last block may be filled in part."""
        return tuple(
            const(size) if size else _blocks(extents[letter], self.block(letter)) for letter, size in self.dims
        )

    def values(self, index: Sequence[Expr]) -> dict[str, Expr]:
        """The subscripts along each axis at dims' subscripts `index`."""
        found: dict[str, Expr] = {}
        for letter in self.letters:
            first, *blocks = self.places(letter)
            value = index[first]
            for n in blocks:
                value = value * self.dims[n][1] + index[n]
            found[letter] = value
        return found

    def index(self, values: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """The subscripts of dims at axes' subscripts `values`."""
        placed: dict[int, Expr] = {}
        for letter in self.letters:
            first, *blocks = self.places(letter)
            value, inner = values[letter], 1
            for n in reversed(blocks):
                size = self.dims[n][1]
                placed[n] = floormod(floordiv(value, const(inner)) if inner > 1 else value, const(size))
                inner *= size
            placed[first] = floordiv(value, const(inner)) if blocks else value
        return tuple(placed[n] for n in range(len(self.dims)))

    # ------------------------------------------------------------------ arrays

    def axes_of(self, x: Array, letters: str) -> Array:
        """`x`, which has this layout, with its axes in the order of `letters`, whole (a view without blocks)."""
        order = [n for letter in letters for n in self.places(letter)]
        moved = np.transpose(x, order)
        if not self.is_blocked:
            return moved
        shape = [x.shape[self.places(letter)[0]] * self.block(letter) for letter in letters]
        return moved.reshape(shape)

    def of_axes(self, x: Array, letters: str) -> Array:
        """`x`, whose axes are whole and in the order of `letters`, in this layout; zeros fill the last blocks."""
        sizes = [self.block(letter) for letter in letters]
        if self.is_blocked:
            x = np.pad(x, [(0, -extent % size) for extent, size in zip(x.shape, sizes, strict=True)])
        shape: list[int] = []
        order: list[int] = []
        for letter, extent, size in zip(letters, x.shape, sizes, strict=True):
            places = self.places(letter)
            shape += [extent // size, *(self.dims[n][1] for n in places[1:])]
            order += places
        return np.transpose(x.reshape(shape), np.argsort(order))


def divided(d: ExprLike, by: int) -> Dim | None:
    """d / by; None unless `by` surely divides it."""
    d = expr(d)
    part = simplify(floordiv(d, const(by)))
    return part if by == 1 or surely_equal(part * by, d) else None


def _blocks(d: Dim, size: int) -> Dim:
    """How many blocks hold `d` elements."""
    if size == 1:
        return d
    part = divided(d, size)
    return cdiv(d, size) if part is None else part


def is_blocked(text: str) -> bool:
    """Whether the layout `text`, which may be "" for that of something else, has blocks."""
    return bool(text) and layout(text).is_blocked


@cache
def layout(text: str) -> Layout:
    """The layout that `text` names. TypeCheckError where it names none."""
    found = [(letter, int(size or 0)) for size, letter in re.findall(r"(\d{0,9})([A-Za-z])", text)]
    whole = [letter for letter, size in found if letter.isupper()]
    is_one = (
        "".join(f"{size or ''}{letter}" for letter, size in found) == text
        and all((size > 0) == letter.islower() for letter, size in found)
        and len(set(whole)) == len(whole)
        and {letter.upper() for letter, _ in found} == set(whole)
    )
    if not is_one:
        hint = "write a capital for each axis, and blocks as numbers with small letters: NCHW, NCHW16c"
        raise TypeCheckError(f"{text!r} is not a layout", hint=hint)
    return Layout(tuple((letter.upper(), size) for letter, size in found))
