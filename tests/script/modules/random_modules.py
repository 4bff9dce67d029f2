"""Random modules of both levels, as scripts: graph functions that call random tensor programs with symbolic dims.

A program takes X (n), W (n × m) and an int32 vector K (n), and gives Y, of a shape over n, m and p. Its statements are
maps, reductions in blocks, shifts that a guard or a select keeps inside, subscripts that data tells, temporaries,
cells, and loops of every kind; some subscripts are not kept inside, so that calls fail where the interpreter says so.
"""

from __future__ import annotations

from random import Random
from typing import Final

__all__ = ["script"]

DTYPES: Final = {"X": "float32", "W": "float32", "K": "int32", "Y": "float32"}
SHAPES: Final = (("n",), ("n", "m"), ("m",), ("n + 1",), ("n * m",), ("4",), (), ("p",), ("p", "m"))


class _Kernel:
    """Writes one tensor program; `lines` are those of its body."""

    def __init__(self, luck: Random, name: str) -> None:
        self.luck = luck
        self.name = name
        self.shape = luck.choice(SHAPES)
        self.is_inplace = luck.random() < 0.2
        if self.is_inplace:
            self.shape = ("n",)
        self.lines: list[str] = []

    def text(self) -> str:
        shape = "".join(f'"{d}", ' if not d.isdigit() else f"{d}, " for d in self.shape)
        out = "" if self.is_inplace else f', Y: T.Buffer(({shape}), "float32")'
        given = 'X: T.Buffer(("n",), "float32"), W: T.Buffer(("n", "m"), "float32"), K: T.Buffer(("n",), "int32")'
        head = f"def {self.name}({given}{out}):"
        self.statements()
        body = "".join(f"        {line}\n" for line in self.lines)
        dims = "n, m, p = T.int64(), T.int64(), T.int64()" if "p" in self.shape else "n, m = T.int64(), T.int64()"
        return f"    @T.prim_func\n    {head}\n        {dims}\n{body}\n"

    def statements(self) -> None:
        for _ in range(self.luck.randint(1, 2)):
            self.luck.choice(
                [self.map, self.map, self.reduction, self.guarded, self.temporary, self.cell, self.turns]
            )()

    @property
    def target(self) -> str:
        return "X" if self.is_inplace else "Y"

    def loops(self, names: str) -> str:
        """The head of loops over the shape of Y, for axes called so."""
        extents = [d if not self.luck.random() < 0.1 else f"T.max({d}, 0)" for d in self.shape]
        if not extents:
            return f"for {names} in range(1):"
        kinds = ["range", "T.serial", "T.parallel"]
        if len(extents) == 1:
            return f"for {names} in {self.luck.choice(kinds)}({extents[0]}):"
        return f"for {names} in T.grid({', '.join(extents)}):"

    def axes(self) -> list[str]:
        return ["i", "j"][: max(1, len(self.shape))]

    def place(self, axes: list[str]) -> str:
        return f"{self.target}[{', '.join(axes[: len(self.shape)]) or '()'}]"

    def number(self, axes: list[str], depth: int = 2) -> str:
        """A float32 expression over the axes."""
        pick = self.luck.random()
        if depth == 0 or pick < 0.3:
            return self.luck.choice(
                [self.load(axes), self.load(axes), self.constant(), f"T.Cast('float32', {axes[0]})"]
            )
        a, b = self.number(axes, depth - 1), self.number(axes, depth - 1)
        return self.luck.choice([
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"T.max({a}, {b})", f"T.min({a}, {b})",
            f"T.if_then_else({self.condition(axes)}, {a}, {b})", f"T.tanh({a})", f"-{a}", f"T.abs({a})",
        ])  # fmt: skip

    def load(self, axes: list[str]) -> str:
        i = axes[0]
        wild = [f"X[{i}]"] if self.shape[:1] == ("n",) else []
        wild += [f"W[{i}, {axes[1]}]"] if self.shape == ("n", "m") else []
        safe = [
            f"T.if_then_else({i} < n, X[{i}], 1.5)", f"T.if_then_else(n > 0, X[T.min({i}, n - 1)], 0.0)",
            f"T.if_then_else(n * m > 0, W[{i} % n, {i} % m], -1.0)",
            f"T.if_then_else({i} < n, T.Cast('float32', K[{i}]), 0.5)",
            f"T.if_then_else(n > 0 and {i} < n, X[T.max(T.min(K[{i}], n - 1), 0)], 2.0)",
        ]  # fmt: skip
        odd = [f"X[{i} + 1]", "X[K[0]]", f"W[{i}, 0]"]
        return self.luck.choice(wild * 3 + safe + (odd if self.luck.random() < 0.1 else []))

    def constant(self) -> str:
        return self.luck.choice(["0.5", "1.0", "T.float32(-2)", "3.0"])

    def condition(self, axes: list[str]) -> str:
        i = axes[0]
        return self.luck.choice(
            [
                f"{i} % 2 == 0",
                f"{i} < n - 1",
                f"{i} >= 1",
                f"n > {i} + m",
                f"not {i} == 0",
                f"{i} > 0 and {i} < m or n == 1",
                f"{self.load(axes)} < 0.5",
                f"not {self.load(axes)} >= 0.25 or {i} == 1",
            ]
        )

    def map(self) -> None:
        axes = self.axes()
        self.lines += [self.loops(", ".join(axes)), f"    {self.place(axes)} = {self.number(axes)}"]

    def guarded(self) -> None:
        axes = self.axes()
        self.lines += [self.loops(", ".join(axes)), f"    if {self.condition(axes)}:",
                       f"        {self.place(axes)} = {self.number(axes)}"]  # fmt: skip

    def reduction(self) -> None:
        if self.shape not in (("n",), ("n", "m")) or self.is_inplace:
            self.map()
            return
        axes = self.axes()
        vs = [f"v{a}" for a in axes]
        inner = "T.if_then_else(n * m > 0, W[vi, vk % m], 0.0)" if self.luck.random() < 0.3 else "W[vi, vk]"
        extent = "m" if inner == "W[vi, vk]" else self.luck.choice(["n", "3", "m"])
        update = self.luck.choice([f"{self.place(vs)} + {inner}", f"T.max({self.place(vs)}, {inner} * 0.5)"])
        grid = ", ".join([*self.shape, extent])
        self.lines += [
            f"for {', '.join([*axes, 'k'])} in T.grid({grid}):", "    with T.sblock('Y'):",
            f"        {', '.join([*vs, 'vk'])} = T.axis.remap('{'S' * len(axes)}R', [{', '.join([*axes, 'k'])}])",
            "        with T.init():", f"            {self.place(vs)} = {self.constant()}",
            f"        {self.place(vs)} = {update}",
        ]  # fmt: skip

    def temporary(self) -> None:
        axes = self.axes()
        self.lines += [
            "Z = T.alloc_buffer((n + 1,), 'float32')", "for i in range(n + 1):",
            "    Z[i] = T.if_then_else(i < n, X[T.min(i, n - 1)], 7.0)", self.loops(", ".join(axes)),
            f"    {self.place(axes)} = Z[{axes[0]} % (n + 1)] + {self.number(axes, 1)}",
        ]  # fmt: skip
        name = f"Z{len(self.lines)}"
        self.lines = [line.replace("Z", name) if "Z" in line else line for line in self.lines]

    def cell(self) -> None:
        axes = self.axes()
        name = f"s{len(self.lines)}"
        self.lines += [
            self.loops(", ".join(axes)).replace("T.parallel", "range"), f"    {name}: T.float32 = {self.constant()}",
            f"    for k in range({self.luck.choice(['m', '3', 'n'])}):",
            f"        {name} = {name} + {self.number(axes, 1)}",
            f"    {self.place(axes)} = {name}",
        ]  # fmt: skip

    def turns(self) -> None:
        axes = self.axes()
        name = f"t{len(self.lines)}"
        self.lines += [
            self.loops(", ".join(axes)), f"    {name}: T.int32 = 0",
            f"    while {name} < {self.luck.choice(['3', 'n', 'm % 3', f'{axes[0]} % 2 + 1'])}:",
            f"        {self.place(axes)} = {self.number(axes)}", f"        {name} = {name} + 1",
        ]  # fmt: skip


def script(seed: int) -> str:
    """A module whose @main takes x (n), w (n × m) and k (n, int32), and a shape (p, p + n) where results are of p."""
    luck = Random(f"modules {seed}")
    kernels = [_Kernel(luck, f"k{i}") for i in range(luck.randint(1, 3))]
    texts = [kernel.text() for kernel in kernels]
    lines: list[str] = []
    known = ["x"]  # of n elements
    results: list[str] = []
    for i, kernel in enumerate(kernels):
        shape = "".join(f"{d}, " for d in kernel.shape)
        given = f"({luck.choice(known)}, w, k)"
        out = f'out_sinfo=R.Tensor(({shape}), "float32")'
        call = f"R.call_tir_inplace(cls.{kernel.name}, {given}, [0], {out})" if kernel.is_inplace else (
            f"R.call_tir(cls.{kernel.name}, {given}, {out})")  # fmt: skip
        lines.append(f"a{i} = {call}")
        if luck.random() < 0.4:
            lines.append(f"b{i} = {luck.choice(['R.nn.relu', 'R.negative', 'R.tanh'])}(a{i})")
            results.append(f"b{i}")
        results.append(f"a{i}")
        if kernel.shape == ("n",):
            known += [f"a{i}"] * 2
    if luck.random() < 0.5:
        lines = ["with R.dataflow():", *(f"    {line}" for line in lines), f"    R.output({', '.join(results)})"]
    elif luck.random() < 0.3:
        other = f"R.call_tir_inplace(cls.{kernels[0].name}, (x, w, k), [0]," if kernels[0].is_inplace else ""
        lines += [] if other else ["if R.greater(R.sum(w), R.const(0.0)):", f"    c = {results[-1]}", "else:",
                                   f"    c = R.negative({results[-1]})"]  # fmt: skip
        results += [] if other else ["c"]
    body = "".join(f"        {line}\n" for line in lines)
    given = 'x: R.Tensor(("n",), "float32"), w: R.Tensor(("n", "m"), "float32"), k: R.Tensor(("n",), "int32")'
    given += ', s: R.Shape(("p", "p + n"))' if any("p" in kernel.shape for kernel in kernels) else ""
    head = f"def main({given}):\n        cls = Module\n        n, m, p = T.int64(), T.int64(), T.int64()"
    main = f"    @R.function\n    {head}\n{body}"
    return f"@I.ir_module\nclass Module:\n{''.join(texts)}{main}        return ({', '.join(results)},)\n"
