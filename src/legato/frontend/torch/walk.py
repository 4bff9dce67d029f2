"""The walk over a graph's nodes, each of which a converter turns into expressions.

A value is an expression (a tensor), a number or a dim, a tuple of values, or None. What cannot be converted is
gathered, and unknown from then on: nodes that need it are passed over.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from legato.arith.expr import Const
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, InternalError, UnsupportedError, no_stack
from legato.base.span import Span
from legato.base.spelling import converters
from legato.frontend.torch.control import CONTROL
from legato.frontend.torch.dtypes import from_torch
from legato.frontend.torch.emitter import Emitter, Float
from legato.frontend.torch.floats import FLOATS, float_of
from legato.frontend.torch.signature import Converter, arguments, find, overload_name
from legato.frontend.torch.symbols import FUNCTIONS, number
from legato.ir.expr import Expr
from legato.ir.types import Dim, TensorType

__all__ = ["Fault", "GraphFaults", "Unknown", "Walk", "is_pytorch", "operator_name", "span_of", "way_out"]

MAX_NESTING = 100  # branches and loops inside each other
_ABSENT = "no converter"
_PYTORCH = os.path.dirname(torch.__file__) + os.sep
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True, slots=True)
class Fault:
    """A node that cannot be converted, and why. Of a node with bodies (a branch, a loop), `operator` is the one in them
    that cannot."""

    node: str
    operator: str
    reason: str
    span: Span


class GraphFaults(UnsupportedError):
    """All of a graph that cannot be converted: `faults`, by the names of its nodes."""

    faults: dict[str, Fault]


class Unknown:
    """The value of a node that could not be converted, or that needs one."""


UNKNOWN = Unknown()


def way_out(faults: Iterable[Fault]) -> str:
    """What helps with faults: converters of operators of PyTorch that have none (what else is called has no schema, and
    is not asked for), and what takes the rest."""
    absent = [f.operator for f in faults if f.reason == _ABSENT and "::" in f.operator]
    eager = 'torch.compile(module, backend="legato"), which leaves them to PyTorch'
    return f"a converter of your own for each: {converters(absent)}; or {eager}" if absent else eager


class _Lost(UnsupportedError):
    """The value of a body is unknown: the node that has the body is, too, and says nothing of its own."""


class Walk:
    """One import: the builder `b`, the dims of symbolic integers (`sizes`), constants of tensors (`held`), the caller's
    converters, and the `faults`: what could not be converted. `lenient`: nodes with which a converter fails otherwise
    are faults, too."""

    def __init__(
        self,
        b: Emitter,
        sizes: Callable[[Any], Dim],
        held: Callable[[torch.Tensor, str], Expr],
        custom: Mapping[str, Converter] | None = None,
    ) -> None:
        self.b = b
        self.sizes = sizes
        self.held = held
        self.custom = custom
        self.faults: list[Fault] = []
        self.lenient = False
        self._depth = 0

    def graph(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """The value of a graph's output. `inputs`: of its placeholders, in order."""
        if self._depth >= MAX_NESTING:
            hint = "compile the inner ones as modules of their own"
            raise UnsupportedError(f"branches and loops nest more than {MAX_NESTING} deep", hint=hint)
        self._depth += 1
        try:
            found = self._graph(module, inputs)
            if self._depth > 1 and _has_unknown(found):
                raise _Lost("unknown")
            return found
        finally:
            self._depth -= 1

    def _graph(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        values: dict[fx.Node, Any] = {}
        given = iter(inputs)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "get_attr":
                values[node] = self._attribute(module, str(node.target))
            elif node.op == "output":
                return _looked_up(node.args[0], values)
            elif node.op == "call_function":
                values[node] = self._node(node, values)
            else:
                hint = "torch.export.export(…).run_decompositions() makes a graph of calls of operators"
                raise UnsupportedError(f"a node {node.op} {node.target} in a graph", span=span_of(node), hint=hint)
        raise ImportModelError("a graph has no output")

    def _attribute(self, module: fx.GraphModule, name: str) -> Any:
        """What a graph holds by a name: a graph (the body of a branch or a loop), or a tensor."""
        found: Any = module
        for part in name.split("."):
            found = getattr(found, part)
        return self.held(found, name) if isinstance(found, torch.Tensor) else found

    def _node(self, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
        args, kwargs = _looked_up(node.args, values), _looked_up(dict(node.kwargs), values)
        if _has_unknown(args) or _has_unknown(kwargs):
            self._note_absent(node)
            return UNKNOWN
        self.b.node = node
        before = len(self.faults)
        with self.b.at(span_of(node)):
            value = self._converted(node, args, kwargs)
        self.faults[before:] = [replace(f, node=node.name) for f in self.faults[before:]]  # of its bodies
        return value

    def _converted(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The value of a node, or UNKNOWN, with why in `faults`."""
        try:
            value = self._value(node, args, kwargs)
            _check(value, node.meta.get("val"), node)
            return value
        except _Lost:
            return UNKNOWN
        except MemoryError:
            raise
        except Exception as error:
            if isinstance(error, RecursionError) and not self._is_own(node.target):
                error = no_stack(f"the conversion of {operator_name(node)}")
            if not (self.lenient or isinstance(error, UnsupportedError)):
                if isinstance(error, ImportModelError) and error.span is None:
                    told = f"{operator_name(node)}: {error.message}"
                    raise ImportModelError(told, span=span_of(node), hint=error.hint) from None
                raise
            self.faults.append(Fault(node.name, operator_name(node), _reason(error), span_of(node)))
            return UNKNOWN

    def _value(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target = node.target
        if target is operator.getitem:
            return args[0][args[1]]
        if isinstance(target, torch._ops.OpOverload):
            return self._call(target, args, kwargs)
        if (rule := CONTROL.get(target)) is not None:
            return rule(self, *args, **kwargs)
        traced = node.meta.get("val")
        if isinstance(traced, torch.SymFloat) and target in FLOATS:
            return float_of(self.b, target, args)
        if (function := FUNCTIONS.get(target)) is not None and not any(isinstance(a, float | Float) for a in args):
            return function(*args)
        if isinstance(traced, torch.SymInt):  # an integer made of floats: as PyTorch has it in the end
            return number(self.sizes(traced))
        raise UnsupportedError(_ABSENT)

    def _call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = find(target, self.custom)
        if function is None:
            raise UnsupportedError(_ABSENT)
        return function(self.b, **arguments(function, target._schema, args, kwargs))

    def _is_own(self, target: Any) -> bool:
        """Whether the caller's own converter stands for an operator."""
        return isinstance(target, torch._ops.OpOverload) and find(target, self.custom) is not find(target, None)

    def _note_absent(self, node: fx.Node) -> None:
        """An operator without a converter is listed even where its operands are unknown."""
        if isinstance(node.target, torch._ops.OpOverload) and find(node.target, self.custom) is None:
            self.faults.append(Fault(node.name, operator_name(node), _ABSENT, span_of(node)))

    def require_whole(self, name: str) -> None:
        """GraphFaults with all that cannot be converted, if there is anything."""
        if not self.faults:
            return
        lines: dict[tuple[str, str], list[Span]] = {}
        for fault in self.faults:
            lines.setdefault((fault.operator, fault.reason), []).append(fault.span)
        details = [f"{op}: {reason} ({len(at)} times, first at {at[0]})" for (op, reason), at in lines.items()]
        message = f"{name}: {len(self.faults)} nodes cannot be compiled"
        error = GraphFaults(message, span=self.faults[0].span, details=details, hint=way_out(self.faults))
        error.faults = {fault.node: fault for fault in self.faults}
        raise error


def _looked_up(value: Any, values: Mapping[fx.Node, Any]) -> Any:
    """An argument of a node with the values of the nodes in it; lists are tuples, dtypes Legato's."""
    if isinstance(value, fx.Node):
        return values[value]
    if isinstance(value, torch.dtype):
        return from_torch(value)
    if isinstance(value, tuple | list):
        return tuple(_looked_up(v, values) for v in value)
    if isinstance(value, dict):
        return {k: _looked_up(v, values) for k, v in value.items()}
    return value


def _has_unknown(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_unknown, value))
    if isinstance(value, dict):
        return any(map(_has_unknown, value.values()))
    return value is UNKNOWN


def _reason(error: Exception) -> str:
    """Why a node cannot be converted; of what no converter should raise, that it is a bug."""
    if isinstance(error, UnsupportedError | ImportModelError):
        return error.reason
    text = str(error) if isinstance(error, InternalError) else f"{type(error).__name__}: {error}"
    return f"a bug in Legato: {text}"


def operator_name(node: fx.Node) -> str:
    """How messages call the operator of a node."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return overload_name(target).removesuffix(".default")
    return getattr(target, "__name__", str(target))


def is_pytorch(path: str) -> bool:
    """Whether a file is one of PyTorch's own."""
    return path.startswith(_PYTORCH)


def span_of(node: fx.Node) -> Span:
    """The line of the user's Python that a node comes from: the innermost outside of PyTorch."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    own = [f for f in frames if not is_pytorch(f[0])] or frames
    return Span(own[-1][0], int(own[-1][1]), 1) if own else Span(node.name)


def _check(value: Any, traced: Any, node: fx.Node) -> None:
    """InternalError where a converter's result is of another type than PyTorch's trace has."""
    if isinstance(traced, tuple | list):
        for v, t in zip(value if isinstance(value, tuple) else (value,), traced, strict=False):
            _check(v, t, node)
    elif isinstance(traced, torch.Tensor) and isinstance(value, Expr):
        ty = value.ty
        if not isinstance(ty, TensorType) or ty.dtype != from_torch(traced.dtype) or not _same_shape(ty, traced):
            found = f"{traced.dtype} of {list(traced.shape)}"
            raise InternalError(f"{operator_name(node)} at {span_of(node)} gives {ty}, in PyTorch {found}")


def _same_shape(ty: TensorType, traced: torch.Tensor) -> bool:
    return ty.rank == traced.dim() and all(
        int(d.value) == s
        for d, s in zip(ty.shape, traced.shape, strict=True)
        if isinstance(d, Const) and type(s) is int
    )
