"""The walk over a TorchScript graph: operators on tensors by their converters, all others during import.

Tensors are boxes (`boxes`), for programs change them in place. Branches whose condition is known, and loops whose
number of rounds is, leave nothing of themselves; others become If and functions (`bodies`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from legato.base.dtype import DType
from legato.base.errors import ImportModelError, UnsupportedError
from legato.base.span import Span
from legato.frontend.torch.dtypes import from_torch
from legato.frontend.torch.emitter import Emitter, Float
from legato.frontend.torch.script.boxes import Box, View
from legato.frontend.torch.script.numbers import BUILTINS, Scalar, computed, is_plain, scalar_tensor
from legato.frontend.torch.script.views import MAY_COPY, called, writer
from legato.frontend.torch.symbols import number
from legato.ir.expr import Expr

__all__ = ["Items", "ScriptWalk", "Table"]

MAX_NODES: Final = 100_000  # after loops are unrolled
_PLACE: Final = re.compile(r"# (.+):(\d+):(\d+)")
_CODES: Final = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
                 torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.bool, None, None, None,
                 torch.bfloat16)  # fmt: skip
"""Dtypes by the numbers that TorchScript has for them (c10::ScalarType)."""
_OF_LISTS: Final = frozenset({"any", "all", "sum", "min", "max"})  # of tensors in lists they are other operators
_CHANGING: Final = frozenset({"append", "_set_item", "extend", "insert", "pop", "clear", "reverse"})
_TENSOR_NUMBERS: Final = frozenset({"Int", "Float", "Bool", "IntImplicit", "FloatImplicit", "ScalarImplicit", "item"})


class Items(list[Any]):
    """A list; `depth`: of the bodies that only running the program decides, in which it was made."""

    depth = 0


class Table(dict[Any, Any]):
    """A dict, with the same."""

    depth = 0


class ScriptWalk:
    """One import of a TorchScript graph. `bodies` makes branches and loops."""

    def __init__(self, b: Emitter, held: Callable[[torch.Tensor, str], Expr], bodies: Mapping[str, Any]) -> None:
        self.b = b
        self.held = held
        self.bodies = bodies
        self.depth = 0
        self.logs: list[dict[int, tuple[Box, Expr]]] = []
        self._count = 0
        self._tensors: dict[int, Box] = {}

    # ------------------------------------------------------------------ graphs

    def block(self, block: Any, values: Sequence[Any], outside: dict[str, Any]) -> list[Any]:
        """The results of a block or a graph. `values`: of its inputs; `outside`: those of the code around it."""
        env = dict(outside)
        env.update((v.debugName(), x) for v, x in zip(block.inputs(), values, strict=True))
        for node in block.nodes():
            self._count += 1
            if self._count > MAX_NODES:
                raise ImportModelError(f"loops expand to over {MAX_NODES} nodes")
            with self.b.at(_span(node)):
                try:
                    self._node(node, env)
                except UnsupportedError as error:
                    if error.span is not None:
                        raise
                    message = f"{node.kind()}: {error.message}"
                    raise UnsupportedError(message, span=_span(node), hint=error.hint) from None
        return [env[v.debugName()] for v in block.outputs()]

    def _node(self, node: Any, env: dict[str, Any]) -> None:
        kind = node.kind()
        args = tuple(env[v.debugName()] for v in node.inputs())
        if kind in self.bodies:
            found = tuple(self.bodies[kind](self, node, args, env))
        elif kind.startswith("prim::"):
            found = self._primitive(node, kind.removeprefix("prim::"), args)
        else:
            found = self._operator(node, kind, args)
        outputs = list(node.outputs())
        results = found if len(outputs) != 1 and isinstance(found, tuple | list) else (found,)
        if kind in self.bodies:
            results = found
        for v, x in zip(outputs, results, strict=False):
            env[v.debugName()] = x

    # ------------------------------------------------------------------ values

    def box(self, value: Expr) -> Box:
        """A new tensor."""
        made = Box(value)
        made.depth = self.depth
        return made

    def write(self, box: Box, value: Expr) -> None:
        """Changes a tensor in place."""
        if self.b.type_of(value) != self.b.type_of(box.get()):
            value = self.b.to(self.b.broadcast(value, self.b.dims_of(box.get())), self.b.dtype(box.get()))
        for depth, log in enumerate(self.logs, start=1):
            if box.root.depth < depth:
                log.setdefault(id(box.root), (box.root, box.root.get()))
        box.set(value)

    def items(self, values: Sequence[Any]) -> Items:
        """A new list."""
        made = Items(values)
        made.depth = self.depth
        return made

    def constant(self, value: Any, name: str) -> Any:
        """What a module or a constant of the graph holds, as values of the walk."""
        if isinstance(value, torch.Tensor):
            if id(value) not in self._tensors:
                self._tensors[id(value)] = Box(self.held(value, name))
                self._kept = value
            return self._tensors[id(value)]
        if isinstance(value, tuple):
            return tuple(self.constant(v, f"{name}.{n}") for n, v in enumerate(value))
        if isinstance(value, list):
            return self.items([self.constant(v, f"{name}.{n}") for n, v in enumerate(value)])
        if isinstance(value, dict):
            return Table({k: self.constant(v, f"{name}.{k}") for k, v in value.items()})
        return value

    # ------------------------------------------------------------------ nodes

    def _primitive(self, node: Any, kind: str, args: tuple[Any, ...]) -> Any:
        rule = _PRIMITIVES.get(kind)
        if rule is None:
            raise UnsupportedError("no converter")
        return rule(self, node, *args)

    def _operator(self, node: Any, kind: str, args: tuple[Any, ...]) -> Any:
        name = kind.partition("::")[2]
        if not any(isinstance(a, Box) for a in args) and not _has_box(args) and name in BUILTINS:
            return self._builtin(name, args)
        if name in _TENSOR_NUMBERS and isinstance(args[0], Box):
            value = Scalar(self.b.reshape(args[0].get(), newshape=()))
            return (
                value
                if name in ("item", "ScalarImplicit")
                else computed(self.b, name.removesuffix("Implicit"), (value,))
            )
        if isinstance(args[0], list | dict | tuple) and name in BUILTINS and name not in _OF_LISTS:
            return self._builtin(name, args)
        special = _SPECIAL.get(name)
        if special is not None and isinstance(args[0], Box) and (found := special(self, *args)) is not NotImplemented:
            return found
        return self._called(node, args)

    def _builtin(self, name: str, args: tuple[Any, ...]) -> Any:
        if name in _CHANGING and getattr(args[0], "depth", self.depth) < self.depth:
            raise UnsupportedError(
                f"aten::{name} changes a list from outside of a branch or loop that the data decides"
            )
        found = BUILTINS[name](*args) if _is_structural(name, args) or is_plain(args) else computed(self.b, name, args)
        return self.items(found) if isinstance(found, list) and not isinstance(found, Items) else found

    def _called(self, node: Any, args: tuple[Any, ...]) -> Any:
        """An operator on tensors, by its converter: one that writes does so to its first operand's box."""
        schema = torch._C.parse_schema(node.schema())
        packet = getattr(torch.ops.aten, schema.name.partition("::")[2])
        overload = getattr(packet, schema.overload_name or "default")
        given = tuple(self._argument(p, a) for p, a in zip(overload._schema.arguments, args, strict=False))
        name = packet.__name__
        if overload._schema.is_mutable:
            functional = _functional(overload, name)
            value = called(self.b, functional, given, {})
            self.write(args[0], value)
            return args[0]
        value = called(self.b, overload, given, {})
        return self._result(overload, name, args, given, value)

    def _result(self, overload: Any, name: str, args: tuple[Any, ...], given: tuple[Any, ...], value: Any) -> Any:
        """What an operator gives: views of its operand where its schema says so."""
        returned = overload._schema.returns
        shares = bool(returned) and returned[0].alias_info is not None and isinstance(args[0], Box)
        if isinstance(value, Expr) and shares:
            if value is given[0]:
                return args[0]
            if name in MAY_COPY and self.b.dtype(value) != self.b.dtype(given[0]):
                return self.box(value)
            view = View(args[0], lambda base: called(self.b, overload, (base, *given[1:]), {}),
                        writer(self.b, name, given[1:]), name, may_copy=name in MAY_COPY)  # fmt: skip
            view.depth = self.depth
            return view
        return self._wrapped(value, overload, args, given, shares)

    def _wrapped(self, value: Any, overload: Any, args: tuple[Any, ...], given: tuple[Any, ...], shares: bool) -> Any:
        if isinstance(value, Expr):
            return self.box(value)
        if isinstance(value, tuple):
            made = [
                self._part(v, n, overload, args, given) if shares else self._wrapped(v, overload, args, given, False)
                for n, v in enumerate(value)
            ]
            is_list = len(overload._schema.returns) == 1
            return self.items(made) if is_list else tuple(made)
        return value

    def _part(self, value: Expr, n: int, overload: Any, args: tuple[Any, ...], given: tuple[Any, ...]) -> Box:
        """One of the views that `split` and its kin give: it can be read anew, and not be written."""
        view = View(args[0], lambda base: called(self.b, overload, (base, *given[1:]), {})[n], None,
                    overload._schema.name.partition("::")[2])  # fmt: skip
        view.depth = self.depth
        return view

    def _argument(self, parameter: Any, value: Any) -> Any:
        """A value as converters take it."""
        if isinstance(value, Box):
            return value.get()
        if isinstance(value, Scalar):
            return self._number(parameter, value)
        if isinstance(value, list | tuple):
            return tuple(self._argument(parameter, v) for v in value)
        if isinstance(value, int) and not isinstance(value, bool) and "ScalarType" in str(parameter.real_type):
            return _dtype(value)
        return value

    def _number(self, parameter: Any, value: Scalar) -> Any:
        kind = str(parameter.real_type)
        if "Tensor" in kind:
            return value.value
        if "number" in kind or "Scalar" in kind:
            dtype = self.b.dtype(value.value)
            return Float(value.value) if dtype.is_float else value.value
        raise UnsupportedError(f"{parameter.name} is a number that the program computes")


def _dtype(code: int) -> DType:
    found = _CODES[code] if code < len(_CODES) else None
    if found is None:
        raise UnsupportedError(f"the dtype number {code} of TorchScript")
    return from_torch(found)


def _functional(overload: Any, name: str) -> Any:
    """The operator that gives what an operator in place writes."""
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    found = None if packet is None else getattr(packet, overload._overloadname, None)
    if found is None:
        raise UnsupportedError("no operator that gives what it writes")
    return found


def _is_structural(name: str, args: tuple[Any, ...]) -> bool:
    """Operators on lists that do not read the items."""
    return (isinstance(args[0], list | dict | tuple) and name in (
        "len", "__getitem__", "_set_item", "append", "extend", "insert", "pop", "copy", "clear", "reverse", "list",
        "slice", "keys", "values", "items", "get", "add",
    )) or name in ("__is__", "__isnot__", "warn", "format", "str")  # fmt: skip


def _has_box(value: Any) -> bool:
    return False if not isinstance(value, list | tuple) else any(isinstance(v, Box) or _has_box(v) for v in value)


def _constant(walk: ScriptWalk, node: Any) -> Any:
    return walk.constant(next(iter(node.outputs())).toIValue(), "a constant")


def _attribute(walk: ScriptWalk, node: Any, owner: Any) -> Any:
    return walk.constant(getattr(owner, node.s("name")), node.s("name"))


def _dict(walk: ScriptWalk, node: Any, *args: Any) -> Table:
    made = Table(zip(args[::2], args[1::2], strict=True))
    made.depth = walk.depth
    return made


def _raise(walk: ScriptWalk, node: Any, message: Any, *_: Any) -> Any:
    raise ImportModelError(f"the model raises: {message}", span=_span(node))


def _extreme(name: str) -> Callable[..., Any]:
    def rule(walk: ScriptWalk, node: Any, *args: Any) -> Any:
        return BUILTINS[name](*args) if is_plain(args) else computed(walk.b, name, args)

    return rule


def _first(walk: ScriptWalk, node: Any, value: Any, *_: Any) -> Any:
    return value


def _no(walk: ScriptWalk, node: Any, *_: Any) -> bool:
    return False


def _nothing(walk: ScriptWalk, node: Any, *_: Any) -> None:
    return None


_PRIMITIVES: Final[Mapping[str, Callable[..., Any]]] = {
    "Constant": _constant,
    "GetAttr": _attribute,
    "ListConstruct": lambda walk, node, *args: walk.items(args),
    "TupleConstruct": lambda walk, node, *args: args,
    "TupleUnpack": lambda walk, node, xs: tuple(xs),
    "ListUnpack": lambda walk, node, xs: tuple(xs),
    "DictConstruct": _dict,
    "TupleIndex": lambda walk, node, xs, n: xs[n],
    "TupleSlice": lambda walk, node, xs: xs[node.i("beg") : node.i("end")],
    "NumToTensor": lambda walk, node, x: walk.box(scalar_tensor(walk.b, x)),
    "dtype": lambda walk, node, x: walk.b.dtype(x.get()),
    "device": lambda walk, node, x: "cpu",
    **dict.fromkeys(("is_cuda", "is_quantized", "is_sparse", "requires_grad"), _no),
    **dict.fromkeys(("layout", "Uninitialized", "Print"), _nothing),
    **dict.fromkeys(("unchecked_cast", "unchecked_unwrap_optional", "annotate"), _first),
    "RaiseException": _raise,
    "min": _extreme("min"),
    "max": _extreme("max"),
}
"""What the operators of `prim` give."""


def _size(walk: ScriptWalk, x: Box, dim: int | None = None) -> Any:
    dims = [number(d) for d in walk.b.dims_of(x.get())]
    return walk.items(dims) if dim is None else dims[walk.b.axis_of(dim, len(dims))]


def _select(walk: ScriptWalk, x: Box, dim: int, index: Any) -> Any:
    """A row whose number the program computes."""
    if not isinstance(index, Scalar):
        return NotImplemented
    axis = walk.b.axis_of(dim, walk.b.rank(x.get()))
    return walk.box(walk.b.take(x.get(), index.value, axis=axis))


_SPECIAL: Final[Mapping[str, Callable[..., Any]]] = {
    "size": _size,
    "select": _select,
    "dim": lambda walk, x: walk.b.rank(x.get()),
    "ndimension": lambda walk, x: walk.b.rank(x.get()),
    "len": lambda walk, x: number(walk.b.dims_of(x.get())[0]),
    "numel": lambda walk, x: number(walk.b.product(walk.b.dims_of(x.get()))),
    "is_floating_point": lambda walk, x: walk.b.dtype(x.get()).is_float,
    "__is__": lambda walk, x, y: x is y,
    "__isnot__": lambda walk, x, y: x is not y,
}
"""Operators on a tensor that give what is known of it; NotImplemented: its converter is to be asked."""


def _span(node: Any) -> Span:
    found = _PLACE.search(str(node).partition("\n")[0])
    return Span(found[1], int(found[2]), int(found[3]) + 1) if found else Span(node.kind())
