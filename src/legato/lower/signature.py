"""What the runtime must know of a host function: its tensors, dims and words, as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legato.arith.expr import Expr, Var
from legato.base.errors import UnsupportedError
from legato.ir import expr as ir
from legato.ir.types import TensorType, TupleType, Type
from legato.lower.group import tensor_types
from legato.lower.hosts.program import HostOpRecord
from legato.lower.hosts.values import function_dims
from legato.lower.sizes import size_of, unique
from legato.runtime.program import Constraint, DimInfo, FunctionInfo, HostOpInfo, Structure, TensorInfo, Word
from legato.runtime.size import Size

__all__ = ["function_info", "host_op_info"]


def function_info(func: ir.Function, offset: int, workspace: Expr) -> FunctionInfo:
    """The signature of graph function `func`, whose code begins at `offset` of the image."""
    dims = function_dims(func)
    names = dict(zip(dims, unique([d.name for d in dims]), strict=True))
    named = [pair for p in func.params for pair in _named(p.name, tensor_types(p.ty))]
    input_names = unique([name for name, _ in named])
    inputs = [TensorInfo(n, str(t.dtype), _sizes(t, names)) for n, (_, t) in zip(input_names, named, strict=True)]
    assert isinstance(func.body.ty, Type)
    out_types = tensor_types(func.body.ty)
    out_names = unique(func.attrs.get("output_names") or _default_names(len(out_types)))
    outputs = [TensorInfo(n, str(t.dtype), _sizes(t, names)) for n, t in zip(out_names, out_types, strict=True)]
    words: list[Word] = [("input", n) for n in range(len(inputs))]
    words += [("dim", name) for name in names.values()]
    words += [("output", n) for n in range(len(outputs))]
    plain = {d for t in inputs for d in t.shape}
    missing = [name for name in names.values() if name not in plain]
    if missing:
        raise UnsupportedError(
            f"the dims {', '.join(missing)} are not plain extents of an input",
            hint="a call must tell them: give an input whose shape has the dim itself as an entry",
        )
    return FunctionInfo(
        offset=offset,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        structure=_structure(func.body.ty, iter(range(len(outputs)))),
        dims=tuple(DimInfo(name, v.lo or 0, v.hi) for v, name in names.items()),
        words=tuple(words),
        workspace=size_of(workspace, names),
        constraints=tuple(
            Constraint(size_of(c.a, names), size_of(c.b, names), c.what) for c in func.attrs.get("constraints", ())
        ),
    )


def _named(name: str, types: Sequence[TensorType]) -> list[tuple[str, TensorType]]:
    return [(name, types[0])] if len(types) == 1 else [(f"{name}.{n}", t) for n, t in enumerate(types)]


def _default_names(count: int) -> list[str]:
    return ["output"] if count == 1 else [f"output{n}" for n in range(count)]


def _structure(ty: Type, numbers: Iterator[int]) -> Structure:
    if isinstance(ty, TupleType):
        return tuple(_structure(f, numbers) for f in ty.fields)
    return next(numbers)


def _sizes(ty: TensorType, names: dict[Var, str]) -> tuple[Size, ...]:
    return tuple(size_of(d, names) for d in ty.shape)


def host_op_info(record: HostOpRecord, attrs: str) -> HostOpInfo:
    """How the runtime describes an operator that is run by its reference; its dims are numbered words."""
    extents = [d for t in (*record.inputs, *record.outputs) for d in t.shape]
    names = iter([f"d{n}" for n in range(len(extents))])

    def info(prefix: str, types: Sequence[TensorType]) -> tuple[TensorInfo, ...]:
        return tuple(
            TensorInfo(f"{prefix}{n}", str(t.dtype), tuple(next(names) for _ in t.shape)) for n, t in enumerate(types)
        )

    inputs = info("in", record.inputs)
    outputs = info("out", record.outputs)
    return HostOpInfo(record.op.name, attrs, inputs, outputs, tuple(f"d{n}" for n in range(len(extents))))
