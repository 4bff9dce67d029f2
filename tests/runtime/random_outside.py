"""Random programs with effects: packed functions, prints and assertions in branches, loops, functions, cells."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

import numpy as np

__all__ = ["arguments", "functions", "program"]

VECTOR, DEPTH = "Tensor[(n,), float32]", 3


class _Writer:
    """Writes one function: `callees` are functions of one vector that it may call."""

    def __init__(self, r: Random, callees: list[str]) -> None:
        self.r, self.callees, self.count = r, callees, count()

    def name(self, kind: str = "v") -> str:
        return f"%{kind}{next(self.count)}"

    def vector(self, known: list[str], depth: int) -> str:
        """An expression of type VECTOR over the names `known`."""
        r, x = self.r, self.r.choice(known)
        if depth <= 0:
            return x
        a = self.vector(known, depth - 1)
        return r.choice([
            lambda: x,
            lambda: f"({a} + {x})",
            lambda: f"abs({a})",
            lambda: f'call_packed(({a},), name="log", shapes=[[n]], dtypes=[float32])',
            lambda: f'call_packed(({a}, {x}), name="add", shapes=[[n]], dtypes=[float32])',
            lambda: f'call_pure_packed(({a},), name="half", shapes=[[n]], dtypes=[float32])',
            lambda: f'call_dps_packed(({a},), name="fill", shapes=[[n]], dtypes=[float32])',
            lambda: f'match_cast(call_packed(({a},), name="same", shapes=[[None]], dtypes=[float32]), {VECTOR})',
            lambda: self.choice(known, depth - 1),
            lambda: f"{r.choice(self.callees)}({a})" if self.callees else a,
        ])()  # fmt: skip

    def choice(self, known: list[str], depth: int) -> str:
        """A choice between blocks."""
        test = f"if (sum({self.vector(known, depth)}) > {self.r.randint(-2, 4)}f)"
        return f"({test} {self.block(known, depth)} else {self.block(known, depth)})"

    def block(self, known: list[str], depth: int) -> str:
        """A block with a value of type VECTOR."""
        known, lines = list(known), []
        for _ in range(self.r.randint(0, 3)):
            lines.append(self.statement(known, depth))
        lines.append(self.vector(known, depth))
        return "{ " + " ".join(lines) + " }"

    def statement(self, known: list[str], depth: int) -> str:
        """A binding, whose name may be known from then on, or a node that is shared."""
        r, a = self.r, self.vector(known, depth)
        kind = r.randrange(7)
        name = self.name("" if kind == 6 else "v")
        if kind == 0:
            return f'let %_ = print({a}, {r.choice(known)}, format="{{1}} {name} {{0}}");'
        if kind == 1:
            return f"let %_ = assert_op(sum({a}) < {r.choice((8, 20, 1000))}f, ({a},));"
        if kind == 2:
            return f'let %_ = call_packed(({a}, shape[n, 2 * n]), name="event");'
        if kind == 3:
            cell = self.name()
            known.append(name)
            write = f"ref_write({cell}, {self.vector(known[:-1], 1)})"
            return f"let {cell} = ref({a}); {write}; let {name} = ref_read({cell});"
        if kind == 4 and depth > 0:
            param = self.name()
            body = self.block([*known, param], depth - 1)
            known.append(name)
            return f"let %f{name[1:]} = fn ({param}: {VECTOR}) {body}; let {name} = %f{name[1:]}(%f{name[1:]}({a}));"
        known.append(name)
        return f"let {name} = {a};" if kind < 6 else f"{name} = {a};"


def program(seed: int) -> str:
    """The text of a module whose @main takes a vector."""
    r = Random(seed)
    functions, names = [], []
    for n in range(r.randint(0, 2)):
        body = _Writer(r, list(names)).block(["%x"], 2)
        functions.append(f"def @f{n}[n: ShapeVar](%x: {VECTOR}) -> {VECTOR} {body}")
        names.append(f"@f{n}")
    step = _Writer(r, list(names)).vector(["%x"], 2)
    loop = f"let %_ = print(%i, %x); if (%i == 0) {{ %x }} else {{ @loop(%i - 1, {step}) }}"
    functions.append(f"def @loop[n: ShapeVar](%i: int32, %x: {VECTOR}) -> {VECTOR} {{ {loop} }}")
    body = _Writer(r, names).block(["%x"], DEPTH)
    functions.append(f"def @main[n: ShapeVar](%x: {VECTOR}) -> {VECTOR} {{ let %y = {body}; @loop(2, %y) }}")
    return '#[version = "0.0.5"]\n' + "\n".join(functions)


def functions(events: list[object]) -> dict[str, Callable[..., Any]]:
    """What the programs call; `events` get what those with effects are given."""

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            events.append((name, [a.tolist() if isinstance(a, np.ndarray) else a for a in args]))
            return function(*args)

        return call

    return {
        "log": noted("log", lambda x: x + np.float32(1)),
        "add": noted("add", lambda x, y: x + y),
        "same": noted("same", lambda x: x),
        "event": noted("event", lambda x, shape: None),
        "half": lambda x: x / np.float32(2),
        "fill": lambda x, out: out.__setitem__(..., -x),
    }


def arguments(seed: int) -> np.ndarray[Any, Any]:
    """A vector."""
    return np.random.default_rng(seed).integers(-2, 3, seed % 4).astype(np.float32)
