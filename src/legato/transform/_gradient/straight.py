"""Straight-line code, differentiated: bindings of operators, tuples and their fields, in A-normal form.

Cotangents flow from the last binding to the first (`pull_back`), tangents from the first to the last (`push_forward`);
neither needs cells or closures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from legato.base.errors import CompileError
from legato.infer.builder import Builder
from legato.ir.atoms import is_atom
from legato.ir.expr import Call, Expr, MatchCast, Tuple, TupleGetItem, Var
from legato.ir.let import Binding
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType
from legato.ops._gradients import extents, no_gradient
from legato.transform._gradient.cotangents import Cotangent, at_field, is_continuous, leaves, made, name_for, plus
from legato.transform._gradient.rules import contributions

__all__ = ["Cotangents", "active_vars", "give", "is_straight", "of_operand", "pull_back", "push_forward", "tangent"]

Cotangents = dict[Var, Cotangent]


def is_straight(value: Expr) -> bool:
    """Whether a value of A-normal form is one that this module differentiates."""
    if isinstance(value, Call):
        return isinstance(value.op, Op)
    return isinstance(value, Tuple | TupleGetItem | MatchCast) or is_atom(value)


def active_vars(bindings: Iterable[Binding], roots: Iterable[Var]) -> set[Var]:
    """`roots`, and what has a derivative by them: it depends on them and holds floats."""
    return _dependents((binding for binding in bindings if not _is_flat(binding[1])), roots)


def _dependents(bindings: Iterable[Binding], roots: Iterable[Var]) -> set[Var]:
    """`roots`, and what depends on them and holds floats."""
    found = set(roots)
    for var, value in bindings:
        if is_continuous(var.ty) and any(_is_active(operand, found) for operand in value.children()):
            found.add(var)
    return found


def _is_flat(value: Expr) -> bool:
    """Whether the derivative of a value is 0: nothing flows to its operands."""
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.grad is no_gradient


def _is_active(operand: Expr, active: set[Var]) -> bool:
    return any(v in active for v in _vars([operand]))


def _vars(operands: Iterable[Expr]) -> Iterable[Var]:
    todo = list(operands)
    while todo:
        top = todo.pop()
        if isinstance(top, Var):
            yield top
        elif isinstance(top, Tuple):
            todo += top.fields


# ---------------------------------------------------------------------- reverse


def pull_back(b: Builder, bindings: Sequence[Binding], found: Cotangents, active: set[Var]) -> Cotangents:
    """The cotangents of the active variables, given those that later code has `found`, which are added to."""
    fields: dict[Var, list[Cotangent]] = {}  # of tuples, gathered field by field: they may have thousands
    for var, value in reversed(bindings):
        if var in fields:
            give(b, found, active, var, tuple(fields.pop(var)))
        dy = found.get(var)
        if var not in active or dy is None:
            continue
        if isinstance(value, TupleGetItem) and isinstance(value.value, Var) and value.value in active:
            _give_field(b, fields, value.value, value.index, dy)
            continue
        for operand, part in _shares(b, var, value, dy, active):
            give(b, found, active, operand, part)
    for var, parts in fields.items():
        give(b, found, active, var, tuple(parts))
    return found


def _give_field(b: Builder, fields: dict[Var, list[Cotangent]], of: Var, index: int, dy: Cotangent) -> None:
    assert isinstance(of.ty, TupleType)
    parts = fields.setdefault(of, [None] * len(of.ty.fields))
    parts[index] = plus(b, parts[index], dy, name_for(of))


def _shares(b: Builder, var: Var, value: Expr, dy: Cotangent, active: set[Var]) -> Iterable[tuple[Expr, Cotangent]]:
    """The operands of a binding with what its cotangent adds to theirs."""
    match value:
        case Call():
            found = contributions(b, var, value, made(b, dy, var), lambda operand: _is_active(operand, active))
            return zip(value.args, found, strict=True)
        case Tuple(fields):
            assert isinstance(dy, tuple)
            return zip(fields, dy, strict=True)
        case TupleGetItem(of, index):
            assert isinstance(of.ty, TupleType)
            return [(of, at_field(of.ty, index, dy))]
        case MatchCast(of):
            assert of.ty is not None
            return [(of, _cast_back(b, of, dy))]
        case _:
            return [(value, dy)]


def _cast_back(b: Builder, of: Expr, dy: Cotangent) -> Cotangent:
    """The cotangent of what was cast, in the dims of its own type."""
    if isinstance(dy, tuple):
        assert isinstance(of.ty, TupleType)
        return tuple(_cast_back(b, b.get(of, n), part) for n, part in enumerate(dy))
    if dy is None or of.ty is None or dy.ty == of.ty:
        return dy
    return b.let("d", b.match_cast(dy, of.ty))


def give(b: Builder, found: Cotangents, active: set[Var], operand: Expr, dy: Cotangent) -> None:
    """Adds `dy` to the cotangent of an operand: a variable, a constant, which has none, or a tuple of operands."""
    if isinstance(operand, Var):
        if operand in active and dy is not None:
            found[operand] = plus(b, found.get(operand), dy, name_for(operand))
    elif isinstance(operand, Tuple):
        for n, field in enumerate(operand.fields):
            give(b, found, active, field, dy[n] if isinstance(dy, tuple) else None)


# ---------------------------------------------------------------------- forward


def push_forward(b: Builder, bindings: Sequence[Binding], found: Cotangents) -> Cotangents:
    """The tangents of all variables, given those of the ones before."""
    for var, value in bindings:
        if is_continuous(var.ty):
            tangent = _tangent(b, var, value, lambda operand: of_operand(found, operand))
            if any(True for _ in leaves(tangent)):
                found[var] = tangent
    return found


def of_operand(found: Mapping[Var, Cotangent], operand: Expr) -> Cotangent:
    """The tangent of an operand: of a variable, of nothing else, or of a tuple of operands."""
    if isinstance(operand, Tuple):
        return tuple(of_operand(found, field) for field in operand.fields)
    return found.get(operand) if isinstance(operand, Var) else None


def _tangent(b: Builder, var: Var, value: Expr, of: Callable[[Expr], Cotangent]) -> Cotangent:
    match value:
        case Call():
            return tangent(b, var, value, [of(arg) for arg in value.args])
        case TupleGetItem(whole, index):
            found = of(whole)
            return found[index] if isinstance(found, tuple) else None
        case MatchCast(whole):
            return _cast_back(b, var, of(whole))
        case _:
            return of(value)


def tangent(b: Builder, var: Var, call: Call, given: Sequence[Cotangent]) -> Cotangent:
    """The tangent of `call`, whose value is in `var`, from those of its operands."""
    dy = Var(var.name, ty=call.ty)  # its cotangent is called as the tangent of `var`
    moves = {id(operand) for arg, part in zip(call.args, given, strict=True) for operand in _moving(arg, part)}
    if not moves:
        return None
    with b.bindings() as rule:
        parts = contributions(b, var, call, dy, lambda operand: id(operand) in moves)
    linear = _dependents(rule, [dy])
    for name, value in rule:
        if name not in linear:
            b.let(name, value)  # what the derivative is made of
    found: Cotangents = {}
    for part, wanted in zip(parts, given, strict=True):
        _seed(b, found, linear, part, wanted)
    with b.bindings() as made_:
        result = pull_back(b, [(v, e) for v, e in rule if v in linear], found, linear).get(dy)
    for name, value in made_:
        if not any(_is_active(operand, linear) for operand in value.children()):
            b.let(name, value)
        elif isinstance(value, TupleGetItem):
            linear.add(name)  # a part of something that is asked for its shape alone
        else:
            b.let(name, _zeros_of(b, call, value))
    return result


def _moving(operand: Expr, part: Cotangent) -> Iterable[Expr]:
    """The operand, if its tangent `part` has something, and such fields of it where it is a tuple of operands."""
    if any(True for _ in leaves(part)):
        yield operand
        if isinstance(operand, Tuple) and isinstance(part, tuple):
            for field, of_field in zip(operand.fields, part, strict=True):
                yield from _moving(field, of_field)


def _zeros_of(b: Builder, call: Call, value: Expr) -> Expr:
    """Zeros, of a shape that is known from the type: the only thing that may mention what has no value."""
    if not (isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "zeros_like"):
        op = getattr(call.op, "name", "")
        raise CompileError(f"the gradient of {op} is not linear in its cotangent", span=call.span)
    assert isinstance(value.ty, TensorType)
    return b.zeros(shape=extents(value.ty.shape), dtype=value.ty.dtype)


def _seed(b: Builder, found: Cotangents, linear: set[Var], part: Cotangent, wanted: Cotangent) -> None:
    if isinstance(part, tuple):
        for n, field in enumerate(part):
            _seed(b, found, linear, field, wanted[n] if isinstance(wanted, tuple) else None)
    elif part is not None:
        give(b, found, linear, part, wanted)
