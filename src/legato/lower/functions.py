"""Primitive functions → tensor programs: every call of a group becomes calls of its kernels.

    let %y = fn (%p0, %p1, Primitive=1) {…}(%x, %w)      =>      let %t = call_tir(@conv_0, (%x, %w_packed)); …

Walks each block in order and carries the layout of every tensor: an output's layout is chosen by the rule that computes
it, with the halo that its readers want. Values that leave the block's kernels (results, arguments of other functions)
are row-major. Kernels that are the same program are emitted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from legato.base.errors import InternalError
from legato.base.node import post_order
from legato.base.precision import Precision
from legato.base.target import Target
from legato.ir import expr as ir
from legato.ir.call_tir import call_tir
from legato.ir.let import Binding, chain, lets
from legato.ir.module import GlobalFunc, Module
from legato.ir.types import TensorType, TupleType
from legato.lower.extents import with_extent_checks
from legato.lower.group import Group, stages, te_group, tensor_types
from legato.lower.inline import Pad, detect_pad
from legato.lower.pack import packed_array
from legato.lower.schedule import Kernel, schedule
from legato.te.tensor import Tensor
from legato.tir.buffer import Buffer, Layout
from legato.tir.equal import program_key
from legato.tir.stmt import Func

__all__ = ["lower_functions"]

Layouts = tuple[Layout, ...]


@dataclass(slots=True)
class _Kernels:
    """The tensor programs of the module: equal ones are one."""

    by_key: dict[str, ir.GlobalVar] = field(default_factory=dict)
    funcs: dict[ir.GlobalVar, Func] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)

    def add(self, func: Func) -> ir.GlobalVar:
        key = program_key(func)
        found = self.by_key.get(key)
        if found is None:
            n = self.names.get(func.name, 0)
            self.names[func.name] = n + 1
            found = ir.GlobalVar(f"{func.name}_{n}")
            self.by_key[key] = found
            self.funcs[found] = replace(func, name=found.name)
        return found


def lower_functions(mod: Module, target: Target, precision: Precision = Precision.DEFAULT) -> Module:
    """`mod` (fused, in A-normal form) with every primitive function lowered to tensor programs for `target`."""
    kernels = _Kernels()
    functions: dict[ir.GlobalVar, GlobalFunc] = {}
    for gv, func in mod.functions.items():
        if isinstance(func, ir.Function):
            func = with_extent_checks(func)
            facts = {p: _row_major(p.ty) for p in func.params}
            func = replace(func, body=_Block(kernels, target, precision, facts).lower(func.body))
        functions[gv] = func
    return mod.with_functions({**functions, **kernels.funcs})


def _row_major(ty: object) -> Layouts:
    assert isinstance(ty, TensorType | TupleType)
    return tuple(Layout.row_major(t.rank) for t in tensor_types(ty))


def _is_primitive(value: ir.Expr) -> bool:
    return isinstance(value, ir.Call) and isinstance(value.op, ir.Function) and "Primitive" in value.op.attrs


class _Block:
    """One block: `facts` has the layouts of every variable in scope."""

    def __init__(self, kernels: _Kernels, target: Target, precision: Precision, facts: dict[ir.Var, Layouts]) -> None:
        self.kernels, self.target, self.precision, self.facts = kernels, target, precision, facts
        self.fields: dict[ir.Var, tuple[ir.Expr, ...]] = {}  # tuples that primitive functions return

    def lower(self, body: ir.Expr) -> ir.Expr:
        bindings, result = chain(body)
        groups = {
            var: te_group(value.op) for var, value in bindings if isinstance(value, ir.Call) and _is_primitive(value)
            if isinstance(value.op, ir.Function)
        }  # fmt: skip
        leaving = self._leaving(bindings, result)
        halos = self._halos(bindings, groups)
        out: list[Binding] = []
        for var, value in bindings:
            if var in groups:
                assert isinstance(value, ir.Call)
                self._group(var, value, groups[var], var in leaving, halos.get(var), out)
            else:
                out.append((var, self._nested(value)))
                self.facts[var] = self._facts_of(value)
        return lets(out, self._resolve(result))

    def _inner(self) -> _Block:
        """A block inside this one: what is in scope here is in scope there."""
        inner = _Block(self.kernels, self.target, self.precision, dict(self.facts))
        inner.fields = dict(self.fields)
        return inner

    def _facts_of(self, value: ir.Expr) -> Layouts:
        if isinstance(value, ir.Var):
            return self.facts[value]
        return () if value.ty is None or not _is_data(value.ty) else _row_major(value.ty)

    def _nested(self, value: ir.Expr) -> ir.Expr:
        if isinstance(value, ir.If):
            return replace(value, then=self._inner().lower(value.then), orelse=self._inner().lower(value.orelse))
        if isinstance(value, ir.TupleGetItem) and isinstance(value.value, ir.Var) and value.value in self.fields:
            return self.fields[value.value][value.index]
        return value.with_children(tuple(self._resolve(c) for c in value.children()))

    def _resolve(self, e: ir.Expr) -> ir.Expr:
        if isinstance(e, ir.Var) and e in self.fields:
            return ir.Tuple(self.fields[e], ty=e.ty)
        if isinstance(e, ir.Tuple):
            return replace(e, fields=tuple(self._resolve(f) for f in e.fields))
        return e

    def _leaving(self, bindings: Sequence[Binding], result: ir.Expr) -> set[ir.Var]:
        """Variables whose values others than this block's kernels read."""
        found = _vars([result])
        for _, value in bindings:
            if not _is_primitive(value):
                found |= _vars([value])
        return found

    def _halos(self, bindings: Sequence[Binding], groups: dict[ir.Var, Group]) -> dict[ir.Var, Layout]:
        """The padding with which the groups of this block read each variable, as a halo: the widest for the value that
        most of them pad with."""
        found: dict[ir.Var, dict[float, list[Pad]]] = {}
        for var, value in bindings:
            if var not in groups:
                continue
            assert isinstance(value, ir.Call)
            source = dict(zip(groups[var].inputs, _leaves(value.args), strict=True))
            for t in stages(groups[var].outputs):
                pad = detect_pad(t)
                arg = source.get(pad.source) if pad is not None else None
                if pad is None or t in groups[var].outputs or not _is_tensor_var(arg):
                    continue
                if pad.value == 0 or t.dtype.is_float:
                    assert isinstance(arg, ir.Var)
                    found.setdefault(arg, {}).setdefault(pad.value, []).append(pad)
        return {arg: _halo(max(by_value.values(), key=len)) for arg, by_value in found.items()}

    def _group(
        self,
        var: ir.Var,
        call: ir.Call,
        group: Group,
        leaves: bool,
        halo: Layout | None,
        out: list[Binding],
    ) -> None:
        args = [leaf for arg in call.args for leaf in self._tensors(arg, out)]
        constants = []
        values: dict[Buffer, ir.Expr] = {}
        for tensor, arg, layout in zip(group.inputs, args, self._layouts(args), strict=True):
            tensor.layout = layout
            values[tensor] = arg
            if isinstance(arg, ir.Constant):
                constants.append(tensor)
        wanted = [self._wanted(t, leaves, halo) for t in group.outputs]
        done = schedule(group, constants, wanted, self.target, self.precision)
        for packing in done.packings:
            source = values[packing.source]
            assert isinstance(source, ir.Constant)
            values[packing.packed] = ir.constant(packed_array(packing, source.data))
        for kernel in done.kernels:
            self._call(var, group, kernel, values, out)
        missing = [t for t in group.outputs if t not in values]
        if missing:
            raise InternalError(f"no kernel stores {missing}")
        self.facts[var] = tuple(t.layout for t in group.outputs)
        if not (isinstance(var.ty, TensorType) and values[group.outputs[0]] is var):
            self.fields[var] = tuple(values[t] for t in group.outputs)

    def _tensors(self, arg: ir.Expr, out: list[Binding]) -> Iterator[ir.Expr]:
        """The tensors of an argument; fields of a variable that is a tuple are bound to variables of their own."""
        if isinstance(arg, ir.Tuple):
            for part in arg.fields:
                yield from self._tensors(part, out)
        elif not isinstance(arg.ty, TupleType):
            yield arg
        elif isinstance(arg, ir.Var) and arg in self.fields:
            yield from self.fields[arg]
        else:
            for n, ty in enumerate(arg.ty.fields):
                part = ir.Var(f"{arg.name if isinstance(arg, ir.Var) else 'x'}_{n}", ty=ty, span=arg.span)
                out.append((part, ir.TupleGetItem(arg, n, ty=ty, span=arg.span)))
                self.facts[part] = _row_major(ty)
                yield from self._tensors(part, out)

    def _layouts(self, args: Iterable[ir.Expr]) -> list[Layout]:
        found: list[Layout] = []
        for arg in args:
            found += self.facts[arg] if isinstance(arg, ir.Var) else _row_major(arg.ty)
        return found

    def _wanted(self, t: Tensor, leaves: bool, halo: Layout | None) -> Layout | None:
        if leaves:
            return Layout.row_major(t.rank)
        return halo

    def _call(
        self, var: ir.Var, group: Group, kernel: Kernel, values: dict[Buffer, ir.Expr], out: list[Binding]
    ) -> None:
        gv = self.kernels.add(kernel.func)
        types = [TensorType(b.shape, b.dtype) for b in kernel.outputs]
        call = call_tir(gv, [values[b] for b in kernel.inputs], types, kernel.dims)
        if len(kernel.outputs) == 1:
            final = kernel.outputs[0] is group.outputs[0] and len(group.outputs) == 1
            bound = var if final else ir.Var(kernel.func.name, ty=types[0])
            out.append((bound, call))
            values[kernel.outputs[0]] = bound
            self.facts[bound] = (kernel.outputs[0].layout,)
            return
        both = ir.Var(kernel.func.name, ty=call.ty)
        out.append((both, call))
        self.facts[both] = tuple(b.layout for b in kernel.outputs)
        for n, b in enumerate(kernel.outputs):
            item = ir.Var(b.name, ty=types[n])
            out.append((item, ir.TupleGetItem(both, n, ty=types[n])))
            values[b] = item
            self.facts[item] = (b.layout,)


def _halo(pads: Sequence[Pad]) -> Layout:
    """A halo, in whatever order, that holds all of `pads`, which have one value."""
    before, after = zip(*((p.before, p.after) for p in pads), strict=True)
    widths = zip(map(max, zip(*before, strict=True)), map(max, zip(*after, strict=True)), strict=True)
    return Layout((), tuple(widths), pads[0].value)


def _is_data(ty: object) -> bool:
    return isinstance(ty, TensorType) or (isinstance(ty, TupleType) and all(_is_data(f) for f in ty.fields))


def _leaves(args: Iterable[ir.Expr]) -> list[ir.Expr]:
    """An expression for each tensor in arguments: a variable that is a tuple stands for each of its tensors."""
    found: list[ir.Expr] = []
    for arg in args:
        found += _leaves(arg.fields) if isinstance(arg, ir.Tuple) else [arg] * len(tensor_types(arg.ty))
    return found


def _is_tensor_var(arg: ir.Expr | None) -> bool:
    return isinstance(arg, ir.Var) and isinstance(arg.ty, TensorType)


def _vars(roots: Iterable[ir.Expr]) -> set[ir.Var]:
    return {e for e in post_order(roots) if isinstance(e, ir.Var)}
