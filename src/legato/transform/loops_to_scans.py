"""Loops along the first dimension of tensors become calls of `scan`: all their steps are then one kernel.

    @loop(%xs, %h, %ys, %i, %n) {
      if (%i < %n) {
        let %h1 = tanh(nn.dense(take(%xs, %i, axis=0), %w) + nn.dense(%h, %u));
        let %ys1 = scatter_nd(%ys, reshape(%i, newshape=[1, 1]), expand_dims(%h1, axis=0));
        @loop(%xs, %h1, %ys1, %i + 1, %n)
      } else { %ys }
    }
    @loop(%xs, %h0, %ys0, 0, n)       =>       scan(%h0, project(%xs), %u, steps=n, …).0

where `project` is the product with %w of all parts of %xs at once. A parameter of the loop is the counter, or passed on
as it is, or a state, or filled part by part by scatter_nd. Loops stay as they are whose steps are not of the form that
a scan computes well (`te.steps`), and those with symbolic dims in a step, or effects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from legato.arith.expr import const, max_
from legato.arith.prove import prove_equal
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.node import post_order, rebuild
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Expr, Function, GlobalVar, Var
from legato.ir.module import Module
from legato.ir.types import Dim, TensorType, TupleType
from legato.ops.index import take
from legato.ops.linalg import dense
from legato.ops.sequence import is_step, scan
from legato.te.scan import Scan
from legato.te.steps import steps_of
from legato.te.tensor import Tensor, placeholder
from legato.transform._external import is_own
from legato.transform._loops import Loop, loop_of, number
from legato.transform._projection import projected
from legato.transform.pass_ import Pass

__all__ = ["LoopsToScans"]


@dataclass(frozen=True, slots=True)
class LoopsToScans(Pass):
    """Module → module; after passes that bring loops into graph form (no lets)."""

    name = "loops-to-scans"

    def __call__(self, mod: Module) -> Module:
        loops = {gv: loop for gv, f in mod.graph_functions() if is_own(f) and (loop := loop_of(gv, f)) is not None}
        if not loops:
            return mod
        functions = dict(mod.functions)
        for gv, func in mod.graph_functions():
            if gv not in loops and is_own(func):
                functions[gv] = _without(func, loops)
        return mod.with_functions(functions)


def _without(func: Function, loops: Mapping[GlobalVar, Loop]) -> Function:
    """`func` with calls of `loops` replaced where they can be."""
    new: dict[int, Expr] = {}
    for node in post_order([func.body]):
        done = rebuild(node, new)
        if isinstance(done, Call) and isinstance(done.op, GlobalVar) and done.op in loops:
            done = _Conversion(loops[done.op], done).run() or done
        new[id(node)] = done
    body = new[id(func.body)]
    return func if body is func.body else replace(func, body=body)


class _Conversion:
    """One call of a loop; `run` gives what stands for it, or None."""

    def __init__(self, loop: Loop, call: Call) -> None:
        self.loop, self.call, self.b = loop, call, Builder()
        self.given: dict[Expr, Expr] = dict(zip(loop.params, call.args, strict=True))
        self.slices: dict[Var, Expr] = {}  # the step's variable -> what it is a part of
        self.others: dict[Var, Expr] = {}  # the step's variable -> what it is
        self.known: dict[int, Expr] = {}  # nodes of the loop in the step's function
        self.alike: dict[object, Var] = {}

    def run(self) -> Expr | None:
        loop = self.loop
        steps = self._steps()
        if steps is None or number(self.given[loop.params[loop.counter]]) != 0:
            return None
        if not all(_is_as_long(self.given[p].ty, steps) for p in loop.kept):
            return None
        with self.b.at(self.call.span):
            made = self._step(steps)
            if made is None:
                return None
            step, text = made
            operands = [*(self.given[p] for p in loop.states), *self.slices.values(), *self.others.values()]
            counts = {"states": len(loop.states), "slices": len(self.slices)}
            if not _is_fast(step, operands, text, steps, **counts):
                return None
            whole = self.b.call(scan, *operands, step=text, steps=steps, **counts)
            return self._result(whole)

    def _steps(self) -> Dim | None:
        bound = self.loop.bound
        value = self.b.value_of(self.given.get(bound, bound))
        return simplify(max_(value[0], const(0))) if value is not None and len(value) == 1 else None

    def _result(self, whole: Expr) -> Expr:
        order = (*self.loop.kept, *self.loop.states)
        new: dict[int, Expr] = {id(p): self.b.get(whole, n) for n, p in enumerate(order)}
        for node in post_order([self.loop.result]):
            if not isinstance(node, Var):
                new[id(node)] = self.b.tuple_([new[id(f)] for f in node.children()])
        return new[id(self.loop.result)]

    # The step

    def _step(self, steps: Dim) -> tuple[Function, str] | None:
        """The step's function and its text; None if it is not of the form."""
        loop, b = self.loop, self.b
        counter = loop.params[loop.counter]
        assert isinstance(counter.ty, TensorType)
        t = b.var("t", (), "int32")
        self.known[id(counter)] = t if counter.ty.dtype == dt.int32 else b.cast(t, dtype=counter.ty.dtype)
        states = {p: b.var(p.name, p.ty) for p in loop.states}
        self.known |= {id(p): v for p, v in states.items()}
        results = [*loop.states.values(), *loop.kept.values()]
        for node in post_order(results, enter=lambda node: not self._is_part(node, steps)):
            new = self.known.get(id(node)) or self._node(node)
            if new is None:
                return None
            self.known[id(node)] = new
        params = [t, *states.values(), *self.slices, *self.others]
        if not all(isinstance(p.ty, TensorType) and p.ty.is_static for p in params):
            return None
        body = b.tuple_([self.known[id(r)] for r in results])
        func = b.function(params, body)
        return func, str(Module.from_expr(func))

    def _is_part(self, node: Expr, steps: Dim) -> bool:
        """True for what becomes a variable of the step, which is then known."""
        part = self._part(node, steps)
        if part is not None:
            self.known[id(node)] = part
        return part is not None

    def _node(self, node: Expr) -> Expr | None:
        """A node of the loop's step as one of the step's function."""
        match node:
            case Var() if node in self.loop.fixed:
                return self._variable(self.others, node, node.name, self.given[node])
            case Constant() if node.data.ndim:
                return self._variable(self.others, node, "w", node)
            case _ if is_step(node):
                return rebuild(node, self.known)
            case _:
                return None

    def _part(self, node: Expr, steps: Dim) -> Var | None:
        """The variable of the step for a part of a fixed tensor, or for a product of it with a fixed weight."""
        source = self._source(node, steps)
        if source is not None:
            return self._variable(self.slices, ("part", source), source.name, self.given[source])
        if not isinstance(node, Call) or node.op is not dense:
            return None
        data, weight = node.args
        source = self._source(data, steps)
        if source is None or not (isinstance(weight, Constant) or weight in self.loop.fixed):
            return None
        key = ("product", source, weight, node.attrs)
        if key in self.alike:
            return self.alike[key]
        made = projected(self.b, self.given[source], self.given.get(weight, weight), node)
        return self._variable(self.slices, key, f"{source.name}_w", made)

    def _source(self, node: Expr, steps: Dim) -> Var | None:
        """The fixed parameter whose part number `counter` is `node`."""
        if not isinstance(node, Call) or node.op is not take or node.attrs.axis != 0:
            return None
        data, index = node.args
        if index is not self.loop.params[self.loop.counter] or not isinstance(data, Var):
            return None
        is_long = data in self.loop.fixed and _is_as_long(self.given[data].ty, steps)
        return data if is_long else None

    def _variable(self, into: dict[Var, Expr], key: object, name: str, value: Expr) -> Var:
        if key not in self.alike:
            ty = value.ty
            assert isinstance(ty, TensorType)
            shape = ty.shape[1:] if into is self.slices else ty.shape
            self.alike[key] = self.b.var(name, TensorType(shape, ty.dtype))
            into[self.alike[key]] = value
        return self.alike[key]


def _is_as_long(ty: Any, steps: Dim) -> bool:
    """True if the first dimension has exactly as many elements as there are steps."""
    return isinstance(ty, TensorType) and bool(ty.rank) and prove_equal(ty.shape[0], steps)


def _is_fast(step: Function, operands: Sequence[Expr], text: str, steps: Dim, **counts: int) -> bool:
    """True if lowering has a rule for such a scan."""
    inputs = tuple(_placeholders(operands))
    attrs = scan.attrs(step=text, steps=steps, **counts) if scan.attrs is not None else None
    results = step.ret_type
    assert isinstance(results, TupleType)
    states = counts["states"]
    kept = [TensorType((steps, *f.shape), f.dtype) for f in results.fields[states:] if isinstance(f, TensorType)]
    assert scan.compute is not None
    made = scan.compute(inputs, attrs, TupleType((*kept, *results.fields[:states])))
    stage = made[0].stage if isinstance(made, tuple) else made.stage
    return isinstance(stage, Scan) and steps_of(stage, set(inputs)) is not None


def _placeholders(operands: Sequence[Expr]) -> Iterator[Tensor]:
    for n, e in enumerate(operands):
        assert isinstance(e.ty, TensorType)
        yield placeholder(f"p{n}", e.ty.shape, e.ty.dtype)
