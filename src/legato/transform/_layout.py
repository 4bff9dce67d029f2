"""Layouts through a program: which tensors are held in another layout than the program says, and what brings them back.

A value is held in any layout of its axes: each operator's rule (`_layout_rules`) says how it takes its operands then,
and how its result is held. Where there is no rule, operands are brought into the layout of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.base.node import post_order, rebuild
from legato.infer.builder import Builder
from legato.ir.atoms import is_primitive
from legato.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from legato.ir.layout import Layout
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType, Type
from legato.ops.layout_transform import LayoutTransformAttrs, layout_transform
from legato.transform._layout_rules import Found, Placing, Site, fits, rule_of

__all__ = ["LAYOUTS", "Change", "Relayout"]

LAYOUTS: Final = frozenset({"layout", "data_layout", "kernel_layout", "weight_layout", "out_layout"})  # attributes

Change = Callable[[Call, Sequence[Expr]], Expr | None]
Key = tuple[Layout, Layout]


class Value:
    """A tensor: the expression that gives it, and how that holds it (`placing`; None: as in the program).

    It is brought into each layout once, however many ask for it (`forms`, by `Placing.key`): from the tensor that it
    only names otherwise, if there is one (`origin`), and how that holds it.
    """

    def __init__(self, expr: Expr, placing: Placing | None = None) -> None:
        self.expr = expr
        self.placing = None if placing is None or placing.is_plain else placing
        self.forms: dict[Key, Expr] = {}
        self.origin: tuple[Expr, Placing] | None = None

    def plain(self) -> Expr:
        """The tensor in the layout of the program."""
        return self.expr if self.placing is None else self.held(Placing(self.placing.old, self.placing.old))

    def held(self, wanted: Placing) -> Expr:
        """The tensor as `wanted` says."""
        have = self.placing
        if have is None:
            have = Placing(wanted.old, wanted.old)
        elif not have.is_seen_as(wanted.old):
            return Value(self.plain()).held(wanted)
        have, x = have.seen_as(wanted.old), self.expr
        if have.new == wanted.new:
            return x
        if self.origin is not None and self.origin[1].is_seen_as(wanted.old):
            x, have = self.origin[0], self.origin[1].seen_as(wanted.old)
        if have.new == wanted.new:
            return x
        if wanted.key not in self.forms:
            self.forms[wanted.key] = _moved(x, have.new, wanted.new)
        return self.forms[wanted.key]


class Fields:
    """A tuple: of `values`, held by the expression `held`."""

    def __init__(self, held: Expr, values: Sequence[Value], plain: Expr | None = None) -> None:
        self.expr, self.values = held, values
        self._plain = plain

    @property
    def is_plain(self) -> bool:
        """Whether all fields are held as in the program."""
        return all(v.placing is None for v in self.values)

    def plain(self) -> Expr:
        """The tuple in the layouts of the program."""
        if self._plain is None:
            self._plain = self.expr if self.is_plain else Builder().tuple_([v.plain() for v in self.values])
        return self._plain


def _moved(x: Expr, source: Layout, target: Layout) -> Expr:
    attrs = LayoutTransformAttrs(str(source), str(target))
    return Builder(span=x.span).call_op(layout_transform, [x], attrs)


@dataclass(frozen=True, slots=True)
class Relayout:
    """Rewrites expressions.

    change: what takes the place of a call, over its operands (constants, or variables for what else they are); None:
    the call. Its outermost call may want operands in other layouts than they have, as its attributes say: `Relayout`
    sees to it.
    rules: for operators that have none, or another one here.
    strict: a change that does not fit is an error; else the call stays.
    """

    change: Change
    rules: Mapping[str, Callable[[Site], Found | None]]
    strict: bool = False

    def rewritten(self, root: Expr) -> Expr:
        """`root` with the same value and type; the same object where nothing changed."""
        values: dict[int, Value | Fields] = {}
        for node in post_order([root], lambda n: not is_primitive(n)):
            values[id(node)] = self._value(node, values)
        return values[id(root)].plain()

    def _value(self, node: Expr, values: dict[int, Value | Fields]) -> Value | Fields:
        if isinstance(node, Tuple):
            return _tuple(node, [values[id(f)] for f in node.fields])
        if isinstance(node, TupleGetItem):
            return _field(node, values[id(node.value)])
        if isinstance(node, Call) and isinstance(node.op, Op) and node.ty is not None:
            return self._call(node, [values[id(a)] for a in node.args])
        if is_primitive(node):
            return Value(node)
        return Value(rebuild(node, {id(kid): values[id(kid)].plain() for kid in node.children()}))

    def _call(self, call: Call, operands: Sequence[Value | Fields]) -> Value | Fields:
        params = [a if isinstance(a, Constant) else Var(f"x{n}", ty=a.ty) for n, a in enumerate(call.args)]
        new = self.change(call, params)
        if new is not None:
            found = self._changed(call, new, dict(zip(map(_name, params), operands, strict=True)))
            if found is not None:
                return found
        return self._placed(call, call, operands) or _rebuilt(call, operands)

    def _changed(self, call: Call, new: Expr, given: Mapping[Hashable, Value | Fields]) -> Value | Fields | None:
        """The value of `new`, whose outermost call stands for `call`; None where it does not fit."""
        main = new.value if isinstance(new, TupleGetItem) else new
        values: dict[int, Value | Fields] = {}
        for node in post_order([new]):
            if _name(node) in given:
                values[id(node)] = given[_name(node)]
            elif node is main and isinstance(node, Call) and isinstance(node.op, Op):
                found = self._main(call, node, [values[id(a)] for a in node.args])
                if found is None:
                    return None
                values[id(node)] = found
            elif isinstance(node, Call) and isinstance(node.op, Op):
                typed = _typed(node, [values[id(a)].plain() for a in node.args])
                operands = [values[id(a)] for a in node.args]
                values[id(node)] = self._placed(typed, typed, operands) or _rebuilt(typed, operands)
            else:
                values[id(node)] = self._value(node, values)
        found = values[id(new)]
        if not isinstance(main, Call) or not isinstance(main.op, Op):
            _require_type(call, found.plain().ty)
        return found

    def _main(self, call: Call, new: Call, operands: Sequence[Value | Fields]) -> Value | Fields | None:
        """The outermost call of what stands for `call`."""
        assert isinstance(call.op, Op)
        assert isinstance(new.op, Op)
        is_other = new.op is not call.op or new.attrs != call.attrs
        says = is_other and LAYOUTS & (_names(new) | _names(call)) and rule_of(new.op, {}) is rule_of(call.op, {})
        if says or new.op.name in self.rules:
            found = self._placed(call, new, operands)
            if found is None and self.strict:
                lines = [f"got: {v.expr.ty}" for v in operands]
                raise TypeCheckError(
                    f"the rule for {call.op.name} asks for layouts that do not fit", span=call.span, details=lines,
                    hint="blocks have to divide the axes of operands and result, whatever their dims are")  # fmt: skip
            return found
        given = [o.plain().ty for o in operands]
        if new.op is call.op and new.attrs == call.attrs and given == [a.ty for a in call.args]:
            return self._placed(call, call, operands) or _rebuilt(call, operands)
        made = _typed(new, [o.plain() for o in operands])
        _require_type(call, made.ty)
        return self._placed(made, made, operands) or _rebuilt(made, operands)

    def _placed(self, old: Call, new: Call, operands: Sequence[Value | Fields]) -> Value | Fields | None:
        """The value of `new`, which stands for `old`, by its operator's rule; None where there is none that fits."""
        assert isinstance(new.op, Op)
        rule = rule_of(new.op, self.rules)
        leaves = [v for o in operands for v in (o.values if isinstance(o, Fields) else [o])]
        types = [_tensor(v) for v in leaves]
        if rule is None or any(t is None for t in types):
            return None
        site = Site(old, new.op, new.attrs, tuple(v.placing for v in leaves), tuple(t for t in types if t))
        found = rule(site)
        if found is None:
            return None
        if found.alias is not None:
            return _alias(new, leaves[0], found.alias)
        wants = [w or (v.placing and v.placing.plain) for w, v in zip(found.args, leaves, strict=True)]
        if not all(_can_take(v, w, t) for v, w, t in zip(leaves, wants, site.types, strict=True)):
            return None
        exprs = iter([_taken(v, w, new is not old) for v, w in zip(leaves, wants, strict=True)])
        args = [_packed(o, exprs) if isinstance(o, Fields) else next(exprs) for o in operands]
        return _result(old, new, args, found)


def _require_type(call: Call, got: Type | None) -> None:
    """TypeCheckError where what a rule says for a call is of another type."""
    if got != call.ty:
        assert isinstance(call.op, Op)
        lines = [f"got:    {got}", f"wanted: {call.ty}"]
        hint = "say another layout by the attributes of an operator that has layouts"
        message = f"the rule for {call.op.name} changes the type of the result"
        raise TypeCheckError(message, span=call.span, details=lines, hint=hint)


def _name(e: Expr) -> Hashable:
    """What is equal for an operand wherever it stands: a variable may be built anew, with a type."""
    return e if isinstance(e, Var) else id(e)


def _names(call: Call) -> set[str]:
    return set() if call.attrs is None else {f.name for f in fields(call.attrs)}


def _tensor(v: Value) -> TensorType | None:
    """The type of a tensor as the program has it."""
    ty = v.expr.ty
    if not isinstance(ty, TensorType) or v.placing is None:
        return ty if isinstance(ty, TensorType) else None
    return TensorType(v.placing.old.shape(v.placing.new.extents(ty.shape)), ty.dtype)


def _can_take(v: Value, wanted: Placing | None, ty: TensorType) -> bool:
    """Whether an operand of type `ty` can be brought into the layout that is wanted, and back."""
    return wanted is None or ty.rank != len(wanted.old.dims) or fits(wanted, ty.shape)


def _taken(v: Value, wanted: Placing | None, is_changed: bool) -> Expr:
    """An operand as it is wanted: with more dims in front, where these are more; or as it is where what stands for a
    call has brought it there."""
    if wanted is None:
        return v.plain()
    ty = _tensor(v)
    assert ty is not None
    rank = len(wanted.old.dims)
    if is_changed and ty.rank == len(wanted.new.dims) != rank:
        return v.plain()
    if ty.rank < rank:
        b = Builder(span=v.expr.span)
        v = Value(b.op("expand_dims")(v.plain(), axis=0, num_newaxis=rank - ty.rank))
    return v.held(wanted)


def _packed(o: Fields, exprs: Any) -> Expr:
    """The tuple operand of the next of `exprs`; the same object where these are its fields."""
    fields = [next(exprs) for _ in o.values]
    if isinstance(o.expr, Tuple) and all(a is b for a, b in zip(fields, o.expr.fields, strict=True)):
        return o.expr
    return Builder().tuple_(fields)


def _result(old: Call, new: Call, args: Sequence[Expr], found: Found) -> Value | Fields | None:
    """The call, where its result is what the rule says it is."""
    assert isinstance(new.op, Op)
    is_same = new.op is old.op and found.attrs == old.attrs and all(a is b for a, b in zip(args, old.args, strict=True))
    try:
        made = old if is_same else Builder(span=old.span).call_op(new.op, args, found.attrs)
    except TypeCheckError:
        return None
    types = made.ty.fields if isinstance(made.ty, TupleType) else (made.ty,)
    wanted = old.ty.fields if isinstance(old.ty, TupleType) else (old.ty,)
    if len(types) != len(wanted) or len(types) != len(found.out):
        return None
    if not all(_holds(t, w, p) for t, w, p in zip(types, wanted, found.out, strict=True)):
        return None
    if not isinstance(made.ty, TupleType):
        return Value(made, found.out[0])
    b = Builder(span=old.span)
    return Fields(made, [Value(b.get(made, n), p) for n, p in enumerate(found.out)])


def _holds(ty: Type | None, wanted: Type | None, placing: Placing | None) -> bool:
    """Whether a tensor of type `ty` holds one of type `wanted` as `placing` says."""
    if placing is None:
        return ty == wanted
    if not isinstance(ty, TensorType) or not isinstance(wanted, TensorType) or ty.rank != len(placing.new.dims):
        return False
    back = TensorType(placing.old.shape(placing.new.extents(ty.shape)), ty.dtype)
    there = placing.new.shape(placing.old.extents(wanted.shape))
    return back == wanted and there == ty.shape and fits(placing, wanted.shape)


def _alias(call: Call, v: Value, placing: Placing) -> Value:
    """The value of a call that only names dims otherwise: of its operand's placing, or the call, which the operand
    holds, too."""
    if v.placing is not None or placing.is_plain:
        return Value(v.expr, placing)
    there = Placing(placing.new, placing.old)
    if there.key not in v.forms:
        v.forms[there.key] = _rebuilt(call, [v]).expr
    found = Value(v.forms[there.key])
    found.origin = _origin(v, placing)
    return found


def _origin(v: Value, placing: Placing) -> tuple[Expr, Placing]:
    """The tensor that `v` only names otherwise, as what holds a value that names `v` otherwise, held as `placing`."""
    if v.origin is None or not v.origin[1].is_seen_as(placing.new):
        return v.expr, placing
    return v.origin[0], Placing(placing.old, v.origin[1].seen_as(placing.new).new)


def _tuple(node: Tuple, fields: Sequence[Value | Fields]) -> Value | Fields:
    plain = rebuild(node, {id(a): f.plain() for a, f in zip(node.fields, fields, strict=True)})
    values = [f for f in fields if isinstance(f, Value)]
    if len(values) != len(fields):
        return Value(plain)
    kids = [f.expr for f in values]
    is_same = all(a is b for a, b in zip(kids, plain.children(), strict=True))
    return Fields(plain if is_same else Builder(span=node.span).tuple_(kids), values, plain)


def _field(node: TupleGetItem, value: Value | Fields) -> Value:
    """A field, held as its tuple holds it."""
    if node.ty is None and isinstance(value, Fields):
        return value.values[node.index]
    if isinstance(value, Value) or value.is_plain:
        return Value(rebuild(node, {id(node.value): value.plain()}))
    placing = value.values[node.index].placing
    return Value(Builder(span=node.span).get(value.expr, node.index) if not isinstance(value.expr, Tuple) else
                 replace(node, value=value.expr, ty=value.values[node.index].expr.ty), placing)  # fmt: skip


def _rebuilt(call: Call, operands: Sequence[Value | Fields]) -> Value:
    """The call with its operands in the layouts of the program."""
    kids = tuple(o.plain() for o in operands)
    is_same = all(a is b for a, b in zip(kids, call.args, strict=True))
    return Value(call if is_same else replace(call, args=kids))


def _typed(call: Call, args: Sequence[Expr]) -> Call:
    """A call of `args`, with its type."""
    assert isinstance(call.op, Op)
    return Builder(span=call.span).call_op(call.op, args, call.attrs)
