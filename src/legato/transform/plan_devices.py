"""Devices: every tensor gets one, and copies are made of those that are wanted on another.

    add(on_device(multiply(%x, %y), virtual_device="cpu"), %z)
    =>  %0 = device_copy(multiply(%x, %y), src_virtual_device="cpu:0", dst_virtual_device="cuda:0"); add(%0, %z)

What a program states by `on_device` and `device_copy` decides, by unification over the whole language
(`infer.devices`); the rest lies on the primary device, conditions and extents on the host. The statements are gone
then: functions say where their parameters and results lie, and the copies say between which devices they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.device import as_device
from legato.base.errors import CompileError, InternalError, VerifyError
from legato.base.node import post_order, rebuild
from legato.infer.devices import Devices, Read, entries, verify_devices
from legato.infer.domains import Branch, Domain, Leaf
from legato.ir.contents import called_operators
from legato.ir.devices import ON_DEVICE, PARAMS, PLACING, RESULT, device_copy
from legato.ir.expr import Call, Expr, Function, Tuple, TupleGetItem
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType, Type
from legato.transform.pass_ import Pass

__all__ = ["PlanDevices"]


@dataclass(frozen=True, slots=True)
class PlanDevices(Pass):
    """Module → module whose functions say on which devices their parameters and results lie, without `on_device`.

    A module that says nothing of devices is not changed while `primary` and `host` are one. CompileError where a tensor
    would have to lie on two devices, and nothing says that it may be copied.

    calls: of a planned module, in which passes have made one function of several (calls of closures become calls of one
    that looks which it is): arguments are copied to where a function reads them, results to where they are read.
    """

    name = "plan-devices"
    primary: str = "cpu"
    host: str = "cpu"
    calls: bool = False

    def __call__(self, mod: Module) -> Module:
        primary, host = as_device(self.primary), as_device(self.host)
        if primary == host and not any(_is_placed(f) for _, f in mod.graph_functions()):
            return mod
        believed = entries(mod) if self.calls else None
        found = Devices(mod, plans=True, crosses=self.calls, entries=believed, primary=primary, host=host)
        if found.faults:
            first, *others = found.faults
            raise CompileError(
                first.message,
                span=first.node.span,
                hint="on_device around a value, with constrain_result=False, lets it be copied to where it is read",
                details=tuple(fault.message for fault in others),
            )
        new = {gv: _planned(f, found) if isinstance(f, Function) else f for gv, f in mod.functions.items()}
        planned = mod.with_functions(new)
        try:
            verify_devices(planned, host)
        except VerifyError as error:
            raise InternalError(f"{self.name}: {error}") from error
        return planned


def _is_placed(func: Function) -> bool:
    """Whether something in `func` says where tensors lie."""
    return not (func.attrs.keys().isdisjoint((PARAMS, RESULT)) and called_operators(func).isdisjoint(PLACING))


def _planned(func: Function, devices: Devices) -> Function:
    """`func` with its copies, saying where its parameters and result lie."""
    reads: dict[int, list[Read]] = {}
    for read in devices.reads:
        reads.setdefault(id(read.node), []).append(read)
    new: dict[int, Expr] = {}
    for node in post_order([func.body]):
        new[id(node)] = _node(node, new, devices, reads)
    params = tuple(devices.text(devices.of(p)) for p in func.params)
    attrs = {**func.attrs, PARAMS: params, RESULT: devices.text(devices.result(func))}
    body = new[id(func.body)]
    return func if body is func.body and attrs == dict(func.attrs) else replace(func, body=body, attrs=attrs)


def _node(node: Expr, new: dict[int, Expr], devices: Devices, reads: Mapping[int, list[Read]]) -> Expr:
    made = rebuild(node, new)
    for read in reads.get(id(node), ()):
        if read.index >= 0:
            kids, at = list(made.children()), read.index + isinstance(made, Call)
            copied = _copied(kids[at], kids[at].ty, read.made, read.read, devices)
            if copied is not kids[at]:
                kids[at] = copied
                made = made.with_children(tuple(kids))
    if not isinstance(made, Call):
        return made
    value = made.args[0] if made.op is ON_DEVICE else made
    inner = devices.boundaries.get(id(node))
    return value if inner is None else _copied(value, node.ty, inner, devices.of(node), devices)


def _copied(value: Expr, ty: Type | None, made: Domain, wanted: Domain, devices: Devices) -> Expr:
    """`value`, whose tensors lie where `made` says, where `wanted` does."""
    if devices.text(made) == devices.text(wanted):
        return value
    if isinstance(made, Leaf) and isinstance(wanted, Leaf) and isinstance(ty, TensorType):
        return device_copy(value, devices.device(made), devices.device(wanted))
    assert isinstance(made, Branch)
    assert isinstance(wanted, Branch)
    assert isinstance(ty, TupleType)
    parts = zip(_fields(value, ty), ty.fields, made.parts, wanted.parts, strict=True)
    return Tuple(tuple(_copied(v, t, a, b, devices) for v, t, a, b in parts), ty=ty, span=value.span)


def _fields(value: Expr, ty: TupleType) -> Iterator[Expr]:
    if isinstance(value, Tuple):
        yield from value.fields
    else:
        yield from (TupleGetItem(value, n, ty=t, span=value.span) for n, t in enumerate(ty.fields))
