"""Functions of operators as ONNX models.

Inputs are the tensors of the parameters, in order, and outputs those of the result; dims that are names stay so. Each
operator that has a form in ONNX has an entry in `_FORMS`; a call that has none there, by its attributes or dtypes, is
an UnsupportedError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from legato.arith.expr import Const
from legato.base import dtype as dt
from legato.base.errors import UnsupportedError
from legato.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.ir.types import Dim, TensorType, TupleType, Type, walk
from legato.ops._window import pads, spread

__all__ = ["has_form", "onnx_model"]

OPSET: Final = 17
_IR_VERSION: Final = 8
_CODES: Final = {dt.float32: 1, dt.int32: 6, dt.int64: 7, dt.bool_: 9}  # of onnx.TensorProto

_LEFT: Final = "take it out of the function: Legato compiles what stands in none for a generator"

Form = Callable[["_Graph", Call, list[Any]], Any]  # (graph, call, names of its arguments): names of its results


def has_form(call: Call) -> bool:
    """Whether a call has a form in ONNX."""
    if not isinstance(call.op, Op) or call.op.name not in _FORMS:
        return False
    try:
        _FORMS[call.op.name](_Graph(), call, [_names(a.checked_type, iter(range(1 << 20))) for a in call.args])
        _require_types(call, *call.args)
    except UnsupportedError:
        return False
    return True


def onnx_model(function: Function) -> bytes:
    """`function`, in graph form, as a model; UnsupportedError for a call without a form."""
    from onnx import helper

    graph = _Graph()
    counter = iter(range(1 << 20))
    dims = _DimNames()
    _require_types(*function.params)
    values: dict[int | Var, Any] = {p: _names(p.checked_type, counter) for p in function.params}
    inputs = [
        _info(name, ty, dims)
        for p in function.params
        for name, ty in zip(_leaves(values[p]), _tensors(p.checked_type), strict=True)
    ]
    for node in post_order(function.body):
        values[node if isinstance(node, Var) else id(node)] = _value(graph, node, values)
    root = function.body
    results = list(_leaves(values[root if isinstance(root, Var) else id(root)]))
    outputs = [f"out{n}" for n in range(len(results))]
    for name, output in zip(results, outputs, strict=True):
        graph.node("Identity", [name], output=output)
    infos = [_info(name, ty, dims) for name, ty in zip(outputs, _tensors(root.checked_type), strict=True)]
    made = helper.make_graph(graph.nodes, "region", inputs, infos, graph.constants)
    opset = [helper.make_opsetid("", OPSET)]
    data: bytes = helper.make_model(made, opset_imports=opset, ir_version=_IR_VERSION).SerializeToString()
    return data


def _value(graph: _Graph, node: Expr, values: Mapping[int | Var, Any]) -> Any:
    """The names of what a node gives."""
    match node:
        case Var():
            if node not in values:
                raise UnsupportedError(
                    f"%{node.name} is no parameter of the function", hint="give it to the function as an argument"
                )
            return values[node]
        case Constant(data):
            _require_types(node)
            return graph.constant(data)
        case Tuple(fields):
            return tuple(values[f if isinstance(f, Var) else id(f)] for f in fields)
        case TupleGetItem(value, index):
            return values[value if isinstance(value, Var) else id(value)][index]
        case Op():
            return None
        case Call(op=Op() as op, args=args) if op.name in _FORMS:
            _require_types(node, *args)
            return _FORMS[op.name](graph, node, [values[a if isinstance(a, Var) else id(a)] for a in args])
        case Call():
            raise UnsupportedError(f"ONNX has no form for a call of {node.op!r} here", span=node.span, hint=_LEFT)
    raise UnsupportedError(f"ONNX has no form for {node!r} here", span=node.span, hint=_LEFT)


def _names(ty: Type, counter: Iterator[int]) -> Any:
    return tuple(_names(f, counter) for f in ty.fields) if isinstance(ty, TupleType) else f"in{next(counter)}"


def _leaves(names: Any) -> Iterator[str]:
    if isinstance(names, tuple):
        for part in names:
            yield from _leaves(part)
    else:
        yield names


def _tensors(ty: Type) -> Iterator[TensorType]:
    return (part for part in walk(ty) if isinstance(part, TensorType))


def _require_types(*exprs: Expr) -> None:
    for ty in (t for e in exprs for t in _tensors(e.checked_type)):
        if ty.dtype not in _CODES:
            raise UnsupportedError(f"{ty.dtype} is not passed to ONNX", hint=f"one of {', '.join(map(str, _CODES))}")


class _DimNames(dict[Dim, str]):
    """Names for dims: of two that are called the same, one has a number."""

    def __missing__(self, d: Dim) -> str:
        taken = set(self.values())
        name = next(n for k in range(len(taken) + 1) if (n := f"{d}{k or ''}") not in taken)
        self[d] = name
        return name


def _info(name: str, ty: TensorType, dims: _DimNames) -> Any:
    from onnx import helper

    shape = [int(d.value) if isinstance(d, Const) else dims[d] for d in ty.shape]
    return helper.make_tensor_value_info(name, _CODES[ty.dtype], shape)


class _Graph:
    """The nodes of a model, and its constants."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def name(self) -> str:
        """A name that nothing has."""
        self._count += 1
        return f"t{self._count}"

    def node(self, kind: str, inputs: Sequence[str], *, output: str = "", outputs: int = 1, **attrs: Any) -> Any:
        """A node; the name of its result, of several a tuple."""
        from onnx import helper

        names = [output] if output else [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attrs))
        return names[0] if outputs == 1 else tuple(names)

    def constant(self, data: np.ndarray) -> str:
        """The name of a constant."""
        from onnx import numpy_helper

        name = self.name()
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(data).reshape(data.shape), name))
        return name

    def ints(self, values: Sequence[int]) -> str:
        """A vector of int64."""
        return self.constant(np.array(values, np.int64))


# ---------------------------------------------------------------------------------------------------- forms


def _require(is_met: bool, what: str) -> None:
    if not is_met:
        raise UnsupportedError(f"ONNX has no form for {what}", hint=_LEFT)


def _ty(e: Expr) -> TensorType:
    ty = e.checked_type
    _require(isinstance(ty, TensorType), f"{ty} here")
    assert isinstance(ty, TensorType)
    return ty


def _require_float(call: Call) -> None:
    for ty in (t for e in (call, *call.args) for t in _tensors(e.checked_type)):
        _require(ty.dtype == dt.float32, f"{ty.dtype} here")


def _simple(kind: str, *, floats: bool = False) -> Form:
    """The operator of the same arguments."""

    def form(graph: _Graph, call: Call, args: list[Any]) -> Any:
        if floats:
            _require_float(call)
        return graph.node(kind, args)

    return form


def _number(kind: str) -> Form:
    """One that ONNX has for numbers only."""

    def form(graph: _Graph, call: Call, args: list[Any]) -> Any:
        _require(not _ty(call.args[0]).dtype.is_bool, "bool here")
        return graph.node(kind, args)

    return form


def _inverted(kind: str) -> Form:
    return lambda graph, call, args: graph.node("Not", [graph.node(kind, args)])


def _window(a: Any) -> dict[str, Any]:
    """Strides, padding and dilation of two dims, as ONNX has them: one number may stand for both."""
    rows, columns = pads(a.padding, 2)
    ends = [rows[0], columns[0], rows[1], columns[1]]
    return {"strides": list(spread(a.strides, 2)), "pads": ends, "dilations": list(spread(a.dilation, 2))}


def _conv2d(graph: _Graph, call: Call, args: list[Any]) -> Any:
    a = call.attrs
    _require_float(call)
    _require((a.data_layout, a.kernel_layout) == ("NCHW", "OIHW") and a.out_layout in ("", "NCHW"), "this layout")
    kernel = _ty(call.args[1]).shape[2:]
    _require(all(isinstance(d, Const) for d in kernel), "filters of these extents")
    return graph.node(
        "Conv", args, group=a.groups, kernel_shape=[int(d.value) for d in kernel if isinstance(d, Const)], **_window(a)
    )


def _pool2d(kind: str) -> Form:
    def form(graph: _Graph, call: Call, args: list[Any]) -> Any:
        a = call.attrs
        _require_float(call)
        _require(a.layout == "NCHW" and a.out_layout in ("", "NCHW"), "this layout")
        size, more = list(spread(a.pool_size, 2)), _window(a)
        _require(all(pad < n for pad, n in zip(more["pads"], size * 2, strict=True)), "windows of nothing but padding")
        average = kind == "AveragePool"
        _require(not a.ceil_mode and not (average and more["dilations"] != [1, 1]), "this kind of pooling")
        if not average:
            return _maximum(graph, args[0], kind, kernel_shape=size, **more)
        del more["dilations"]  # which this version of the operator has not
        return graph.node(kind, args, kernel_shape=size, count_include_pad=int(a.count_include_pad), **more)

    return form


def _maximum(graph: _Graph, x: str, kind: str, **attrs: Any) -> str:
    """The largest element of each window: ONNX Runtime begins with the lowest number that is finite, so that windows of
    nothing but -∞, of which the largest element of -[x = -∞] is -1, are told apart."""
    least = graph.constant(np.array(-np.inf, np.float32))
    is_least = graph.node("Cast", [graph.node("Equal", [x, least])], to=_CODES[dt.float32])
    all_least = graph.node(kind, [graph.node("Neg", [is_least])], **attrs)
    is_there = graph.node("Greater", [all_least, graph.constant(np.array(-1, np.float32))])
    return str(graph.node("Where", [is_there, graph.node(kind, [x], **attrs), least]))


def _global_pool(kind: str) -> Form:
    def form(graph: _Graph, call: Call, args: list[Any]) -> Any:
        a = call.attrs
        _require_float(call)
        _require(a.layout == "NCHW" and a.out_layout in ("", "NCHW") and _ty(call.args[0]).rank == 4, "this layout")
        size = tuple(getattr(a, "output_size", (1, 1)))
        _require(size in ((1,), (1, 1)), "this size of pooling")
        return _maximum(graph, args[0], kind) if kind == "GlobalMaxPool" else graph.node(kind, args)

    return form


def _where(graph: _Graph, call: Call, args: list[Any]) -> Any:
    if not _ty(call).dtype.is_bool:
        return graph.node("Where", args)
    condition, yes, no = args  # ONNX Runtime has none of truth values
    taken = graph.node("And", [condition, yes])
    return graph.node("Or", [taken, graph.node("And", [graph.node("Not", [condition]), no])])


def _transposed(graph: _Graph, x: str, rank: int) -> str:
    """The last two dims of a tensor, swapped."""
    order = [*range(rank - 2), rank - 1, rank - 2]
    return str(graph.node("Transpose", [x], perm=order))


def _dense(graph: _Graph, call: Call, args: list[Any]) -> Any:
    _require_float(call)
    return graph.node("MatMul", [args[0], _transposed(graph, args[1], 2)])


def _matmul(graph: _Graph, call: Call, args: list[Any]) -> Any:
    _require_float(call)
    turned = (call.attrs.transpose_a, call.attrs.transpose_b)
    ranks = [_ty(a).rank for a in call.args]
    _require(all(rank >= 2 for rank, t in zip(ranks, turned, strict=True) if t), "a vector here")
    return graph.node(
        "MatMul", [_transposed(graph, x, r) if t else x for x, r, t in zip(args, ranks, turned, strict=True)]
    )


def _bias_add(graph: _Graph, call: Call, args: list[Any]) -> Any:
    rank = _ty(call.args[0]).rank
    behind = rank - 1 - call.attrs.axis % rank
    bias = graph.node("Unsqueeze", [args[1], graph.ints(range(1, behind + 1))]) if behind else args[1]
    return graph.node("Add", [args[0], bias])


def _batch_norm(graph: _Graph, call: Call, args: list[Any]) -> Any:
    a = call.attrs
    _require_float(call)
    rank = _ty(call.args[0]).rank
    _require(rank >= 2 and a.axis % rank == 1 and a.center and a.scale, "this batch_norm")
    normal = graph.node("BatchNormalization", args, epsilon=a.epsilon)
    return (normal, args[3], args[4])


def _layer_norm(graph: _Graph, call: Call, args: list[Any]) -> Any:
    a = call.attrs
    _require_float(call)
    _require(a.axis in (-1, _ty(call.args[0]).rank - 1) and a.center and a.scale, "this layer_norm")
    return graph.node("LayerNormalization", args, epsilon=a.epsilon, axis=-1)


def _with_axis(kind: str) -> Form:
    def form(graph: _Graph, call: Call, args: list[Any]) -> Any:
        _require_float(call)
        return graph.node(kind, args, axis=call.attrs.axis)

    return form


def _shaped(graph: _Graph, call: Call, args: list[Any]) -> Any:
    """What only changes the shape: to one of which at most one extent is no number."""
    shape = [int(d.value) if isinstance(d, Const) else -1 for d in _ty(call).shape]
    _require(shape.count(-1) <= 1 and (0 not in shape or -1 not in shape), "a shape with several names")
    return graph.node("Reshape", [args[0], graph.ints(shape)], allowzero=int(0 in shape))


def _transpose(graph: _Graph, call: Call, args: list[Any]) -> Any:
    rank = _ty(call.args[0]).rank
    axes = call.attrs.axes or tuple(reversed(range(rank)))
    return graph.node("Transpose", args, perm=[axis % rank for axis in axes]) if rank else args[0]


def _concatenate(graph: _Graph, call: Call, args: list[Any]) -> Any:
    return graph.node("Concat", list(args[0]), axis=call.attrs.axis)


def _cast(graph: _Graph, call: Call, args: list[Any]) -> Any:
    source, target = _ty(call.args[0]).dtype, _ty(call).dtype
    _require(not (source.is_float and target.is_int) and target in _CODES, f"a cast from {source} to {target}")
    return graph.node("Cast", args, to=_CODES[target])


def _clip(graph: _Graph, call: Call, args: list[Any]) -> Any:
    _require_float(call)
    limits = [graph.constant(np.array(limit, np.float32)) for limit in (call.attrs.a_min, call.attrs.a_max)]
    return graph.node("Clip", [*args, *limits])


def _leaky_relu(graph: _Graph, call: Call, args: list[Any]) -> Any:
    _require_float(call)
    return graph.node("LeakyRelu", args, alpha=call.attrs.alpha)


def _reduced(kind: str) -> Form:
    def form(graph: _Graph, call: Call, args: list[Any]) -> Any:
        a, rank = call.attrs, _ty(call.args[0]).rank
        _require_float(call)
        named = {axis % rank for axis in (range(rank) if a.axis is None else a.axis)}
        axes = [axis for axis in range(rank) if (axis in named) != a.exclude]
        if not axes:
            return args[0]
        extents = [_ty(call.args[0]).shape[axis] for axis in axes]
        _require(all(isinstance(d, Const) and d.value for d in extents), "a sum of what may be nothing")
        if kind == "ReduceSum":
            return graph.node(kind, [*args, graph.ints(axes)], keepdims=int(a.keepdims))
        return graph.node(kind, args, axes=axes, keepdims=int(a.keepdims))

    return form


def _dropout(graph: _Graph, call: Call, args: list[Any]) -> Any:
    """The data, and a mask of ones."""
    _require_float(call)
    ty = call.checked_type
    if not isinstance(ty, TupleType):
        return args[0]
    ones = graph.node("Expand", [graph.constant(np.array(1, np.float32)), graph.node("Shape", args)])
    return (args[0], ones)


_FORMS: Final[Mapping[str, Form]] = {
    **{name: _simple(kind, floats=True) for name, kind in {
        "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "tanh": "Tanh", "sigmoid": "Sigmoid", "erf": "Erf", "sin": "Sin",
        "cos": "Cos", "tan": "Tan", "floor": "Floor", "ceil": "Ceil", "round": "Round", "nn.relu": "Relu",
        "divide": "Div", "power": "Pow", "maximum": "Max", "minimum": "Min",
    }.items()},
    **{name: _number(kind) for name, kind in {
        "abs": "Abs", "negative": "Neg", "add": "Add", "subtract": "Sub", "multiply": "Mul", "less": "Less",
        "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual", "equal": "Equal",
    }.items()},
    **{name: _simple(kind) for name, kind in {
        "logical_and": "And", "logical_or": "Or", "logical_not": "Not",
    }.items()},
    "not_equal": _inverted("Equal"),
    "where": _where,
    "nn.conv2d": _conv2d,
    "nn.max_pool2d": _pool2d("MaxPool"),
    "nn.avg_pool2d": _pool2d("AveragePool"),
    "nn.global_avg_pool2d": _global_pool("GlobalAveragePool"),
    "nn.global_max_pool2d": _global_pool("GlobalMaxPool"),
    "nn.adaptive_avg_pool2d": _global_pool("GlobalAveragePool"),
    "nn.dense": _dense,
    "nn.matmul": _matmul,
    "nn.batch_matmul": _matmul,
    "nn.bias_add": _bias_add,
    "nn.batch_norm": _batch_norm,
    "nn.layer_norm": _layer_norm,
    "nn.softmax": _with_axis("Softmax"),
    "nn.log_softmax": _with_axis("LogSoftmax"),
    "nn.leaky_relu": _leaky_relu,
    "nn.dropout": _dropout,
    "reshape": _shaped,
    "expand_dims": _shaped,
    "squeeze": _shaped,
    "nn.batch_flatten": _shaped,
    "transpose": _transpose,
    "concatenate": _concatenate,
    "cast": _cast,
    "clip": _clip,
    "sum": _reduced("ReduceSum"),
    "mean": _reduced("ReduceMean"),
    "max": _reduced("ReduceMax"),
    "min": _reduced("ReduceMin"),
    "prod": _reduced("ReduceProd"),
}  # fmt: skip
