"""Sizes: integer expressions over named dims, as data that survives JSON.

    size = int | name | (operator, size, …)        operators: `OPERATORS`; JSON writes the tuples as lists

The compiler's expressions become sizes when a program is finished. They are few and small here, and evaluating one
must neither import the compiler nor run text from a file: `compile_size` builds closures out of a fixed table.

Compiled code computes in 64 bits. So no size, and no part of one, may leave them: evaluation ends with a RunError
there, instead of values that compiled code would not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from legato.base.errors import InternalError, RunError

__all__ = [
    "OPERATORS",
    "Bytes",
    "Evaluator",
    "Formula",
    "Size",
    "SizeError",
    "SizeOverflow",
    "combine",
    "compile_size",
    "names",
    "parse_size",
    "show",
]

Size = int | str | tuple["Size", ...]
Evaluator = Callable[[Sequence[int]], int]

MAX_DEPTH: Final = 200
MAX_NODES: Final = 100_000  # extents that broadcasting decides are written out in each size that has them
MAX_VALUE: Final = 2**63 - 1
_SHOWN: Final = 200  # characters of a size in an error


def _floordiv(a: int, b: int) -> int:
    return a // b if b else 0


def _floormod(a: int, b: int) -> int:
    return a % b if b else 0


# Meanings are arith's, on integers of 64 bits. "+", "*", "min" and "max" take two or more operands.
OPERATORS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": _floordiv,
    "%": _floormod,
    "min": min,
    "max": max,
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "and": lambda a, b: int(bool(a) and bool(b)),
    "or": lambda a, b: int(bool(a) or bool(b)),
}
_GROWING: Final = frozenset({"+", "-", "*"})  # whose results may be larger than their operands
_MANY: Final = frozenset({"+", "*", "min", "max"})
_SELECT: Final = "select"  # (select, condition, a, b)


class SizeError(ValueError):
    """Data that is no size; the reader of a file says where it was."""


def parse_size(data: object) -> Size:
    """The size that JSON `data` stands for; SizeError for anything else, and beyond MAX_DEPTH or MAX_NODES."""
    budget = [MAX_NODES]
    return _parse(data, MAX_DEPTH, budget)


def _parse(data: object, depth: int, budget: list[int]) -> Size:
    budget[0] -= 1
    if depth == 0 or budget[0] < 0:
        raise SizeError(f"a size may nest {MAX_DEPTH} deep and have {MAX_NODES} nodes; this one exceeds that")
    if type(data) is int and abs(data) > MAX_VALUE:
        raise SizeError(f"a size of {data.bit_length()} bits; there are 64")
    if isinstance(data, str) or type(data) is int:
        return data
    if not isinstance(data, list | tuple) or not data:
        raise SizeError(f"got {data!r}, wanted an integer, a dim's name or [operator, operands…]")
    op, *operands = data
    if not isinstance(op, str):
        raise SizeError(f"got {op!r}, wanted the name of an operator")
    arity_ok = len(operands) == 3 if op == _SELECT else len(operands) == 2 or (op in _MANY and len(operands) > 2)
    if (op not in OPERATORS and op != _SELECT) or not arity_ok:
        raise SizeError(f"unknown operator {op!r} on {len(operands)} operands")
    return (op, *(_parse(operand, depth - 1, budget) for operand in operands))


def combine(op: str, a: Size, b: Size) -> Size:
    """`a op b`, where the operator takes many operands as one flat node: long sums do not nest deeply."""
    if op in _MANY and isinstance(a, tuple) and a[0] == op:
        return (*a, b)
    return (op, a, b)


def names(size: Size) -> Iterator[str]:
    """The names of dims in `size`, left to right, with repetitions."""
    stack: list[Size] = [size]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, tuple):
            stack += reversed(node[1:])


def compile_size(size: Size, dims: Sequence[str]) -> Evaluator:
    """A function from the values of `dims`, in that order, to the value of `size`; RunError beyond MAX_VALUE."""
    if isinstance(size, int):
        return lambda env: size
    if isinstance(size, str):
        if size not in dims:
            raise InternalError(f"size {size!r} is not among the dims {', '.join(dims)}")
        at = dims.index(size)
        return lambda env: env[at]
    op = size[0]
    operands = [compile_size(operand, dims) for operand in size[1:]]
    if op == _SELECT:
        cond, then, orelse = operands
        return lambda env: then(env) if cond(env) else orelse(env)
    assert isinstance(op, str)
    value = _fold(OPERATORS[op], operands)
    return _within_bounds(value, size) if op in _GROWING else value


class SizeOverflow(RunError):
    """A size, or a part of one, that 64 bits do not hold."""

    def __init__(self, size: Size) -> None:
        text = show(size)
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        super().__init__(f"out of memory: the size {shown} is beyond 2^63")
        self.size = size


def _within_bounds(evaluate: Evaluator, size: Size) -> Evaluator:
    def checked(env: Sequence[int]) -> int:
        value = evaluate(env)
        if abs(value) > MAX_VALUE:
            raise SizeOverflow(size)
        return value

    return checked


def _fold(f: Callable[[int, int], int], operands: list[Evaluator]) -> Evaluator:
    if len(operands) == 2:
        a, b = operands
        return lambda env: f(a(env), b(env))

    def many(env: Sequence[int]) -> int:
        total = operands[0](env)
        for operand in operands[1:]:
            total = f(total, operand(env))
        return total

    return many


_TIGHTNESS: Final = {"or": 1, "and": 2, "<": 3, "<=": 3, "==": 3, "!=": 3, "+": 4, "-": 4, "*": 5, "//": 5, "%": 5}


def show(size: Size) -> str:
    """`size` as a person writes it: `2*n + 1`."""
    return _show(size, 0)


def _show(size: Size, outer: int) -> str:
    if not isinstance(size, tuple):
        return str(size)
    op = size[0]
    assert isinstance(op, str)
    tightness = _TIGHTNESS.get(op)
    if tightness is None:
        return f"{op}({', '.join(_show(operand, 0) for operand in size[1:])})"
    # The operators group to the left: the first operand may be as loose as the operator, the others are tighter.
    operands = [_show(operand, tightness + (i > 0)) for i, operand in enumerate(size[1:])]
    text = ("*" if op == "*" else f" {op} ").join(operands)
    return f"({text})" if tightness < outer else text


class Formula:
    """A size to look at and to evaluate: `f.formula`, `f(n=3)`, and `int(f)` where it holds no dims."""

    __slots__ = ("_evaluate", "dims", "size")

    def __init__(self, size: Size) -> None:
        self.size = size
        self.dims = tuple(dict.fromkeys(names(size)))
        self._evaluate = compile_size(size, self.dims)

    def __call__(self, **dims: int) -> int:
        """The value for these dims; names that the formula does not use are ignored, TypeError for missing ones.

        RunError for a value beyond 64 bits, and for dims that are no integers or negative.
        """
        missing = [name for name in self.dims if name not in dims]
        if missing:
            raise TypeError(f"the formula {self.formula} also needs {', '.join(missing)}")
        values = [dims[name] for name in self.dims]
        for name, value in zip(self.dims, values, strict=True):
            if not hasattr(value, "__index__") or not 0 <= int(value) <= MAX_VALUE:
                raise RunError(f"dim {name}: got {value!r}, wanted an integer from 0 to 2^63")
        return self._evaluate([int(value) for value in values])

    def __int__(self) -> int:
        return self()

    @property
    def formula(self) -> str:
        """The formula as text: `4*n`."""
        return show(self.size)

    def __str__(self) -> str:
        return self.formula

    def __repr__(self) -> str:
        return f"<formula {self.formula}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and other.size == self.size

    def __hash__(self) -> int:
        return hash(self.size)


class Bytes(Formula):
    """A formula of bytes, whose text begins with how many these are at the smallest sizes that are usual: `least` has
    them by dim."""

    __slots__ = ("least",)

    def __init__(self, size: Size, least: Mapping[str, int]) -> None:
        super().__init__(size)
        self.least = {name: least[name] for name in self.dims}

    @property
    def smallest(self) -> int:
        """The bytes at the sizes `least`; RunError for more than 64 bits hold."""
        return self(**self.least)

    def __str__(self) -> str:
        """`64 bytes at n = 1: 64*n`; of a formula without dims, `64 bytes`."""
        if not self.dims:
            return f"{int(self)} bytes"
        at = ", ".join(f"{name} = {value}" for name, value in self.least.items())
        return f"{self.smallest} bytes at {at}: {self.formula}"
