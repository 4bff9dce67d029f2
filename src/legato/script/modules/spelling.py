"""Calls of operators in Relax's names, where Relax has them: `operators.OPERATORS` read backwards.

`SPELT` says for an operator of the language how its attributes become the arguments of one of Relax's names. Whether
that is the call is asked of the rule under the name, which reads the arguments again: what it gives must be the very
call, or the call is spelt otherwise (`R.op`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import CompileError
from legato.ir import sugar
from legato.ir.attrs import make_attrs, pack_args
from legato.ir.expr import Call, Expr, Tuple, Var
from legato.ir.op import Op
from legato.ir.scope import operands
from legato.script.modules.operators import OPERATORS, SAME

__all__ = ["SPELT", "Spelling", "relax_spelling"]

Arguments = Mapping[str, int | str | Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class Spelling:
    """`R.name(*values, **named)`: operands, and attributes."""

    name: str
    values: tuple[Any, ...]
    named: Mapping[str, Any]


def relax_spelling(call: Call) -> Spelling | None:
    """How Relax's names say the call of an operator; None where they do not."""
    op = call.op
    if isinstance(op, Op) and op.name in _PLAIN and call.attrs is None:
        return Spelling(op.name, call.args, {})  # its rule gives the operands to the operator
    for name, arguments in SPELT.get(op.name, ()) if isinstance(op, Op) else ():
        found = _spelling(call, name, arguments)
        if _reads_as(found, call):
            return _shortest(found, call)
    return None


@cache
def _parameters(name: str) -> Sequence[Parameter]:
    """What a name of Relax takes."""
    return list(signature(OPERATORS[name]).parameters.values())[1:]


def _spelling(call: Call, name: str, arguments: Arguments) -> Spelling:
    """The call under `name`, where that can say it. Operands come first, but where `arguments` tells their places."""
    parameters = _parameters(name)
    if not any(isinstance(how, int) for how in arguments.values()):
        arguments = {**{p.name: n for n, p in enumerate(parameters[: len(call.args)])}, **arguments}
    values: list[Any] = []
    named: dict[str, Any] = {}
    is_whole = True  # no parameter was left out so far
    for p in parameters:
        if p.kind is Parameter.VAR_POSITIONAL:
            values += call.args
            break
        if p.kind is Parameter.VAR_KEYWORD:
            known = {q.name for q in parameters}
            named |= {key: _argument(call, how) for key, how in arguments.items() if key not in known}
            break
        how = arguments.get(p.name)
        value = p.default if how is None else _argument(call, how)
        if p.default is Parameter.empty or (is_whole and _is_operand(value)):
            values.append(value)
        elif repr(value) == repr(p.default):
            is_whole = False
        else:
            named[p.name] = value
    return Spelling(name, tuple(values), named)


def _shortest(found: Spelling, call: Call) -> Spelling:
    """The same call without what the name supplies by itself."""
    for key in found.named:
        shorter = Spelling(found.name, found.values, {k: v for k, v in found.named.items() if k != key})
        if _reads_as(shorter, call):
            found = shorter
    return found


def _is_operand(value: Any) -> bool:
    return isinstance(value, Expr) or (isinstance(value, tuple) and bool(value) and isinstance(value[0], Expr))


def _argument(call: Call, how: int | str | Callable[[Any], Any]) -> Any:
    """An operand (several tensors are one, a tuple), or what the attributes give; a dtype by its name."""
    if isinstance(how, int):
        given = call.args[how]
        return given.fields if isinstance(given, Tuple) else given
    value = getattr(call.attrs, how) if isinstance(how, str) else how(call.attrs)
    return value.name if isinstance(value, DType) else value


def _reads_as(found: Spelling, call: Call) -> bool:
    """Whether the rule under the name gives exactly this call, also while the types of the operands are not known."""
    unknown = {id(e): Var("x") for a in call.args for e in (a, *operands(a))}
    return all(_gives(found, call, stands_for) for stands_for in ({}, unknown))


def _gives(found: Spelling, call: Call, stands_for: Mapping[int, Expr]) -> bool:
    says = _Recorder()
    values, args = _replaced(found.values, stands_for), _replaced(call.args, stands_for)
    named = dict(zip(found.named, _replaced(tuple(found.named.values()), stands_for), strict=True))
    try:
        read = OPERATORS[found.name](says, *values, **named)
    except (CompileError, TypeError, ValueError, AttributeError):
        return False  # the name does not take these: the operator has more cases than Relax's
    is_it = len(says.calls) == 1 and says.calls[0] is read and read.op is call.op
    same = is_it and _same_args(read.args, args) and read.attrs == call.attrs
    return bool(same) and repr(read.attrs) == repr(call.attrs)


def _replaced(values: tuple[Any, ...], stands_for: Mapping[int, Expr]) -> tuple[Any, ...]:
    """`values`, and those in tuples of them, with what stands for expressions."""
    return tuple(
        _replaced(v, stands_for) if isinstance(v, tuple)
        else v.with_children(_replaced(v.fields, stands_for)) if isinstance(v, Tuple)
        else stands_for.get(id(v), v)
        for v in values
    )  # fmt: skip


def _same_args(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(map(_same_arg, a, b))


def _same_arg(a: Expr, b: Expr) -> bool:
    if isinstance(a, Tuple) and isinstance(b, Tuple):
        return len(a.fields) == len(b.fields) and all(x is y for x, y in zip(a.fields, b.fields, strict=True))
    return a is b


class _Recorder:
    """Stands for a builder: keeps the calls of operators that a rule makes, without their types."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def call(self, op: Op | str, *args: Any, **attrs: Any) -> Call:
        """The call of an operator of the language."""
        op = sugar.operators()[op] if isinstance(op, str) else op
        made = Call(op, pack_args(op, args), make_attrs(op, attrs))
        self.calls.append(made)
        return made


def _named(*names: str, **renamed: Any) -> Arguments:
    """Parameters that are attributes: under the same name, or as told."""
    return {**{n: n for n in names}, **renamed}


_CONV: Final = _named("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", "out_dtype")
_POOL: Final = _named("pool_size", "strides", "padding", "dilation", "ceil_mode", "layout")
_GROUPS: Final = _named("num_groups", "epsilon", "center", "scale", channel_axis="axis")
_DIMS: Final = (1, 2, 3)
_PLAIN: Final = frozenset(SAME)


def _is_descending(attrs: Any) -> bool:
    return not attrs.is_ascend


def _last_axes(attrs: Any) -> Any:
    return (attrs.axis,)


def _no_axes(attrs: Any) -> Any:
    return ()  # which are all behind that of the channels


def _adaptive(attrs: Any) -> Any:
    return attrs.output_size or None


# By operator: names of Relax, with what their parameters are: an operand's number, an attribute, what attributes give.
SPELT: Final[Mapping[str, Sequence[tuple[str, Arguments]]]] = {
    **{name: [(name, {})] for name in (*SAME, "zeros_like", "ones_like")},
    **{name: [(name, _named("axis", "keepdims"))] for name in ("sum", "mean", "max", "min", "prod")},
    **{name: [(name, _named("axis", "dtype", "exclusive"))] for name in ("cumsum", "cumprod")},
    **{name: [(name, _named("shape", "dtype"))] for name in ("zeros", "ones")},
    **{name: [(name, _CONV)] for name in (f"nn.conv{d}d" for d in _DIMS)},
    **{name: [(name, {**_CONV, **_named("output_padding")})] for name in (f"nn.conv{d}d_transpose" for d in _DIMS)},
    **{name: [(name, _POOL)] for name in (f"nn.max_pool{d}d" for d in _DIMS)},
    **{name: [(name, {**_POOL, **_named("count_include_pad")})] for name in (f"nn.avg_pool{d}d" for d in _DIMS)},
    **{
        name: [(name, _named("layout", output_size=_adaptive))]
        for name in (f"nn.adaptive_{kind}_pool{d}d" for kind in ("max", "avg") for d in _DIMS)
    },
    "tensor_to_shape": [("tensor_to_shape", {})],
    "dyn.strided_slice": [("dynamic_strided_slice", {})],
    "vision.all_class_non_max_suppression": [("vision.all_class_non_max_suppression", _named("output_format"))],
    "full": [("full", _named("shape", "dtype", fill_value=0))],
    "matmul": [("matmul", _named("out_dtype"))],
    "transpose": [("permute_dims", _named("axes"))],
    "reshape": [("reshape", _named(shape="newshape"))],
    "broadcast_to": [("broadcast_to", _named("shape"))],
    "collapse_sum_to": [("collapse_sum_to", _named("shape"))],
    "expand_dims": [("expand_dims", _named("axis"))],
    "squeeze": [("squeeze", _named("axis"))],
    "concatenate": [("concat", _named("axis"))],
    "stack": [("stack", _named("axis"))],
    "split": [("split", _named("indices_or_sections", "axis"))],
    "strided_slice": [("strided_slice", _named("begin", "end", "strides", "axes"))],
    "take": [("take", _named("axis", "mode"))],
    "gather": [("gather_elements", _named("axis"))],
    "repeat": [("repeat", _named("repeats", "axis"))],
    "tile": [("tile", _named(repeats="reps"))],
    "reverse": [("flip", _named("axis"))],
    "cast": [("astype", _named("dtype"))],
    "clip": [("clip", _named(min="a_min", max="a_max"))],
    "arange": [("arange", _named("start", "step", "dtype", end="stop"))],
    "topk": [("topk", _named("k", "axis", "ret_type", "dtype", largest=_is_descending))],
    "argsort": [("argsort", _named("axis", "dtype", descending=_is_descending))],
    "sort": [("sort", _named("axis", descending=_is_descending))],
    "einsum": [("einsum", _named(subscripts="equation"))],
    "nn.softmax": [("nn.softmax", _named("axis"))],
    "nn.log_softmax": [("nn.log_softmax", _named("axis"))],
    "nn.gelu": [("nn.gelu", {}), ("nn.gelu_tanh", {})],
    "nn.dropout": [("nn.dropout", _named("rate"))],
    "nn.leaky_relu": [("nn.leakyrelu", _named("alpha"))],
    "nn.prelu": [("nn.prelu", _named("axis"))],
    "nn.layer_norm": [("nn.layer_norm", _named("epsilon", "center", "scale", axes=_last_axes))],
    "nn.rms_norm": [("nn.rms_norm", _named("axes", "epsilon"))],
    "nn.batch_norm": [("nn.batch_norm", _named("axis", "epsilon", "center", "scale"))],
    "nn.group_norm": [("nn.group_norm", {**_GROUPS, "axes": _no_axes})],
    "nn.pad": [("nn.pad", _named("pad_width", "pad_mode", data=0, pad_value=1))],
}  # fmt: skip
