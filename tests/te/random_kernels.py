"""Random kernels as text: nests of loops that store, add, shift, guard and permute, many of them tensor expressions.

A kernel takes X (n × m), W (m) and gives Y (n × m) and Z (n); T (n × m), S (n) and C (one element) are temporaries.
"""

from __future__ import annotations

from random import Random
from typing import Final

__all__ = ["kernel"]

SHAPES: Final = {"X": "nm", "W": "m", "Y": "nm", "Z": "n", "T": "nm", "S": "n", "C": ""}
STORED: Final = ("Y", "Y", "Z", "T", "S", "C")
HEAD: Final = """kernel @k(X: Buffer[(n, m), float32], W: Buffer[(m,), float32], Y: Buffer[(n, m), float32],
  Z: Buffer[(n,), float32], n: index[0..], m: index[0..]) {
  alloc T: Buffer[(n, m), float32]; alloc S: Buffer[(n,), float32]; alloc C: Buffer[(), float32];
"""


class _Writer:
    def __init__(self, luck: Random) -> None:
        self.luck = luck
        self.count = 0

    def kernel(self) -> str:
        body = "".join(self.statement((), 0) for _ in range(self.luck.randint(1, 4)))
        return f"{HEAD}{body}}}\n"

    def statement(self, loops: tuple[tuple[str, str], ...], depth: int) -> str:
        """A statement in `loops`, pairs of what is below an extent, and that."""
        pick = self.luck.random()
        if pick < (0.75 if depth < 2 else 0.3 if depth < 3 else 0):
            return self.loop(loops, depth)
        if pick > 0.93 and loops:
            other = f" else {{ {self.store(loops)} }}" if self.luck.random() < 0.4 else ""
            return f"if {self.condition(loops)} {{ {self.store(loops)} }}{other}\n"
        if pick > 0.9 and loops:
            name = self.name("l")
            return f"{{ let {name}: float32 = {self.value(loops, 1)}; {self.store(loops, name)} }}\n"
        return self.store(loops)

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def loop(self, loops: tuple[tuple[str, str], ...], depth: int) -> str:
        if self.luck.random() < 0.06:
            v = self.name("f")
            inner = (*loops, (f"({v} // m)", "n"), (f"({v} % m)", "m"))
            return f"for {v} in 0..n * m {{ {self.statement(inner, depth + 2)} }}\n"
        left = [e for e in "nm" if e not in {x for _, x in loops}]
        extent = self.luck.choice(left) if left and self.luck.random() < 0.85 else self.luck.choice(["n", "m", "2"])
        v = self.name("v")
        inner = (*loops, (v, extent))
        count = 1 if self.luck.random() < 0.7 else 2
        body = "".join(self.statement(inner, depth + 1) for _ in range(count))
        return f"for {v} in 0..{extent} {{ {body} }}\n"

    def index(self, extent: str, loops: tuple[tuple[str, str], ...]) -> str:
        """A subscript below `extent`."""
        own = [v for v, e in loops if e == extent]
        pick = self.luck.random()
        if own and pick < 0.85:
            return self.luck.choice(own)
        if own and pick < 0.93:
            v = own[0]
            return self.luck.choice([f"{extent} - 1 - {v}", f"({v} + 1) % {extent}", f"max({v} - 1, 0)"])
        other = [v for v, _ in loops]
        return f"{self.luck.choice(other)} % {extent}" if other and pick < 0.97 else f"0 % {extent}"

    def place(self, buffer: str, loops: tuple[tuple[str, str], ...]) -> str:
        return f"{buffer}[{', '.join(self.index(e, loops) for e in SHAPES[buffer])}]"

    def condition(self, loops: tuple[tuple[str, str], ...]) -> str:
        v = self.luck.choice(loops)[0]
        other = self.luck.choice(loops)[0]
        return self.luck.choice([f"{v} == 0", f"{v} < 2", f"{v} <= {other}", f"{v} % 2 == 1", f"W[{v} % m] < 0f"])

    def store(self, loops: tuple[tuple[str, str], ...], extra: str = "") -> str:
        buffer = self.luck.choice(STORED)
        place = self.place(buffer, loops)
        value = f"{extra} + {self.value(loops, 1)}" if extra else self.value(loops, 2)
        if self.luck.random() < 0.35:
            value = self.luck.choice([f"{place} + {value}", f"max({place}, {value})", f"{place} - ({value}) * 0.5f"])
        guarded = f"if m > 0 and n > 0 {{ {place} = {value}; }}" if "%" in place else f"{place} = {value};"
        return f"{guarded}\n"

    def value(self, loops: tuple[tuple[str, str], ...], depth: int) -> str:
        pick = self.luck.random()
        if depth == 0 or pick < 0.35:
            return self.load(loops)
        a, b = self.value(loops, depth - 1), self.value(loops, depth - 1)
        if loops and pick < 0.45:
            return f"select({self.condition(loops)}, {a}, {b})"
        return self.luck.choice([f"({a} + {b})", f"({a} * {b})", f"max({a}, {b})", f"tanh({a})", f"({a} - {b})"])

    def load(self, loops: tuple[tuple[str, str], ...]) -> str:
        if self.luck.random() < 0.2:
            return self.luck.choice(["0f", "1f", "-0.5f"])
        place = self.place(self.luck.choice(["X", "X", "W", *SHAPES]), loops)
        return f"select(m > 0 and n > 0, {place}, 0f)" if "%" in place else place


def kernel(seed: int) -> str:
    """Kernel number `seed`."""
    return _Writer(Random(f"kernels {seed}")).kernel()
