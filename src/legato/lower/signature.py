"""What the runtime must know of a host function: its tensors, dims and words, as data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from legato.arith.expr import Expr, Var
from legato.arith.substitute import variables
from legato.base.errors import UnsupportedError
from legato.ir import expr as ir
from legato.ir._dims import free_dims
from legato.ir.types import FuncType, GlobalTypeVar, ShapeType, TensorType, TupleType, Type, TypeData
from legato.lower.datatypes import DataTypes, tensor_field
from legato.lower.hosts.cells import leaf_types, leaf_values
from legato.lower.hosts.program import HostOpRecord
from legato.lower.hosts.values import function_dims
from legato.lower.lives import Pairs
from legato.lower.sizes import size_of, unique
from legato.runtime.datatypes import ObjectInfo
from legato.runtime.packed import DIM, PackedType, Parts, Slot, leaves
from legato.runtime.program import Constraint, DimInfo, FunctionInfo, HostOpInfo, Structure, TensorInfo, Word
from legato.runtime.size import Size
from legato.runtime.told import data_dims
from legato.runtime.violation import REPORT
from legato.tir.bounds import WORDS

__all__ = ["declared_type", "function_info", "host_op_info", "input_types", "output_types"]


def function_info(
    func: ir.Function,
    offset: int,
    workspace: Expr,
    types: Mapping[GlobalTypeVar, TypeData] = MappingProxyType({}),
    *,
    is_recursive: bool = False,
    is_tested: bool = False,
    open_dims: Collection[Var] = (),
    shared: Pairs = (),
) -> FunctionInfo:
    """The signature of graph function `func`, whose code begins at `offset` of the image; `types` are the module's.
    is_tested: it has a report for failing tests. open_dims: see `lower.open_dims`. shared: see `lower.plan`.
    """
    dims = function_dims(func)
    names = dict(zip(dims, unique([d.name for d in dims]), strict=True))
    assert isinstance(func.body.ty, Type)
    late = [d for d in free_dims(func.body.ty) if d not in names]  # known when the results are there
    extents = dict(zip(late, unique([*names.values(), *(d.name for d in late)])[len(names) :], strict=True))
    data = DataTypes(types, {**names, **extents})
    inputs, objects, words = _leaves(input_types(func), ("input", "object"), data, names, {})
    inputs = _with_values(inputs, words, [d for p in func.params for d in leaf_values(p.ty)], names)
    outputs, results, stored = _leaves(output_types(func), ("output", "result"), data, names, extents)
    plain = {d for t in inputs for d in t.sizes} | data_dims(data.infos(), objects)
    missing = [name for name in names.values() if name not in plain]
    if missing:
        raise UnsupportedError(
            f"the dims {', '.join(missing)} are not plain extents of an input",
            hint="a call must tell them: give an input, or a shape, that has the dim itself as an entry",
        )
    places = iter([which + len(outputs) * (kind == "result") for kind, which in stored])
    all_words: tuple[Word, ...] = (
        *words,
        *(("dim", name) for name in names.values()),
        *stored,
        *(("extent", name) for name in extents.values()),
        *([(REPORT, WORDS)] if is_tested else []),
    )
    return FunctionInfo(
        offset=offset,
        inputs=inputs,
        outputs=outputs,
        structure=_structure(func.body.ty, places),
        dims=tuple(DimInfo(name, v.lo or 0, v.hi) for v, name in names.items()),
        words=all_words,
        workspace=size_of(workspace, names),
        constraints=tuple(
            Constraint(size_of(c.a, names), size_of(c.b, names), c.what)
            for c in func.attrs.get("constraints", ())
            if names.keys() >= {*variables(c.a, c.b)}  # others are checked when their dims are known
        ),
        types=data.infos(),
        objects=objects,
        results=results,
        is_recursive=is_recursive,
        extents=tuple(extents.values()),
        open_dims=tuple(names[d] for d in names if d in open_dims),
        in_place=tuple((int(all_words[read][1]), int(all_words[made][1])) for read, made in shared),
    )


def input_types(func: ir.Function) -> list[tuple[str, Type]]:
    """The inputs of a function by the names that its callers use: tuples are taken apart."""
    named = [pair for p in func.params for pair in _named(p.name, p.ty)]
    return list(zip(unique([name for name, _ in named]), [ty for _, ty in named], strict=True))


def output_types(func: ir.Function) -> list[tuple[str, Type]]:
    """The outputs of a typed function by the names that its callers use: tuples are taken apart."""
    types = leaf_types(func.body.ty)
    names = unique(func.attrs.get("output_names") or _default_names(len(types)))
    return list(zip(names, types, strict=True))


def _leaves(
    named: Sequence[tuple[str, Type]],
    kinds: tuple[str, str],
    data: DataTypes,
    names: Mapping[Var, str],
    extents: Mapping[Var, str],
) -> tuple[tuple[TensorInfo, ...], tuple[ObjectInfo, ...], list[tuple[str, int]]]:
    """The tensors and objects among arguments or results, and their words, which say of what kind each is. A tensor
    with `extents` is an object."""
    tensors: list[TensorInfo] = []
    objects: list[ObjectInfo] = []
    words: list[tuple[str, int]] = []
    for name, ty in named:
        if isinstance(ty, TensorType) and not extents.keys().isdisjoint(free_dims(ty)):
            field = tensor_field(ty, {**names, **extents})
            words.append((kinds[1], len(objects)))
            objects.append(ObjectInfo(name, field, str(field)))
        elif isinstance(ty, TensorType):
            words.append((kinds[0], len(tensors)))
            tensors.append(TensorInfo(name, str(ty.dtype), _sizes(ty, names)))
        else:
            words.append((kinds[1], len(objects)))
            objects.append(ObjectInfo(name, data.number(ty), str(ty)))
    return tuple(tensors), tuple(objects), words


def _with_values(
    inputs: tuple[TensorInfo, ...],
    words: list[tuple[str, int]],
    values: Sequence[Expr | None],
    names: Mapping[Var, str],
) -> tuple[TensorInfo, ...]:
    """The inputs, which have these words, with the dims that are their values."""
    of = {n: size_of(d, names) for (kind, n), d in zip(words, values, strict=True) if kind == "input" and d is not None}
    return tuple(replace(tensor, value=of.get(n)) for n, tensor in enumerate(inputs))


def _named(name: str, ty: Type | None) -> list[tuple[str, Type]]:
    """The leaves of a parameter: `name`, or, in a tuple or shape of whatever length, `name.0` and so on."""
    types = leaf_types(ty)
    if not isinstance(ty, TupleType | ShapeType):
        return [(name, types[0])]
    return [(f"{name}.{n}", t) for n, t in enumerate(types)]


def _default_names(count: int) -> list[str]:
    return ["output"] if count == 1 else [f"output{n}" for n in range(count)]


def _structure(ty: Type, numbers: Iterator[int]) -> Structure:
    if isinstance(ty, TupleType):
        return tuple(_structure(f, numbers) for f in ty.fields)
    if isinstance(ty, ShapeType):
        return tuple(next(numbers) for _ in leaf_types(ty))
    return next(numbers)


def _sizes(ty: TensorType, names: Mapping[Var, str]) -> tuple[Size, ...]:
    return tuple(size_of(d, names) for d in ty.shape)


def declared_type(ty: Type) -> PackedType:
    """The type of a packed function, as the runtime has it. CompileError where nothing can have it."""
    if not isinstance(ty, FuncType):
        raise UnsupportedError(f"a packed function of type {ty}", hint="fn (Tensor[(n, 4), float32]) -> int64")
    dims = list(dict.fromkeys(free_dims(FuncType(ty.params, ty.ret))))
    names = dict(zip(dims, unique([d.name for d in dims]), strict=True))
    results = ty.ret.fields if isinstance(ty.ret, TupleType) else (ty.ret,)
    slots = [_slots(t, names) for t in (*ty.params, *results)]
    found = PackedType(tuple(slots[: len(ty.params)]), tuple(s for s in slots[len(ty.params) :] if isinstance(s, Slot)))
    if len(found.results) < len(results) or any(s.dtype == DIM for s in found.results):
        hint = "give an extent as a tensor int64 without dims, and nested tuples as one tuple"
        message = "a packed function gives a tensor, or a tuple of them"
        raise UnsupportedError(message, details=[f"got {ty.ret}"], hint=hint)
    told = {d for slot in leaves((found.args, found.results)) for d in slot.shape if isinstance(d, str)}
    if untold := [name for name in names.values() if name not in told]:
        raise UnsupportedError(
            f"the dims {', '.join(untold)} of a packed function are told by no extent",
            hint="give it a tensor whose shape has the dim itself as an entry",
        )
    return found


def _slots(ty: Type, names: Mapping[Var, str]) -> Parts:
    match ty:
        case TensorType():
            return Slot(str(ty.dtype), _sizes(ty, names))
        case TupleType(fields):
            return tuple(_slots(f, names) for f in fields)
        case ShapeType(dims) if dims is not None:
            return tuple(Slot(DIM, (size_of(d, names),)) for d in dims)
    raise UnsupportedError(
        "only tensors, shapes and tuples of them are passed to packed functions",
        details=[f"got {ty}"],
        hint="take values of data types apart by match, read references, and pass what they hold",
    )


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
