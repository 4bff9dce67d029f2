"""Random programs whose attributes are dims: n - k, m - n, quotients, called at all small sizes.

What the interpreter gives, the compiled program gives; what one refuses, the other refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import legato
from legato.arith.expr import Expr, cdiv, const, floordiv, fresh, max_, min_
from legato.base.errors import CompileError, InternalError, RunError
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir import expr as ir
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.ops import table
from tests.programs.settings import FUZZ

MODES = ("constant", "edge", "reflect")
PER_TEST, TESTS = 3, 16
SIZES = [(0, 0), (0, 2), (1, 1), (1, 4), (2, 1), (3, 3), (4, 2), (5, 7), (8, 3), (2, 33)]


class Writer:
    """Builds one program from a seed: steps that inference refuses are left out."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        bound = self.random.choice([None, None, 33, 64])
        self.n, self.m = fresh("n", 0, bound), fresh("m")
        self.b = Builder()
        self.params = [self.b.var("x", (self.n, self.m)), self.b.var("y", (self.m, 3)), self.b.var("z", (self.n,))]
        self.values: list[ir.Expr] = list(self.params)

    def dim(self) -> Expr:
        """A dim that may be negative, 0 or too large."""
        n, m, k = self.n, self.m, const(self.random.randrange(-3, 5))
        return self.random.choice([
            lambda: n, lambda: m, lambda: k, lambda: n - k, lambda: m - n, lambda: n - m + k, lambda: m + k,
            lambda: floordiv(n, const(2)), lambda: cdiv(m, 3), lambda: min_(n, k), lambda: max_(m - 2, n),
            lambda: n * 2 - m, lambda: const(-1), lambda: const(1), lambda: const(0),
        ])()  # fmt: skip

    def module(self, steps: int) -> Module:
        for _ in range(steps):
            try:
                self.values.append(self.step(self.random.choice(self.values[-4:])))
            except CompileError:
                continue
        return Module.from_expr(self.b.function(self.params, self.b.tuple_(self.values[3:] or self.values)))

    def step(self, x: ir.Expr) -> ir.Expr:
        """One operator more."""
        assert isinstance(x.ty, TensorType)
        rank = x.ty.rank
        axis = self.random.randrange(rank) if rank else 0
        rules: list[Callable[[], ir.Expr]] = [
            lambda: self.call("strided_slice", x, begin=(self.dim(),), end=(self.dim(),), axes=(axis,),
                              strides=(self.random.choice([1, 1, 2, -1]),)),
            lambda: self.call("strided_slice", x, begin=(self.dim(),), end=(self.dim(),), axes=(axis,),
                              slice_mode="size"),
            lambda: self.call("nn.pad", x, self.b.constant(np.float32(1)), pad_mode=self.random.choice(MODES),
                              pad_width=tuple((self.dim(), self.dim()) if a == axis else (0, 0)
                                                           for a in range(rank))),
            lambda: self.call("reshape", x, newshape=tuple(self.dim() for _ in range(self.random.randrange(1, 4)))),
            lambda: self.call("split", x, indices_or_sections=(self.dim(), self.dim()), axis=axis),
            lambda: self.call("split", x, indices_or_sections=self.random.choice([2, 3]), axis=axis),
            lambda: self.call("tile", x, reps=tuple(self.dim() if a == axis else 1 for a in range(rank))),
            lambda: self.call("repeat", x, repeats=self.dim(), axis=axis),
            lambda: self.call("broadcast_to", x, shape=(self.dim(), *x.ty.shape)),
            lambda: self.call("topk", x, k=self.dim(), axis=axis, ret_type="values"),
            lambda: self.call("full", self.b.constant(np.float32(2)), shape=(self.dim(), self.dim())),
            lambda: self.call("concatenate", self.b.tuple_([x, self.random.choice(self.values)]), axis=axis),
            lambda: self.call("sum", x, axis=(axis,), keepdims=self.random.random() < 0.5),
            lambda: self.call("nn.softmax", x, axis=axis),
            lambda: self.call("transpose", x),
            lambda: self.call("matmul", x, self.random.choice(self.values)),
            lambda: self.call(self.random.choice(["add", "multiply", "maximum"]), x, self.random.choice(self.values)),
        ]  # fmt: skip
        return self.random.choice(rules)()

    def call(self, name: str, *args: ir.Expr, **attrs: Any) -> ir.Expr:
        """A call; one of the results where there are several."""
        made = self.b.call(table()[name], *args, **attrs)
        fields = made.ty.children() if made.ty is not None else ()
        return self.b.get(made, self.random.randrange(len(fields))) if fields else made


def outcome(run: Callable[[], Any]) -> tuple[Any, bool]:
    """The results, and whether the call was refused."""
    try:
        with np.errstate(all="ignore"):
            return run(), False
    except InternalError:
        raise
    except RunError:
        return None, True


def check(seed: int) -> None:
    """Compiled is interpreted, at every size."""
    module = Writer(seed).module(1 + seed % 7)
    exe = legato.compile(module)
    rng = np.random.default_rng(seed)
    for n, m in SIZES:
        args = [rng.standard_normal(s).astype("float32") for s in ((n, m), (m, 3), (n,))]
        expected, is_refused = outcome(lambda a=args: evaluate(module, a))  # type: ignore[misc]
        got, refuses = outcome(lambda a=args: exe(*a))  # type: ignore[misc]
        assert refuses == is_refused, f"seed {seed}, n = {n}, m = {m}"
        for x, y in zip(got or (), expected or (), strict=True):
            np.testing.assert_allclose(np.asarray(x), y, rtol=1e-3, atol=1e-3, err_msg=f"seed {seed}, n = {n}, m = {m}")


@pytest.mark.parametrize("first", range(0, FUZZ or TESTS * PER_TEST, PER_TEST))
@pytest.mark.shared(3)
def test_compiled_is_interpreted(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        check(seed)
