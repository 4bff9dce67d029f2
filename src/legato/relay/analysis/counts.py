"""Counts: operators, layers, multiplications; and what else is found by looking at calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any

from legato.base.arrays import as_array
from legato.base.errors import TypeCheckError
from legato.base.node import post_order
from legato.ir.expr import Call, Constant, Expr, Function, Tuple, Var
from legato.ir.layout import layout
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType

__all__ = ["analyze_relay", "check_constant", "count_layers",
           "get_total_mac_number", "list_op_freqs", "search_fc_transpose"]  # fmt: skip


def _calls(x: Any) -> Iterator[tuple[Call, Op]]:
    """The calls of operators in an expression or module, each node once, operands first."""
    module = getattr(x, "module", x)
    roots: Iterable[Expr] = [f for _, f in module.graph_functions()] if isinstance(module, Module) else [module]
    for node in post_order(roots):
        if isinstance(node, Call) and isinstance(node.op, Op):
            yield node, node.op


def analyze_relay(mod: Any, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a module (or expression) consists of: calls of "operators", "parameters" and their "bytes".

    Parameters are the elements of its constants, which is what frozen ones are, and those of the arrays `params`.
    """
    module = getattr(mod, "module", mod)
    roots: Iterable[Expr] = [f for _, f in module.graph_functions()] if isinstance(module, Module) else [module]
    arrays = {id(n.data): n.data for n in post_order(roots) if isinstance(n, Constant)}
    found = [*arrays.values(), *(as_array(v, f"parameter {n!r}", TypeCheckError) for n, v in (params or {}).items())]
    return {
        "operators": list_op_freqs(mod),
        "parameters": sum(a.size for a in found),
        "bytes": sum(a.nbytes for a in found),
    }


def list_op_freqs(mod: Any) -> dict[str, int]:
    """How often each operator is called in a module (or expression), by name."""
    return dict(Counter(op.name for _, op in _calls(mod)))


def count_layers(expr: Any, valid_ops: Iterable[str]) -> int:
    """The largest number of calls of `valid_ops` (names) on a path through an expression, or @main of a module."""
    wanted = frozenset(valid_ops)
    module = getattr(expr, "module", expr)
    main = module["main"] if isinstance(module, Module) else expr
    if not isinstance(main, Expr):
        raise TypeCheckError(f"an expression was wanted, got a {type(main).__name__}")
    root: Expr = main
    depth: dict[int, int] = {}
    for node in post_order([root]):
        own = isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in wanted
        depth[id(node)] = own + max((depth[id(kid)] for kid in node.children()), default=0)
    return depth[id(root)]


def get_total_mac_number(expr: Expr) -> int:
    """The multiplications and additions (one of each is one) of convolutions and matrix products in a typed expression.

    A transposed convolution is counted as the original did: as if all of the window met data for each result.

    Counted are nn.conv2d, nn.conv2d_transpose, nn.dense and nn.batch_matmul. TypeCheckError where such a call has no
    type, or a dim that is not a number.
    """
    return sum(_macs(call, op.name) for call, op in _calls(expr))


def _macs(call: Call, name: str) -> int:
    if name not in ("nn.conv2d", "nn.conv2d_transpose", "nn.dense", "nn.batch_matmul"):
        return 0
    data, weight = (_shape(a) for a in call.args)
    out = _shape(call)
    if name == "nn.dense":
        return prod(out) * data[-1]
    if name == "nn.batch_matmul":
        return prod(out) * (data[-2] if call.attrs.transpose_a else data[-1])
    order = layout(call.attrs.kernel_layout)
    found = {letter: prod(weight[n] for n in order.places(letter)) for letter in order.letters}
    if name == "nn.conv2d":  # each result sums over the inputs of its group and the window
        return prod(out) * prod(weight) // found["O"]
    inputs = found["I"] // int(call.attrs.groups)
    window = prod(n for letter, n in found.items() if letter not in "IO")
    return prod(out) * window * inputs


def _shape(e: Expr) -> tuple[int, ...]:
    ty = e.checked_type
    if not isinstance(ty, TensorType):
        raise TypeCheckError(f"a tensor was wanted, got {ty}", span=e.span)
    return ty.concrete_shape


def check_constant(expr: Expr) -> bool:
    """Whether `expr` is a constant, or a tuple of constants."""
    nodes = list(post_order([expr]))
    return all(isinstance(n, Constant | Tuple) for n in nodes)


def search_fc_transpose(expr: Expr) -> list[str]:
    """The names of the variables w in calls nn.dense(x, transpose(w, axes=[1, 0])), in order."""
    found: dict[str, None] = {}
    for call, op in _calls(expr):
        if op.name != "nn.dense":
            continue
        weight = call.args[1]
        is_transpose = isinstance(weight, Call) and isinstance(weight.op, Op) and weight.op.name == "transpose"
        if is_transpose and isinstance(weight, Call) and isinstance(weight.args[0], Var):
            found[weight.args[0].name] = None
    return list(found)


def extract_fused_functions(mod: Any) -> dict[int, Function]:
    """The primitive functions that fusion makes of `mod`, by structural hash."""
    from legato.ir.equal import structural_hash
    from legato.pipelines import DEFAULT
    from legato.transform.pass_ import run

    fused = run(getattr(mod, "module", mod), DEFAULT)
    roots: list[Expr] = [f for _, f in fused.graph_functions()]
    functions = (n for n in post_order(roots) if isinstance(n, Function))
    return {structural_hash(f): f for f in functions if f.attrs.get("Primitive")}
