"""Random programs that say of random tensors where these are computed."""

from __future__ import annotations

from random import Random

from legato.base.errors import CompileError
from legato.base.node import post_order, rebuild
from legato.ir.devices import ON_DEVICE, OnDeviceAttrs
from legato.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.transform.plan_devices import PlanDevices

__all__ = ["DEVICES", "annotated", "placed"]

DEVICES = ("cpu", "cuda", "cuda:1", "cuda/shared")


def annotated(mod: Module, seed: int, *, share: float = 1.0) -> Module:
    """`mod` (typed) with on_device around a `share` of the tensors that operators read. With all of them, what each is
    computed from need not lie where the others do: devices can be found for every program without functions."""
    random = Random(seed)
    return mod.with_functions(
        {gv: _function(f, random, share) if isinstance(f, Function) else f for gv, f in mod.functions.items()}
    )


def placed(mod: Module, seed: int) -> tuple[Module, Module]:
    """`mod` with as much of on_device as devices can be found for, and as it is planned."""
    for share in (1.0, 0.6, 0.3, 0.1, 0.03):
        found = annotated(mod, seed, share=share)
        try:
            return found, PlanDevices(primary="cuda")(found)
        except CompileError:
            continue
    return mod, PlanDevices(primary="cuda")(mod)


def _function(func: Function, random: Random, share: float) -> Function:
    new: dict[int, Expr] = {}
    placed: dict[object, Expr] = {}
    devices: dict[object, str] = {}

    def read(operand: Expr) -> Expr:
        """An operand as an operator reads it: one that several read is on one device."""
        if isinstance(operand, Tuple):
            return operand.with_children(tuple(map(read, operand.fields)))
        if isinstance(operand, Constant) or not isinstance(operand.ty, TensorType):
            return operand
        whole = operand
        while isinstance(whole, TupleGetItem):
            whole = whole.value
        key: object = whole if isinstance(whole, Var) else id(whole)
        device = devices.setdefault(key, random.choice(DEVICES))
        key = operand if isinstance(operand, Var) else id(operand)
        if key not in placed:
            is_placed = random.random() < share
            placed[key] = Call(ON_DEVICE, (operand,), OnDeviceAttrs(device), ty=operand.ty) if is_placed else operand
        return placed[key]

    for node in post_order([func.body]):
        made = rebuild(node, new)
        if isinstance(made, Call) and isinstance(made.op, Op):
            made = made.with_children((made.op, *map(read, made.args)))
        new[id(node)] = made
    made = func.with_children((*func.params, new[id(func.body)]))
    assert isinstance(made, Function)
    return made
