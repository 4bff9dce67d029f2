"""Bodies that are being imported: the graph, local functions, branches, and loops, which see what is around them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import field

from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError
from legato.frontend.onnx.graph import Step
from legato.frontend.onnx.inputs import check_declared
from legato.frontend.onnx.proto import AttributeProto, ValueInfoProto
from legato.frontend.onnx.reader import version_of
from legato.frontend.onnx.report import Unsupported
from legato.ir.expr import Constant, Expr, Var
from legato.ir.let import Binding
from legato.ir.types import TensorType

__all__ = ["UNKNOWN", "Captures", "Frame", "FunctionKey", "Seen", "Unknown", "Value", "spread"]


@dataclass(frozen=True, slots=True)
class Unknown:
    """The value of an output that could not be made; `why` is said where something needs it (None: said already).

    `spread` is one of one element whose rank only the data decides, as a tensor of the highest rank that it may have.
    """

    why: Unsupported | None = None
    spread: Expr | None = None


UNKNOWN = Unknown()
Value = Expr | None | Unknown
# Operators whose result is the same for any rank that an input of one element has, up to that of another input.
BROADCASTING = frozenset({
    "Add", "And", "CastLike", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod",
    "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor",
})  # fmt: skip
FunctionKey = tuple[str, str, str]


def spread(operator: str, values: Sequence[Value]) -> Sequence[Value]:
    """The inputs of an operator, with those whose rank only the data decides where that does not matter."""
    loose = [v.spread for v in values if isinstance(v, Unknown) and v.spread is not None]
    if not loose or operator not in BROADCASTING:
        return values
    rank = max((v.ty.rank for v in values if isinstance(v, Expr) and isinstance(v.ty, TensorType)), default=-1)
    if any(isinstance(v.ty, TensorType) and v.ty.rank > rank for v in loose):
        return values
    return [v.spread if isinstance(v, Unknown) and v.spread is not None else v for v in values]


@dataclass(slots=True)
class Frame:
    """A body being imported.

    `names` are the values so far, `outputs` the names of the body's results. `attributes` are those of the call that a
    function body stands for, `active` the functions being expanded; `depth` is how many branches and loops are around
    it, and it `repeats` if a loop is. `bound` are the lets of the body, which go around its results; `declared` is what
    the file says of these.
    """

    steps: Iterator[Step]
    names: ChainMap[str, Value]
    opsets: Mapping[str, int]
    prefix: str = ""
    outputs: Sequence[str] = ()
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict)
    active: frozenset[FunctionKey] = frozenset()
    depth: int = 0
    repeats: bool = False
    bound: list[Binding] = field(default_factory=list)
    declared: Mapping[str, ValueInfoProto] = field(default_factory=dict)

    def get(self, name: str) -> Value:
        """The value called `name`; None for an input that is left out."""
        if not name:
            return None
        if name not in self.names:
            raise ImportModelError(f"nothing defines {name!r} before it is read")
        return self.names[name]

    def opset(self, domain: str) -> int:
        """The version of a domain's operators; 0 where nothing names it."""
        return version_of(self.opsets, domain)

    def results(self) -> list[Value]:
        """The values of `outputs`; ImportModelError where they are not what is `declared`."""
        values = [self.get(name) for name in self.outputs]
        for name, value in zip(self.outputs, values, strict=True):
            if isinstance(value, Expr) and name in self.declared:
                check_declared(self.declared[name], value.ty)
        return values


class Captures(dict[str, Value]):
    """What the body of a loop sees of `outer`, the names around it, as variables that are bound once, before the loop.

    `bound` pairs those that were made so far with what they stand for. Constants, and what is a variable already, are
    themselves.
    """

    def __init__(self, outer: ChainMap[str, Value], name: Callable[[str, Expr], Var]) -> None:
        super().__init__()
        self.outer, self.bound = outer, list[tuple[Var, Expr]]()
        self._name = name
        self._known: dict[int, Var] = {}

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.outer

    def __missing__(self, name: str) -> Value:
        value = self.outer[name]
        if isinstance(value, Expr):
            value = self.kept(value, name)
        self[name] = value
        return value

    def kept(self, value: Expr, name: str) -> Expr:
        """What stands for `value` in the body; called `name` if it is a variable of its own."""
        if isinstance(value, Constant | Var):
            return value
        if id(value) not in self._known:
            self._known[id(value)] = self._name(name, value)
            self.bound.append((self._known[id(value)], value))
        return self._known[id(value)]


@dataclass(frozen=True, slots=True)
class Seen:
    """The names that a graph inside another sees: its own initializers, and what is around it."""

    own: Container[str]
    outer: ChainMap[str, Value]

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.outer
