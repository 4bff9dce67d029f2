"""Primitive functions → tensor programs: every call of a group becomes calls of its kernels.

    let %y = fn (%p0, %p1, Primitive=1) {…}(%x, %w)      =>      let %t = call_tir(@conv_0, (%x, %w_packed)); …

Walks each block in order and carries the layout of every tensor: an output's layout is chosen by the rule that computes
it, with the halo that its readers want. Values that leave the block's kernels (results, arguments of other functions)
are row-major. What only puts values side by side or cuts one up becomes a view (`ir.views`) where their layouts allow
it. Kernels that are the same program are emitted once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import field, replace

import numpy as np

from legato.arith.expr import Var
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.base.precision import Precision
from legato.base.target import Target
from legato.ir import expr as ir
from legato.ir.call_tir import call_tir
from legato.ir.clauses import Clause
from legato.ir.let import Binding, chain, lets
from legato.ir.module import GlobalFunc, Module
from legato.ir.scope import pattern_vars
from legato.ir.types import TensorType, TupleType
from legato.ir.views import join, part
from legato.lower.accesses import with_access_checks
from legato.lower.describe import Description
from legato.lower.early_reads import with_early_reads
from legato.lower.expr_data import from_data
from legato.lower.extents import with_extent_checks
from legato.lower.facts import KernelFacts
from legato.lower.group import Group, tensor_types
from legato.lower.joined import is_group, with_cascades
from legato.lower.kernel_names import kernel_names, operators_of
from legato.lower.late_updates import with_late_updates
from legato.lower.moves import Cut, Moves
from legato.lower.pack import Allocate, Packer
from legato.lower.places import cut_layout
from legato.lower.reuse import Asked, Groups, Shelf, Structure, Widths
from legato.lower.scalars import scalar_group
from legato.lower.stored import Found, StoredKernel
from legato.lower.wholes import JointUse, Paddings, Wholes, halo_layout
from legato.tir.buffer import Layout
from legato.tir.stmt import Func

__all__ = ["LoweredModule", "lower_functions"]

Layouts = tuple[Layout, ...]


@dataclass(frozen=True, slots=True)
class LoweredModule:
    """A module whose groups are calls of tensor programs.

    `module` holds the programs that were made; `found` has those whose machine code was found, which it lacks; `facts`
    has all of both, in the order of their first use. `groups` lowered them, and has what other processes may find in
    future, its kernels known by digest: `names` says what they are called. Groups of scalars are still primitive
    functions: `scalars` has their stages. `written` names the programs that were there before.
    """

    module: Module
    found: dict[str, Found]
    facts: dict[str, KernelFacts]
    groups: Groups
    names: dict[str, str]
    scalars: dict[ir.Function, Group]
    written: frozenset[str]


@dataclass(slots=True)
class _Kernels:
    """The tensor programs of the module: equal ones are one."""

    by_digest: dict[str, ir.GlobalVar] = field(default_factory=dict)
    funcs: dict[ir.GlobalVar, Func] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)
    facts: dict[str, KernelFacts] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    scalars: dict[ir.Function, Group] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()

    def add(self, kernel: StoredKernel, program: Func | bytes, name: str) -> ir.GlobalVar:
        known = self.by_digest.get(kernel.digest)
        if known is not None:
            return known
        gv = self.by_digest[kernel.digest] = ir.GlobalVar(self._name(name))
        self.facts[gv.name] = kernel.facts
        if isinstance(program, Func):
            self.funcs[gv] = replace(program, name=gv.name)
        else:
            self.found[gv.name] = Found(tuple(o.layout for o in kernel.outputs), kernel.facts, program)
        return gv

    def _name(self, base: str) -> str:
        """A name that the module does not have yet."""
        while True:
            n = self.counts.get(base, 0)
            self.counts[base] = n + 1
            if f"{base}_{n}" not in self.taken:
                return f"{base}_{n}"


def lower_functions(
    mod: Module,
    target: Target,
    precision: Precision = Precision.DEFAULT,
    shelf: Shelf | None = None,
    allocate: Allocate = np.empty,
    *,
    assign_layouts: bool = True,
) -> LoweredModule:
    """`mod` (fused, in A-normal form) with every primitive function lowered to tensor programs for `target`.

    What the `shelf` has is not lowered again; `allocate` gives memory for packed constants, by shape and dtype.
    Without `assign_layouts`, kernels compute every tensor in row-major order.
    """
    kernels, groups, packer = _Kernels(), Groups(target, precision, assign_layouts, shelf), Packer(allocate)
    written = frozenset(gv.name for gv, func in mod.functions.items() if isinstance(func, Func))
    kernels.taken = frozenset(gv.name for gv in mod.functions)
    functions: dict[ir.GlobalVar, GlobalFunc] = {}
    with closing(packer):
        for gv, func in mod.functions.items():
            if isinstance(func, ir.Function):
                func = with_access_checks(with_extent_checks(func))
                facts = {p: _plain(p.ty) for p in func.params}
                dims = frozenset(d for d in func.type_params if isinstance(d, Var))
                func = replace(func, body=_Block(kernels, groups, packer, facts, dims).lower(func.body))
            functions[gv] = func
        packer.run()
    module = mod.with_functions({**functions, **kernels.funcs})
    names = {digest: gv.name for digest, gv in kernels.by_digest.items()}
    return LoweredModule(module, kernels.found, kernels.facts, groups, names, kernels.scalars, written)


def _row_major(ty: object) -> Layouts:
    assert isinstance(ty, TensorType | TupleType)
    return tuple(Layout.row_major(t.rank) for t in tensor_types(ty))


def _plain(ty: object) -> Layouts:
    """The layouts of the tensors in a value that no kernel has chosen; nothing, where there are objects."""
    return _row_major(ty) if _is_data(ty) else ()


@dataclass(frozen=True, slots=True)
class _Group:
    """The call of a primitive function, bound to `var`."""

    var: ir.Var
    call: ir.Call
    description: Description
    structure: Structure


def _paddings(groups: Iterable[_Group]) -> dict[ir.Var, dict[float, list[Widths]]]:
    """How `groups` pad each variable that they read."""
    found: dict[ir.Var, dict[float, list[Widths]]] = {}
    for group in groups:
        args = _leaves(group.call.args)
        for n, fill, widths in group.structure.paddings:
            arg = args[n]
            if isinstance(arg, ir.Var) and isinstance(arg.ty, TensorType):
                found.setdefault(arg, {}).setdefault(fill, []).append(widths)
    return found


def _joints(groups: Collection[_Group], leaving: set[ir.Var]) -> list[JointUse]:
    """The joints of `groups` that may be views."""
    users = dict.fromkeys((g.var for g in groups if isinstance(g.var.ty, TensorType)), 0)
    arguments = {g.var: _leaves(g.call.args) for g in groups}
    for group in groups:
        for v in _vars(arguments[group.var]):
            if v in users:
                users[v] += 1
    found: list[JointUse] = []
    for group in groups:
        moved: Moves = group.structure.moves
        for n, joint in enumerate(moved.joints):
            parts = [arguments[group.var][k] for k in joint.inputs]
            use = JointUse.of(group.var, n, joint.axis, parts, moved.outputs == (n,), leaving, users)
            found += [use] if use is not None else []
    return found


def _joined_type(parts: Sequence[ir.Expr], axis: int) -> TensorType:
    types = [t for p in parts for t in tensor_types(p.ty)]
    extent = types[0].shape[axis]
    for t in types[1:]:
        extent = extent + t.shape[axis]
    first = types[0].shape
    return TensorType((*first[:axis], simplify(extent), *first[axis + 1 :]), types[0].dtype)


class _Block:
    """One block: `facts` has the layouts of every variable in scope. The memory of what has extents other than of the
    function's `dims` is not planned: it is no view of other memory."""

    def __init__(
        self,
        kernels: _Kernels,
        groups: Groups,
        packer: Packer,
        facts: dict[ir.Var, Layouts],
        dims: frozenset[Var],
    ) -> None:
        self.kernels, self.groups, self.packer, self.facts, self.dims = kernels, groups, packer, facts, dims
        self.fields: dict[ir.Var, tuple[ir.Expr, ...]] = {}  # tuples that primitive functions return
        self.leaving: set[ir.Var] = set()
        self.paddings: Paddings = {}
        self.wholes = Wholes()

    def lower(self, body: ir.Expr) -> ir.Expr:
        bindings, result = chain(body)
        bindings = with_early_reads(with_cascades(bindings, result, self.groups.is_cascade), result, self._may_move)
        bindings = with_late_updates(bindings)
        groups = {
            var: self._group_of(var, value)
            for var, value in bindings
            if is_group(value) and not self._is_scalar(value.op)
        }
        self.leaving = self._leaving(bindings, result)
        self.paddings = _paddings(groups.values())
        planned = [g for g in groups.values() if self.dims.issuperset(g.description.dims)]
        self.wholes = Wholes.plan(_joints(planned, self.leaving), self.paddings)
        out: list[Binding] = []
        for var, value in bindings:
            if var in groups:
                self._lower_group(groups[var], out)
            else:
                out.append((var, self._nested(value)))
                self.facts[var] = self._facts_of(value)
        return lets(out, self._resolve(result))

    def _may_move(self, value: ir.Expr) -> bool:
        """Whether `value` may be computed as soon as what it uses is there: it is a group, of dims of the function."""
        return is_group(value) and self.dims.issuperset(self.groups.describe(_primitive(value)).dims)

    def _is_scalar(self, func: ir.Expr) -> bool:
        assert isinstance(func, ir.Function)
        group = scalar_group(func)
        if group is not None:
            self.kernels.scalars[func] = group
        return group is not None

    def _inner(self) -> _Block:
        """A block inside this one: what is in scope here is in scope there."""
        inner = _Block(self.kernels, self.groups, self.packer, dict(self.facts), self.dims)
        inner.fields = dict(self.fields)
        return inner

    def _facts_of(self, value: ir.Expr) -> Layouts:
        if isinstance(value, ir.Var):
            return self.facts[value]
        return _plain(value.ty)

    def _nested(self, value: ir.Expr) -> ir.Expr:
        if isinstance(value, ir.If):
            return replace(value, then=self._inner().lower(value.then), orelse=self._inner().lower(value.orelse))
        if isinstance(value, ir.Match):
            return replace(value, clauses=tuple(map(self._clause, value.clauses)))
        if isinstance(value, ir.TupleGetItem) and isinstance(value.value, ir.Var) and value.value in self.fields:
            return self.fields[value.value][value.index]
        return value.with_children(tuple(self._resolve(c) for c in value.children()))

    def _clause(self, clause: Clause) -> Clause:
        inner = self._inner()
        inner.facts.update((v, _plain(v.ty)) for v in pattern_vars(clause.pattern))
        return Clause(clause.pattern, inner.lower(clause.body))

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
            if not is_group(value):
                found |= _vars([value])
        return found

    def _group_of(self, var: ir.Var, call: ir.Call) -> _Group:
        assert isinstance(call.op, ir.Function)
        description = self.groups.describe(call.op)
        return _Group(var, call, description, self.groups.structure(call.op, description))

    def _lower_group(self, group: _Group, out: list[Binding]) -> None:
        """Appends what computes a group."""
        args = [leaf for arg in group.call.args for leaf in self._tensors(arg, out)]
        if not self._joined(group, args, out) and not self._cut(group, args, out):
            self._group(group, args, out)
        if group.var not in self.fields:
            self.wholes.settle(group.var, self.facts[group.var][0])

    def _joined(self, group: _Group, args: Sequence[ir.Expr], out: list[Binding]) -> bool:
        """Whether the group is a joint of what lies in memory as it should; then it is bound to that."""
        (number, *more) = group.structure.moves.outputs
        if more or not isinstance(number, int):
            return False
        view = self.wholes.view(group.var, number)
        if view is None or (group.var in self.leaving and not view[1].is_row_major):
            return False
        self._view(group, number, args, group.var, out)
        return True

    def _view(
        self, group: _Group, number: int, args: Sequence[ir.Expr], bound: ir.Var | None, out: list[Binding]
    ) -> ir.Var | None:
        """Binds joint `number` of the group, to `bound` if that is given; None if it is not in memory."""
        view = self.wholes.view(group.var, number)
        if view is None:
            return None
        use, layout = view
        joint = group.structure.moves.joints[number]
        parts = [args[n] for n in joint.inputs]
        ty = _joined_type(parts, joint.axis)
        var = bound or ir.Var("joined", ty=ty)
        out.append((var, join(parts, use.axis, ty, group.call.span)))
        self.facts[var] = (layout,)
        return var

    def _cut(self, group: _Group, args: Sequence[ir.Expr], out: list[Binding]) -> bool:
        """Whether the group does nothing but cut up its inputs, and what is cut out can be read where it lies; then it
        is bound to that."""
        if group.var in self.leaving or group.var in self.wholes.places.of:
            return False
        if not self.dims.issuperset(group.description.dims):
            return False
        cuts = [self._block_of(group, cut, args, ty)
                for cut, ty in zip(group.structure.moves.outputs, tensor_types(group.var.ty), strict=True)]  # fmt: skip
        known = [c for c in cuts if c is not None]
        if len(known) < len(cuts):
            return False
        is_one = isinstance(group.var.ty, TensorType)
        parts: list[ir.Expr] = []
        for view, layout in known:
            var = group.var if is_one else ir.Var(group.var.name, ty=view.ty)
            out.append((var, view))
            self.facts[var] = (layout,)
            parts.append(var)
        if not is_one:
            self.facts[group.var] = tuple(layout for _, layout in known)
            self.fields[group.var] = tuple(parts)
        return True

    def _block_of(
        self, group: _Group, cut: object, args: Sequence[ir.Expr], ty: TensorType
    ) -> tuple[ir.Expr, Layout] | None:
        """What `cut` takes of an argument, and how it lies in memory; None where a copy is needed, or is better: one
        with the halo that others want."""
        if not isinstance(cut, Cut) or not isinstance(args[cut.source], ir.Var):
            return None
        source = args[cut.source]
        assert isinstance(source.ty, TensorType)
        (layout,) = self._layouts([source])
        begin = [from_data(b, tuple(group.description.dims)) for b in cut.begin]
        found = cut_layout(layout, source.ty.shape, begin, ty.shape)
        if found is None or group.var in self.paddings:
            return None
        return part(source, begin, ty, group.call.span), found

    def _group(self, group: _Group, args: Sequence[ir.Expr], out: list[Binding]) -> None:
        """Appends the calls of a group's kernels."""
        var, call, dims = group.var, group.call, tuple(group.description.dims)
        assert isinstance(call.op, ir.Function)
        moved = group.structure.moves
        wholes = [None if n in moved.outputs else self._view(group, n, args, None, out)  # a result is computed
                  for n in range(len(moved.joints))]  # fmt: skip
        values: list[ir.Expr | None] = [*args, *(w for w in wholes if w is not None)]  # by their numbers
        asked = Asked(
            tuple(self._layouts(args)),
            tuple(isinstance(a, ir.Constant) for a in args),
            self._wanted(var),
            tuple(None if w is None else self.facts[w][0] for w in wholes),
        )
        layouts = [*asked.layouts, *(layout for layout in asked.joined if layout is not None)]
        lowered = self.groups.lowered(call.op, group.description, asked)
        read = {n for kernel in lowered.group.kernels for n in kernel.inputs}
        values += self.packer.add(lowered.group.packings, [_known(v) for v in values], read)
        layouts += [Layout.row_major(len(packing.extents)) for packing in lowered.group.packings]
        outputs = lowered.group.outputs
        names = kernel_names(call.op, [kernel.name for kernel in lowered.group.kernels])
        for name, kernel, program in zip(names, lowered.group.kernels, lowered.kernels, strict=True):
            final = var if outputs == (len(values),) and len(kernel.outputs) == 1 else None
            self._call(final, name, kernel, program, call.op, dims, values, out)
            layouts += [o.layout for o in kernel.outputs]
        self.facts[var] = tuple(layouts[n] for n in outputs)
        if not (isinstance(var.ty, TensorType) and values[outputs[0]] is var):
            self.fields[var] = tuple(_known(values[n]) for n in outputs)

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

    def _wanted(self, var: ir.Var) -> tuple[Layout | None, ...]:
        """The layouts that the tensors of `var`, results of a group, shall have."""
        row_major = _row_major(var.ty)
        if var in self.leaving:
            return row_major
        place = self.wholes.wanted(var)
        if place is not None:
            return (place,)
        by_value = self.paddings.get(var)
        if not by_value:
            return (None,) * len(row_major)
        return (halo_layout(*max(by_value.items(), key=lambda item: len(item[1]))),)

    def _call(
        self,
        var: ir.Var | None,
        name: str,
        kernel: StoredKernel,
        program: Func | bytes,
        func: ir.Function,
        dims: Sequence[Var],
        values: list[ir.Expr | None],
        out: list[Binding],
    ) -> None:
        """Appends the call of a kernel, bound to `var` if that is given, and what it stores to the group's `values`."""
        gv = self.kernels.add(kernel, program, name)
        types = [TensorType(o.dims(dims), o.dtype) for o in kernel.outputs]
        inputs, words = [_known(values[n]) for n in kernel.inputs], [dims[n] for n in kernel.dims]
        call = call_tir(gv, inputs, types, words, operators=operators_of(func), span=func.span)
        bound = var or ir.Var(kernel.name, ty=call.ty)
        out.append((bound, call))
        self.facts[bound] = tuple(o.layout for o in kernel.outputs)
        if len(kernel.outputs) == 1:
            values.append(bound)
            return
        for n, output in enumerate(kernel.outputs):
            item = ir.Var(output.name, ty=types[n])
            out.append((item, ir.TupleGetItem(bound, n, ty=types[n])))
            values.append(item)
            self.facts[item] = (output.layout,)


def _primitive(call: ir.Call) -> ir.Function:
    assert isinstance(call.op, ir.Function)
    return call.op


def _known(value: ir.Expr | None) -> ir.Expr:
    assert value is not None
    return value


def _is_data(ty: object) -> bool:
    return isinstance(ty, TensorType) or (isinstance(ty, TupleType) and all(_is_data(f) for f in ty.fields))


def _leaves(args: Iterable[ir.Expr]) -> list[ir.Expr]:
    """An expression for each tensor in arguments: a variable that is a tuple stands for each of its tensors."""
    found: list[ir.Expr] = []
    for arg in args:
        found += _leaves(arg.fields) if isinstance(arg, ir.Tuple) else [arg] * len(tensor_types(arg.ty))
    return found


def _vars(roots: Iterable[ir.Expr]) -> set[ir.Var]:
    return {e for e in post_order(roots) if isinstance(e, ir.Var)}
