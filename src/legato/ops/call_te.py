"""Operators given by loops: what a tensor program computes, as stages that are scheduled and fused as others are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from legato.arith.evaluate import evaluate
from legato.arith.expr import Expr, ExprLike, Var, const, expr
from legato.arith.substitute import substitute
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, RunError
from legato.ir.attr_record import Attrs
from legato.ir.call_tir import require_ranges
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, TupleType, Type
from legato.ops._tensors import Array, product, tensor_bytes
from legato.te.fresh import fresh_stages
from legato.te.inline import loads
from legato.te.lower import to_tir
from legato.te.order import in_order
from legato.te.parts import Part, is_broadcast, is_contraction, is_elementwise, is_move, parts
from legato.te.readback import Stages, read_back
from legato.te.tensor import Stage, Tensor, placeholder
from legato.tir import interp
from legato.tir.buffer import Buffer
from legato.tir.parser import parse_func
from legato.tir.sealed import sealed
from legato.tir.stmt import Func
from legato.tir.walk import buffers_written

__all__ = ["CallTeAttrs", "Portion", "call_te", "portions"]


@dataclass(frozen=True, slots=True)
class CallTeAttrs(Attrs):
    """program: a kernel as text, which stores to its last buffers; dims: the values of its index parameters."""

    program: str
    dims: tuple[Dim, ...] = ()

    @property
    def name(self) -> str:
        """What the kernel is called."""
        return self.program.partition("@")[2].partition("(")[0]


@dataclass(frozen=True, eq=False, slots=True)
class _Program:
    """A kernel with its stages."""

    func: Func
    stages: Stages

    def values(self, dims: Sequence[ExprLike]) -> Mapping[Var, Expr]:
        """What the dims of the stages are."""
        return dict(zip(self.stages.dims, map(expr, dims), strict=True))

    def results(self, dims: Sequence[ExprLike]) -> Type:
        """The types of the results."""
        values = self.values(dims)
        types = [TensorType(tuple(substitute(d, values) for d in t.shape), t.dtype) for t in self.stages.outputs]
        return types[0] if len(types) == 1 else TupleType(tuple(types))


@lru_cache(maxsize=512)
def _read(text: str) -> _Program | str:
    """The program of a text; what is wrong with it."""
    try:
        func = sealed(parse_func(text))
    except CompileError as error:
        return error.message
    written = set(buffers_written(func))
    outputs = sum(1 for p in func.params if isinstance(p, Buffer) and p in written)
    stages = read_back(func, outputs)
    return stages if isinstance(stages, str) else _Program(func, stages)


def _program(attrs: CallTeAttrs) -> _Program:
    found = _read(attrs.program)
    if isinstance(found, str):
        raise RunError(f"call_te: {found}")
    return found


@dataclass(frozen=True, eq=False, slots=True)
class Portion:
    """A part of a kernel as the attribute `program` of a call of its own; `dims` are those that it takes."""

    part: Part
    text: str
    dims: tuple[Var, ...]


def portions(stages: Stages) -> tuple[Portion, ...] | str:
    """`stages` as calls, each behind those that it needs; why they are none, in words."""
    found: list[Portion] = []
    for part in parts(stages.outputs):
        inputs = [placeholder(t.name, t.shape, t.dtype) for t in part.inputs]
        outputs = fresh_stages(part.outputs, dict(zip(part.inputs, inputs, strict=True)), {})
        func = to_tir(outputs, inputs, stages.name)
        text = str(func)
        again = _read(text)
        if isinstance(again, str):
            return again
        found.append(Portion(part, text, tuple(p for p in func.params if isinstance(p, Var))))
    return tuple(found)


def _relation(rel: Relation, inputs: Type, attrs: CallTeAttrs) -> Type | None:
    found = _read(attrs.program)
    if isinstance(found, str):
        raise rel.fail(f"its program is no tensor expression: {found}")
    stages = found.stages
    if not isinstance(inputs, TupleType):
        return None
    if (len(inputs.fields), len(attrs.dims)) != (len(stages.inputs), len(stages.dims)):
        raise rel.fail(
            f"@{found.func.name} takes {len(stages.inputs)} inputs and {len(stages.dims)} dims, "
            f"got {len(inputs.fields)} and {len(attrs.dims)}"
        )
    values = found.values(attrs.dims)
    for t, ty in zip(stages.inputs, inputs.fields, strict=True):
        wanted = TensorType(tuple(substitute(d, values) for d in t.shape), t.dtype)
        rel.unify(ty, wanted, f"{t.name} of @{found.func.name}")
    require_ranges(rel, found.func.name, values)
    return found.results(attrs.dims)


def _reference(inputs: tuple[Array, ...], attrs: CallTeAttrs) -> Array | tuple[Array, ...]:
    found = _program(attrs)
    dims = [int(evaluate(expr(d), {})) for d in attrs.dims]
    ty = found.results(attrs.dims)
    types = ty.fields if isinstance(ty, TupleType) else (ty,)
    outs = [
        np.zeros([int(evaluate(d, {})) for d in t.shape], t.dtype.numpy) for t in types if isinstance(t, TensorType)
    ]
    given = [np.asarray(x, t.dtype.numpy, order="C") for x, t in zip(inputs, found.stages.inputs, strict=True)]
    interp.run(found.func, [*given, *outs, *dims])
    return outs[0] if len(outs) == 1 else tuple(outs)


def _compute(inputs: tuple[Tensor, ...], attrs: CallTeAttrs, out: Type) -> Tensor | tuple[Tensor, ...]:
    found = _program(attrs)
    known = dict(zip(found.stages.inputs, inputs, strict=True))
    made = fresh_stages(found.stages.outputs, known, found.values(attrs.dims))
    return made[0] if len(made) == 1 else made


def _fusion(attrs: CallTeAttrs) -> Fusion:
    stages = _program(attrs).stages
    order = [t for t in in_order(stages.outputs) if t.stage is not None]
    if len(stages.outputs) > 1:
        return Fusion.OPAQUE
    if any(map(is_contraction, order)):
        *others, last = order
        return Fusion.CONTRACTION if is_contraction(last) and all(map(is_move, others)) else Fusion.OPAQUE
    if any(isinstance(t.stage, Stage) and t.stage.reduction is not None for t in order):
        return Fusion.REDUCE
    if all(map(is_elementwise, order)):
        return Fusion.ELEMWISE
    return Fusion.BROADCAST if all(map(is_broadcast, order)) else Fusion.INJECTIVE


def _places(attrs: CallTeAttrs) -> tuple[int, ...]:
    """The most places at which a stage reads each input."""
    stages = _program(attrs).stages
    most = dict.fromkeys(stages.inputs, 1)
    for t in in_order(stages.outputs):
        if isinstance(t.stage, Stage):
            read = Counter(x.buffer for x in dict.fromkeys(loads(t.stage.body)))
            most |= {x: max(k, read[x]) for x, k in most.items()}
    return tuple(most.values())


def _cost(args: Sequence[Type], out: Type, attrs: CallTeAttrs) -> Cost:
    """An operation for each term of a stage."""
    found = _program(attrs)
    values = found.values(attrs.dims)
    flops: Dim = product(())
    for t in in_order(found.stages.outputs):
        if isinstance(t.stage, Stage):
            red = () if t.stage.reduction is None else tuple(a.extent for a in t.stage.reduction.axes)
            flops = flops + substitute(product((*t.shape, *red)), values)
    (inputs,) = args
    assert isinstance(inputs, TupleType)
    return Cost(flops, tensor_bytes([*inputs.fields, *(out.fields if isinstance(out, TupleType) else (out,))]))


_SOFTMAX = """kernel @softmax(X: Buffer[(n, m), float32], Y: Buffer[(n, m), float32], n: index[0..], m: index[0..]) {
  alloc T: Buffer[(n,), float32]; alloc S: Buffer[(n,), float32];
  for i in 0..n { T[i] = -inff; for j in 0..m { T[i] = max(T[i], X[i, j]); } }
  for i in 0..n { for j in 0..m { S[i] = S[i] + exp(X[i, j] - T[i]); } }
  for i in 0..n { for j in 0..m { Y[i, j] = exp(X[i, j] - T[i]) / S[i]; } }
}"""

_MATMUL = """kernel @matmul(A: Buffer[(4, 6), float32], B: Buffer[(6, 3), float32], C: Buffer[(4, 3), float32]) {
  for k in 0..6 { for i in 0..4 { for j in 0..3 { C[i, j] = C[i, j] + A[i, k] * B[k, j]; } } }
}"""

_TWO = """kernel @two(X: Buffer[(5,), int32], Y: Buffer[(5,), int32], Z: Buffer[(5,), int32]) {
  for i in 0..5 { Y[i] = X[4 - i]; Z[i] = Y[i] * 2i32; }
}"""

call_te = Op(
    name="call_te",
    args=("*inputs",),
    attrs=CallTeAttrs,
    type_rel=_relation,
    reference=_reference,
    compute=_compute,
    storage=True,
    fusion=_fusion,
    places=_places,
    cost=_cost,
    samples=(
        Sample((((3, 5), "float32"),), {"program": _SOFTMAX, "dims": (const(3), const(5))}),
        Sample((((4, 6), "float32"), ((6, 3), "float32")), {"program": _MATMUL}),
        Sample((((5,), "int32"),), {"program": _TWO}, exact=True),
    ),
    doc="""What a tensor program computes from `inputs`, as tensor expressions.

The program is one that can be read so: each buffer is stored by nests of loops that cover it, or reduced into.""",
)
