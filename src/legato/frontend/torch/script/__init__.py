"""TorchScript: traced and scripted modules as Legato modules.

    mod = import_script(torch.jit.trace(net, x), [("x", (1, 3, 224, 224))])

`walk` goes over the graph; `boxes` and `views` are tensors that programs change in place, `numbers` what is computed
during import, `bodies` branches and loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from legato.arith.expr import Expr as DimExpr
from legato.base.dtype import dtype as as_dtype
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.torch.inputs import GraphImport
from legato.frontend.torch.script.bodies import BODIES
from legato.frontend.torch.script.boxes import Box
from legato.frontend.torch.script.numbers import Scalar, scalar_tensor
from legato.frontend.torch.script.walk import ScriptWalk
from legato.ir.expr import Expr
from legato.ir.module import Module
from legato.ir.types import tensor_type

__all__ = ["import_script"]


def import_script(script: Any, inputs: Sequence[tuple[str, Any]], default_dtype: str = "float32") -> Module:
    """The module of a ScriptModule. inputs: name and shape, or name and (shape, dtype), of each argument of `forward`;
    names in shapes are symbolic dims. Raises UnsupportedError for the first node that cannot be compiled."""
    if script.training:
        raise ImportModelError("the module is in training mode", hint="call .eval() before it is scripted or traced")
    graph = script.graph.copy()
    torch._C._jit_pass_inline(graph)
    work = GraphImport(torch.fx.GraphModule({}, torch.fx.Graph()), None, {})
    walk = ScriptWalk(work.b, work.constant, BODIES)
    places = list(graph.inputs())[1:]
    if len(places) != len(inputs):
        raise ImportModelError(f"forward takes {len(places)} arguments, {len(inputs)} are given")
    dims: dict[str, Any] = {}
    params = [work.b.var(name, _type(info, default_dtype, dims)) for name, info in inputs]
    values = [script, *(Box(p) for p in params)]
    results = walk.block(graph, values, {})
    exprs = [e for r in results for e in _tensors(walk, r)]
    body = exprs[0] if len(exprs) == 1 else work.b.tuple_(exprs)
    return Module.from_expr(work.b.function(tuple(params), body))


def _type(info: Any, default: str, dims: dict[str, Any]) -> Any:
    """The type that an entry of `inputs` says."""
    shape, dtype = info if len(info) == 2 and isinstance(info[0], tuple | list) else (info, default)
    return tensor_type([dims.setdefault(d, _named(d)) if isinstance(d, str) else d for d in shape], as_dtype(dtype))


def _named(name: str) -> Any:
    from legato.arith.expr import Var

    return Var(name, lo=0)


def _tensors(walk: ScriptWalk, value: Any) -> list[Expr]:
    """The tensors of a result; those of lists, tuples and dicts in their order."""
    if isinstance(value, Box):
        return [value.get()]
    if isinstance(value, dict):
        return [e for v in value.values() for e in _tensors(walk, v)]
    if isinstance(value, list | tuple):
        return [e for v in value for e in _tensors(walk, v)]
    if isinstance(value, bool | int | float | Scalar | DimExpr):
        return [scalar_tensor(walk.b, value)]
    raise UnsupportedError(f"the module returns a {type(value).__name__}")
