"""Relax's operators by their names, as calls of the language's operators.

`OPERATORS` maps the name behind `R.` to a function of a builder and the arguments of a script. Most have the name and
the operands of an operator of the language (`SAME`); the rest say how their arguments become attributes, or are made
of several (`compositions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Signature, signature
from typing import Any, Final

import numpy as np

from legato.arith.expr import Const
from legato.base.dataclass import dataclass
from legato.base.dtype import dtype as as_dtype
from legato.base.errors import CompileError, TypeCheckError, UnsupportedError
from legato.infer.builder import Builder
from legato.ir._own_ops import operator_named
from legato.ir.expr import Expr, constant
from legato.ir.types import TensorType
from legato.script.modules.compositions import COMPOSITIONS, numbers, parts_of, places, tensor_type
from legato.script.modules.evaluate import Namespace
from legato.script.modules.selections import SELECTIONS

__all__ = ["OPERATORS", "SAME", "OpForm", "applied"]

Rule = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class OpForm(Namespace):
    """`R.add`: an operator that a script calls. exact: an operator of the language with its own attributes (`R.op`)."""

    name: str
    exact: bool = False

    def apply(self, b: Builder, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The call. CompileError where the arguments do not fit."""
        if self.exact:
            return b.call(operator_named(self.name), *args, **keywords)
        return applied(b, f"R.{self.name}", OPERATORS[self.name], args, keywords)

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise CompileError(f"R.{self.name} is called in a script only", hint="write it in a function under @R.function")

    def __getattr__(self, name: str) -> OpForm:
        if name.startswith("_") or not self.exact:
            raise AttributeError(f"R.{self.name} has no {name}")
        return OpForm(f"{self.name}.{name}", exact=True)


def applied(b: Builder, shown: str, rule: Rule, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """The call that `rule` makes; `shown` is what errors call it. TypeCheckError where the arguments do not fit."""
    try:
        _signature(rule).bind(b, *args, **keywords)
    except TypeError as error:
        raise TypeCheckError(f"{shown}: {error}") from None
    return rule(b, *args, **keywords)


@cache
def _signature(rule: Rule) -> Signature:
    return signature(rule)


def _axes(given: Any) -> tuple[int, ...] | None:
    return None if given is None else tuple(given) if isinstance(given, tuple | list) else (int(given),)


def _pads(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _same(name: str) -> Rule:
    return lambda b, *operands: b.call(name, *operands)


def _reduction(name: str) -> Rule:
    def rule(b: Builder, x: Any, axis: Any = None, keepdims: bool = False) -> Expr:
        return b.call(name, x, axis=_axes(axis), keepdims=keepdims)

    return rule


def _arg(name: str) -> Rule:
    def rule(b: Builder, x: Any, axis: Any = None, keepdims: bool = False) -> Expr:
        found = b.call(name, x, axis=_axes(axis), keepdims=keepdims)
        return b.call("cast", found, dtype="int64")

    return rule


def _cumulative(name: str) -> Rule:
    def rule(b: Builder, data: Any, axis: Any = None, dtype: Any = None, exclusive: Any = False) -> Expr:
        attrs = {} if dtype is None else {"dtype": as_dtype(dtype)}
        return b.call(name, data, axis=axis, exclusive=bool(exclusive), **attrs)

    return rule


def _matmul(b: Builder, x1: Any, x2: Any, out_dtype: Any = None) -> Expr:
    return b.call("matmul", x1, x2, **({} if not out_dtype else {"out_dtype": out_dtype}))


def _linear(b: Builder, data: Any, weight: Any, bias: Any = None, out_dtype: Any = None) -> Expr:
    product = _matmul(b, data, _permute(b, weight), out_dtype)
    return product if bias is None else b.call("add", product, bias)


def _permute(b: Builder, x: Any, axes: Any = None) -> Expr:
    return b.call("transpose", x, **({} if axes is None else {"axes": tuple(axes)}))


def _reshape(b: Builder, x: Any, shape: Any) -> Expr:
    return b.call("reshape", x, newshape=numbers(shape), allowzero=True)


def _flatten(b: Builder, x: Any) -> Expr:
    return b.call("reshape", x, newshape=(-1,))


def _broadcast(b: Builder, x: Any, shape: Any) -> Expr:
    return b.call("broadcast_to", x, shape=numbers(shape))


def _expand(b: Builder, x: Any, axis: Any) -> Expr:
    found: Expr = x
    for a in sorted(_axes(axis) or ()):
        found = b.call("expand_dims", found, axis=a, num_newaxis=1)
    return found


def _squeeze(b: Builder, x: Any, axis: Any = None) -> Expr:
    return b.call("squeeze", x, **({} if axis is None else {"axis": _axes(axis)}))


def _concat(b: Builder, tensors: Any, axis: int | None = 0) -> Expr:
    parts = parts_of(tensors)
    if axis is None:
        parts, axis = [_flatten(b, p) for p in parts], 0
    return b.call("concatenate", *parts, axis=axis)


def _stack(b: Builder, tensors: Any, axis: int = 0) -> Expr:
    return b.call("stack", *parts_of(tensors), axis=axis)


def _split(b: Builder, x: Any, indices_or_sections: Any, axis: int = 0) -> Expr:
    return b.call("split", x, indices_or_sections=numbers(indices_or_sections), axis=axis)


def _slice(
    b: Builder, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: bool = False
) -> Expr:
    steps = {} if strides is None else {"strides": numbers(strides)}
    return b.call("strided_slice", x, begin=numbers(begin), end=numbers(end), axes=_axes(axes), **steps)


def _take(b: Builder, x: Any, indices: Any, axis: Any = None, mode: str = "fast") -> Expr:
    return b.call("take", x, indices, axis=axis, mode=mode)


def _repeat(b: Builder, data: Any, repeats: Any, axis: Any = None) -> Expr:
    if axis is None:
        data, axis = _flatten(b, data), 0
    return b.call("repeat", data, repeats=repeats, axis=axis)


def _tile(b: Builder, data: Any, repeats: Any) -> Expr:
    return b.call("tile", data, reps=_pads(numbers(repeats)))


def _flip(b: Builder, data: Any, axis: int) -> Expr:
    return b.call("reverse", data, axis=axis)


def _astype(b: Builder, x: Any, dtype: Any) -> Expr:
    return b.call("cast", x, dtype=as_dtype(dtype))


def _clip(b: Builder, x: Any, min: Any, max: Any) -> Expr:
    return b.call("clip", x, a_min=float(min), a_max=float(max))


def _arange(b: Builder, start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Expr:
    first, last = (0, start) if end is None else (start, end)
    kind = "int64" if not any(isinstance(v, float) for v in (first, last, step)) else "float32"
    return b.call("arange", start=first, stop=last, step=step, dtype=as_dtype(dtype or kind))


def _filled(name: str) -> Rule:
    def rule(b: Builder, shape: Any, dtype: Any = "float32") -> Expr:
        return b.call(name, shape=numbers(shape), dtype=as_dtype(dtype))

    return rule


def _full(b: Builder, shape: Any, fill_value: Any, dtype: Any = None) -> Expr:
    value = fill_value if isinstance(fill_value, Expr) else constant(np.asarray(fill_value), None)
    known = value.ty.dtype if isinstance(value.ty, TensorType) else "float32"
    return b.call("full", value, shape=numbers(shape), dtype=as_dtype(dtype or known))


def _like(name: str) -> Rule:
    def rule(b: Builder, x: Any, dtype: Any = None) -> Expr:
        made = b.call(name, x)
        return made if dtype is None else _astype(b, made, dtype)

    return rule


def _moments(name: str, root: bool = False) -> Rule:
    def rule(b: Builder, x: Any, axis: Any = None, keepdims: bool = False) -> Expr:
        mean = b.call("mean", x, axis=_axes(axis), keepdims=True)
        found = b.call(name, x, mean, axis=_axes(axis), keepdims=keepdims)
        return b.call("sqrt", found) if root else found

    return rule


def _triangle(upper: bool) -> Rule:
    def rule(b: Builder, x: Any, k: int = 0) -> Expr:
        ty = x.ty
        if not isinstance(ty, TensorType) or ty.rank < 2:
            raise TypeCheckError("a triangle of a tensor of rank 2 or more")
        rows, columns = (places(b, n) for n in ty.shape[-2:])
        gap = b.call("subtract", b.call("expand_dims", columns, axis=0), b.call("expand_dims", rows, axis=1))
        kept = b.call("greater_equal" if upper else "less_equal", gap, constant(k, as_dtype("int64")))
        return b.call("where", kept, x, b.call("zeros_like", x))

    return rule


def _topk(
    b: Builder,
    data: Any,
    k: Any = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: Any = "int32",
) -> Expr:
    return b.call("topk", data, k=k, axis=axis, ret_type=ret_type, is_ascend=not largest, dtype=as_dtype(dtype))


def _argsort(b: Builder, data: Any, axis: int = -1, descending: bool = False, dtype: Any = "int32") -> Expr:
    return b.call("argsort", data, axis=axis, is_ascend=not descending, dtype=as_dtype(dtype))


def _sort(b: Builder, x: Any, axis: int = -1, descending: bool = False) -> Expr:
    return b.call("sort", x, axis=axis, is_ascend=not descending)


def _softmax(name: str) -> Rule:
    return lambda b, data, axis=-1: b.call(name, data, axis=axis)


def _conv(dims: int, transposed: bool = False) -> Rule:
    letters = "DHW"[3 - dims :]
    own = f"NC{letters}", f"{'IO' if transposed else 'OI'}{letters}"

    def rule(
        b: Builder, data: Any, weight: Any, strides: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        data_layout: str = own[0], kernel_layout: str = own[1], out_layout: Any = None,
        out_dtype: Any = None, **more: Any,
    ) -> Expr:  # fmt: skip
        attrs = dict(zip(("strides", "dilation"), (_repeated(v, dims) for v in (strides, dilation)), strict=True))
        if out_dtype:
            attrs["out_dtype"] = out_dtype
        if out_layout not in (None, "", data_layout):
            hint = "leave out_layout out, and R.permute_dims the result"
            raise UnsupportedError(f"a convolution from {data_layout} to {out_layout}", hint=hint)
        if transposed:
            attrs["output_padding"] = _repeated(more.pop("output_padding", 0), dims)
        if more:
            raise TypeError(f"got an unexpected argument {min(more)!r}")
        name = f"nn.conv{dims}d{'_transpose' if transposed else ''}"
        return b.call(
            name, data, weight, padding=_repeated(padding, dims), groups=groups, data_layout=data_layout,
            kernel_layout=kernel_layout, **attrs,
        )  # fmt: skip

    return rule


def _pool(kind: str, dims: int) -> Rule:
    layout_of = f"NC{'DHW'[3 - dims :]}"

    def rule(
        b: Builder, data: Any, pool_size: Any = 1, strides: Any = 1, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, count_include_pad: bool = False, layout: str = layout_of, out_layout: Any = None,
    ) -> Expr:  # fmt: skip
        if out_layout not in (None, "", layout):
            hint = "leave out_layout out, and R.permute_dims the result"
            raise UnsupportedError(f"pooling from {layout} to {out_layout}", hint=hint)
        attrs: dict[str, Any] = {"count_include_pad": count_include_pad} if kind == "avg" else {}
        return b.call(
            f"nn.{kind}_pool{dims}d", data, pool_size=_repeated(pool_size, dims), strides=_repeated(strides, dims),
            padding=_repeated(padding, dims), dilation=_repeated(dilation, dims), ceil_mode=ceil_mode, layout=layout,
            **attrs,
        )  # fmt: skip

    return rule


def _adaptive(kind: str, dims: int) -> Rule:
    layout_of = f"NC{'DHW'[3 - dims :]}"

    def rule(b: Builder, data: Any, output_size: Any = None, layout: str = layout_of, out_layout: Any = None) -> Expr:
        size = () if output_size is None else _repeated(output_size, dims)
        return b.call(f"nn.adaptive_{kind}_pool{dims}d", data, output_size=size, layout=layout)

    return rule


def _repeated(given: Any, count: int) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,) * count


def _norm_axes(x: Any, axes: Any) -> tuple[int, ...]:
    rank = x.ty.rank if isinstance(x, Expr) and isinstance(x.ty, TensorType) else None
    found = tuple(a if rank is None or a < 0 else a - rank for a in _axes(axes) or ())
    if found != tuple(range(-len(found), 0)):
        raise UnsupportedError(f"a normalisation over axes {axes}", hint="over the last ones")
    return found


def _layer_norm(
    b: Builder,
    data: Any,
    gamma: Any,
    beta: Any,
    axes: Any,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Expr:
    own = _norm_axes(data, axes)
    if len(own) == 1:
        return b.call("nn.layer_norm", data, gamma, beta, axis=-1, epsilon=epsilon, center=center, scale=scale)
    mean = b.call("mean", data, axis=own, keepdims=True)
    spread = b.call("variance", data, mean, axis=own, keepdims=True)
    found = b.call("divide", b.call("subtract", data, mean), b.call("sqrt", b.call("add", spread, epsilon)))
    found = b.call("multiply", found, gamma) if scale else found
    return b.call("add", found, beta) if center else found


def _rms_norm(b: Builder, data: Any, weight: Any, axes: Any = -1, epsilon: float = 1e-5) -> Expr:
    return b.call("nn.rms_norm", data, weight, axes=_norm_axes(data, axes), epsilon=epsilon)


def _batch_norm(
    b: Builder, data: Any, gamma: Any, beta: Any, moving_mean: Any, moving_var: Any, axis: int, epsilon: float = 1e-5,
    center: bool = True, scale: bool = True, momentum: float = 0.1, training: bool = False,
) -> Expr:  # fmt: skip
    if training:
        raise UnsupportedError("batch_norm with training=True", hint="its inference form, with training=False")
    return b.call(
        "nn.batch_norm",
        data,
        gamma,
        beta,
        moving_mean,
        moving_var,
        axis=axis,
        epsilon=epsilon,
        center=center,
        scale=scale,
    )


def _pad(b: Builder, data: Any, pad_width: Any, pad_value: Any = 0, pad_mode: str = "constant") -> Expr:
    flat = tuple(pad_width)
    pairs = flat if flat and isinstance(flat[0], tuple | list) else tuple(zip(flat[::2], flat[1::2], strict=True))
    return b.call("nn.pad", data, pad_value, pad_width=pairs, pad_mode=pad_mode)


def _attention(b: Builder, query: Any, key: Any, value: Any, bias: Any = None, scale: Any = None, **more: Any) -> Expr:
    """Of (batch, positions, heads, width): softmax(q·kᵀ·scale + bias)·v."""
    if any(v is not None for v in more.values()):
        hint = "add what is masked to the bias: -inf where nothing is looked at"
        raise UnsupportedError(f"attention with {min(k for k, v in more.items() if v is not None)}", hint=hint)
    q, k, v = (_permute(b, t, (0, 2, 1, 3)) for t in (query, key, value))
    width = query.ty.shape[-1] if isinstance(query.ty, TensorType) else None
    if scale is None:
        if not isinstance(width, Const):
            raise TypeCheckError("attention without a scale, over heads of unknown width", hint="scale=…")
        scale = 1 / np.sqrt(int(width.value))
    scores = b.call("multiply", b.call("matmul", q, _permute(b, k, (0, 1, 3, 2))), float(scale))
    scores = scores if bias is None else b.call("add", scores, bias)
    return _permute(b, b.call("matmul", b.call("nn.softmax", scores, axis=-1), v), (0, 2, 1, 3))


def _one_hot(b: Builder, indices: Any, on_value: Any, off_value: Any, depth: int, axis: int = -1) -> Expr:
    usual = as_dtype("float64" if isinstance(on_value, float) else "int64")
    dtype = on_value.ty.dtype if isinstance(on_value, Expr) and isinstance(on_value.ty, TensorType) else usual
    on, off = (v if isinstance(v, Expr) else constant(v, dtype) for v in (on_value, off_value))
    return b.call("one_hot", indices, on, off, depth=depth, axis=axis, dtype=dtype)


def _shape_of(b: Builder, x: Any) -> Expr:
    return b.shape(tensor_type(x, "the operand of shape_of").shape)


def _gelu(approximate: bool) -> Rule:
    return lambda b, data: b.call("nn.gelu", data, approximate="tanh" if approximate else "none")


SAME: Final = (
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atanh", "bitwise_and", "bitwise_not", "bitwise_or",
    "bitwise_xor", "ceil", "cos", "cosh", "divide", "equal", "erf", "exp", "floor", "floor_divide", "floor_mod",
    "greater", "greater_equal", "isfinite", "isinf", "isnan", "left_shift", "less", "less_equal", "log",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "negative",
    "not_equal", "power", "right_shift", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "subtract",
    "tan", "tanh", "trunc", "where", "nn.relu", "nn.silu", "nn.selu", "nn.softplus",
)  # fmt: skip

OPERATORS: Final[Mapping[str, Rule]] = {
    **{name: _same(name) for name in SAME},
    **{name: _reduction(name) for name in ("sum", "mean", "max", "min", "prod")},
    **{name: _arg(name) for name in ("argmax", "argmin")},
    **{name: _cumulative(name) for name in ("cumsum", "cumprod")},
    **{name: _filled(name) for name in ("zeros", "ones")},
    **{name: _like(name) for name in ("zeros_like", "ones_like")},
    **{f"nn.conv{d}d": _conv(d) for d in (1, 2, 3)},
    **{f"nn.conv{d}d_transpose": _conv(d, transposed=True) for d in (1, 2, 3)},
    **{f"nn.{k}_pool{d}d": _pool(k, d) for k in ("max", "avg") for d in (1, 2, 3)},
    **{f"nn.adaptive_{k}_pool{d}d": _adaptive(k, d) for k in ("max", "avg") for d in (1, 2, 3)},
    "variance": _moments("variance"), "std": _moments("variance", root=True), "tril": _triangle(False),
    "triu": _triangle(True), "matmul": _matmul, "linear": _linear, "permute_dims": _permute, "reshape": _reshape,
    "flatten": _flatten, "broadcast_to": _broadcast, "expand_dims": _expand, "squeeze": _squeeze, "concat": _concat,
    "stack": _stack, "split": _split, "strided_slice": _slice, "take": _take, "repeat": _repeat, "tile": _tile,
    "flip": _flip, "astype": _astype, "clip": _clip, "arange": _arange, "full": _full, "topk": _topk,
    "argsort": _argsort, "sort": _sort, "one_hot": _one_hot, "shape_of": _shape_of,
    "nn.softmax": _softmax("nn.softmax"), "nn.log_softmax": _softmax("nn.log_softmax"),
    "nn.gelu": _gelu(False), "nn.gelu_tanh": _gelu(True),
    "nn.leakyrelu": lambda b, data, alpha=0.01: b.call("nn.leaky_relu", data, alpha=alpha),
    "nn.prelu": lambda b, data, alpha, axis=1: b.call("nn.prelu", data, alpha, axis=axis),
    "nn.dropout": lambda b, data, rate=0.5: b.call("nn.dropout", data, rate=rate),
    "nn.layer_norm": _layer_norm, "nn.rms_norm": _rms_norm, "nn.batch_norm": _batch_norm,
    "nn.pad": _pad, "nn.attention": _attention, "nn.attention_bias": _attention, **COMPOSITIONS, **SELECTIONS,
    "einsum": lambda b, operands, subscripts: b.call("einsum", *operands, equation=subscripts),
    "gather_elements": lambda b, data, indices, axis=0: b.call("gather", data, indices, axis=axis),
}  # fmt: skip
