"""Operators without a converter: PyTorch expresses them by others, over tensors of the same shapes without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import fx
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from legato.arith.expr import Const
from legato.base.dtype import DType
from legato.base.errors import UnsupportedError
from legato.frontend.torch.decompositions import decompositions
from legato.frontend.torch.dtypes import to_torch
from legato.frontend.torch.emitter import Emitter, Float
from legato.frontend.torch.symbols import Symbols
from legato.frontend.torch.walk import Walk
from legato.ir.expr import Expr

__all__ = ["Composite", "expanded"]

Held = Callable[[torch.Tensor, str], Expr]
_MODES: Final = ("train", "training", "use_input_stats")  # what changes a module's tensors, or is random


class Composite:
    """What an operator gives: `value`; and whether it may share the memory of an operand."""

    def __init__(self, value: Any, may_share: bool) -> None:
        self.value = value
        self.may_share = may_share


def expanded(b: Emitter, held: Held, operator: Any, args: tuple[Any, ...]) -> Composite:
    """An operator by those that PyTorch's decomposition of it has. UnsupportedError where one of these has no
    converter, or a size is not known."""
    for parameter, value in zip(operator._schema.arguments, args, strict=False):
        if parameter.name in _MODES and value is True:
            raise UnsupportedError(f"{operator} with {parameter.name}=True", hint="call eval() on the module")
    names = [p.name for p in operator._schema.arguments[: len(args)]]
    leaves, spec = pytree.tree_flatten(list(args))
    places = [n for n, v in enumerate(leaves) if isinstance(v, Expr)]
    fakes = [_like(b, leaves[n], operator) for n in places]
    others = [_plain(v, operator) for v in leaves]

    def function(*tensors: torch.Tensor) -> Any:
        given = list(others)
        for n, tensor in zip(places, tensors, strict=True):
            given[n] = tensor
        values = dict(zip(names, pytree.tree_unflatten(given, spec), strict=True))
        return operator(**values)

    graph = _traced(function, fakes, operator)
    walk = Walk(b, Symbols({}).dim, held)
    value = walk.graph(graph, [leaves[n] for n in places])
    b.node = None
    if walk.faults:
        raise UnsupportedError(f"{operator}: {walk.faults[0].operator}: {walk.faults[0].reason}")
    return Composite(value, any(_may_share(n) for n in _outputs(graph)))


def _like(b: Emitter, x: Expr, operator: Any) -> torch.Tensor:
    sizes = [int(d.value) for d in b.dims_of(x) if isinstance(d, Const)]
    if len(sizes) < b.rank(x):
        raise UnsupportedError(f"{operator}: no converter, and PyTorch expands it for known sizes only",
                               hint="give the sizes of inputs as numbers")  # fmt: skip
    return torch.empty(sizes, dtype=to_torch(b.dtype(x)), device="meta")


def _plain(value: Any, operator: Any) -> Any:
    if isinstance(value, Expr):
        return None
    if isinstance(value, DType):
        return to_torch(value)
    if isinstance(value, Float) or (value is not None and not isinstance(value, _PLAIN)):
        raise UnsupportedError(f"{operator}: no converter, and PyTorch expands it for known numbers only")
    return value


_PLAIN: Final = (bool, int, float, str, torch.device, torch.dtype, torch.layout, torch.memory_format)


def _traced(function: Callable[..., Any], tensors: list[torch.Tensor], operator: Any) -> fx.GraphModule:
    """The functional graph of an operator."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    table = decompositions()
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        fakes = [torch.empty(t.shape, dtype=t.dtype) for t in tensors]
        try:
            graph = make_fx(functionalize(function, remove="mutations_and_views"), table)(*fakes)
            if any(_is_mutable(n) for n in graph.graph.nodes):  # decompositions work in place
                graph = make_fx(functionalize(graph, remove="mutations_and_views"), table)(*fakes)
        except Exception as error:
            raise UnsupportedError(f"{operator}: no converter, and PyTorch does not expand it: {error}") from error
    if any(n.target is operator for n in graph.graph.nodes):
        raise UnsupportedError("no converter")
    return graph


def _is_mutable(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _outputs(graph: fx.GraphModule) -> list[Any]:
    (output,) = (n for n in graph.graph.nodes if n.op == "output")
    return [n for n in pytree.tree_leaves(output.args[0]) if isinstance(n, fx.Node)]


def _may_share(node: fx.Node) -> bool:
    """Whether a result is an operand, or is read out of one by operators that give views."""
    if node.op == "placeholder":
        return True
    if not isinstance(node.target, torch._ops.OpOverload):
        return any(_may_share(n) for n in node.all_input_nodes)
    name = node.target._opname
    is_view = any(r.alias_info is not None for r in node.target._schema.returns)
    is_view = is_view or (name.endswith("_copy") and name != "_to_copy") or name == "_unsafe_view"
    return is_view and any(_may_share(n) for n in node.all_input_nodes)
