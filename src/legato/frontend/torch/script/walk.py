"""The walk over a TorchScript graph: operators on tensors by their converters, all others during import.

Tensors are boxes (`boxes`), for programs change them in place. Branches whose condition is known, and loops whose
number of rounds is, leave nothing of themselves; others become If and functions (`bodies`).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from legato.arith.expr import Expr as DimExpr
from legato.base.dtype import bool_, float64, int64
from legato.base.errors import ImportModelError, UnsupportedError
from legato.base.span import Span
from legato.frontend.torch.dtypes import to_torch
from legato.frontend.torch.emitter import Emitter, Float
from legato.frontend.torch.limits import MAX_NODES
from legato.frontend.torch.script.boxes import Box, Entangled, Scope, View, boxes_of
from legato.frontend.torch.script.composites import expanded
from legato.frontend.torch.script.known import SPECIAL, made_of_numbers
from legato.frontend.torch.script.numbers import BUILTINS, CODES, Scalar, computed, dtype_of, is_plain, scalar_tensor
from legato.frontend.torch.script.views import DROPOUT, MAY_COPY, MAY_SHARE, PARTS, part_writer, writer
from legato.frontend.torch.signature import arguments, find
from legato.ir.expr import Expr

__all__ = ["INSTEAD", "Items", "Log", "ScriptWalk", "Table", "frozen", "span_of"]

# What may work where a graph of TorchScript does not: that importer knows more, and takes converters.
INSTEAD: Final = "export the module by torch.export.export (a .pt2 file)"
_PLACE: Final = re.compile(r"# (.+):(\d+):(\d+)")
_OF_LISTS: Final = frozenset({"any", "all", "sum", "min", "max"})  # of tensors in lists they are other operators
_OF_SIZES: Final = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "floor_divide": operator.floordiv,
                    "remainder": operator.mod}  # fmt: skip
_COMPARING: Final = frozenset({"eq", "ne", "__contains__", "index", "count"})
_KEYED: Final = frozenset({"__getitem__", "_set_item", "insert", "pop", "slice", "get"})
_KINDS: Final = {"IntType": (int, int64), "FloatType": (float, float64), "BoolType": (bool, bool_)}
_CHANGING: Final = frozenset({"add_", "append", "_set_item", "extend", "insert", "pop", "clear", "reverse"})
_TENSOR_NUMBERS: Final = frozenset({"Int", "Float", "Bool", "IntImplicit", "FloatImplicit", "ScalarImplicit", "item"})


Log = dict[int, tuple[Box, Expr]]  # tensors that a body changes, by their ids, with what they were before


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
        self.scope: Scope = ()
        self.logs: list[Log] = []
        self._count = 0
        self._tensors: dict[int, tuple[Any, Box]] = {}

    @property
    def depth(self) -> int:
        """In how many bodies that only running the program decides the walk is."""
        return len(self.scope)

    # ------------------------------------------------------------------ graphs

    def block(self, block: Any, values: Sequence[Any], outside: dict[str, Any]) -> list[Any]:
        """The results of a block or a graph. `values`: of its inputs; `outside`: those of the code around it."""
        env = dict(outside)
        env.update((v.debugName(), x) for v, x in zip(block.inputs(), values, strict=True))
        for node in block.nodes():
            self._count += 1
            if self._count > MAX_NODES:
                raise ImportModelError(f"loops expand to over {MAX_NODES} nodes")
            with self.b.at(span_of(node)):
                try:
                    self._node(node, env)
                except (UnsupportedError, ImportModelError) as error:
                    if error.span is not None:
                        raise
                    message = f"{node.kind()}: {error.message}"
                    hint = error.hint or (INSTEAD if isinstance(error, UnsupportedError) else None)
                    raise type(error)(message, span=span_of(node), hint=hint) from None
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
            if node.outputsSize() == 1:
                found = self._typed(next(node.outputs()), found)
        outputs = list(node.outputs())
        results = found if len(outputs) != 1 and isinstance(found, tuple | list) else (found,)
        if kind in self.bodies:
            results = found
        for v, x in zip(outputs, results, strict=False):
            env[v.debugName()] = x

    # ------------------------------------------------------------------ values

    def box(self, value: Expr) -> Box:
        """A new tensor."""
        return Box(value, self.depth)

    def write(self, box: Box, value: Expr) -> None:
        """Changes a tensor in place."""
        own = self.b.dims_of(box.get())
        if self.b.dims_of(value) != own:
            raise UnsupportedError(f"a tensor of {list(own)} is changed in place to {list(self.b.dims_of(value))}")
        value = self.b.to(value, self.b.dtype(box.get()))
        before = box.root.get()
        box.set(value)
        for depth, log in enumerate(self.logs, start=1):
            if box.root.depth < depth:
                log.setdefault(id(box.root), (box.root, before))

    def items(self, values: Sequence[Any]) -> Items:
        """A new list."""
        made = Items(values)
        made.depth = self.depth
        return made

    def constant(self, value: Any, name: str) -> Any:
        """What a module or a constant of the graph holds, as values of the walk."""
        if isinstance(value, torch.Tensor):
            return self._state(value, name)
        if isinstance(value, tuple):
            return tuple(self.constant(v, f"{name}.{n}") for n, v in enumerate(value))
        if isinstance(value, list):
            return frozen(Items([self.constant(v, f"{name}.{n}") for n, v in enumerate(value)]))
        if isinstance(value, dict):
            return frozen(Table({k: self.constant(v, f"{name}.{k}") for k, v in value.items()}))
        return value

    def _state(self, tensor: torch.Tensor, name: str) -> Box:
        """A tensor that the module holds: the same box each time."""
        if id(tensor) not in self._tensors:
            made = Box(self.held(tensor, name))
            made.is_state = True
            self._tensors[id(tensor)] = (tensor, made)  # with the tensor: another one may not get its id
        return self._tensors[id(tensor)][1]

    def _typed(self, output: Any, value: Any) -> Any:
        """A number in the type that TorchScript has for it."""
        kind = output.type().kind()
        if kind not in _KINDS or value is None:
            return value
        if isinstance(value, Scalar):
            is_right = self.b.dtype(value.value) == _KINDS[kind][1]
        elif isinstance(value, DimExpr):
            is_right = kind == "IntType"
        else:
            value = float(value) if kind == "FloatType" and type(value) is int else value
            is_right = type(value) is _KINDS[kind][0] or (kind == "FloatType" and isinstance(value, Float))
            if type(value) is int and not -(2**63) <= value < 2**63:
                raise UnsupportedError(f"the integer {value}: it has more than 64 bits")
        if not is_right:
            raise UnsupportedError(f"a number that TorchScript has as {output.type()}")
        return value

    # ------------------------------------------------------------------ nodes

    def _primitive(self, node: Any, kind: str, args: tuple[Any, ...]) -> Any:
        rule = _PRIMITIVES.get(kind)
        if rule is None:
            raise UnsupportedError("no converter")
        return rule(self, node, *args)

    def _operator(self, node: Any, kind: str, args: tuple[Any, ...]) -> Any:
        space, _, name = kind.partition("::")
        if space != "aten":
            return self._called(node, args)
        if not boxes_of(args) and name in BUILTINS:
            return self._builtin(name, args)
        if name in _TENSOR_NUMBERS and isinstance(args[0], Box):
            value = args[0].number if args[0].number is not None else Scalar(self.b.reshape(args[0].get(), newshape=()))
            if name in ("item", "ScalarImplicit"):
                return self._item(value)
            return self._builtin(name.removesuffix("Implicit"), (value,))
        if isinstance(args[0], list | dict | tuple) and name in BUILTINS and name not in _OF_LISTS:
            return self._builtin(name, args)
        if name == "tensor":
            return made_of_numbers(self, *args)
        special = SPECIAL.get(name)
        if special is not None and isinstance(args[0], Box) and (found := special(self, *args)) is not NotImplemented:
            return found
        return self._called(node, args)

    def _item(self, value: Any) -> Any:
        """A number of any type: of a tensor's element, as wide as Python's are."""
        if not isinstance(value, Scalar):
            return value
        dtype = self.b.dtype(value.value)
        return Scalar(self.b.to(value.value, float64 if dtype.is_float else bool_ if dtype == bool_ else int64))

    def _builtin(self, name: str, args: tuple[Any, ...]) -> Any:
        if name in _CHANGING and getattr(args[0], "depth", self.depth) < self.depth:
            hint = "make a new one: xs + [x]"
            raise UnsupportedError(
                f"aten::{name} changes a list of the module, or of another branch or loop", hint=hint
            )
        if name in _COMPARING and boxes_of([a for a in args if not isinstance(a, dict)]):
            raise UnsupportedError(f"aten::{name} of tensors in lists")
        if name in _KEYED and len(args) > 1 and not is_plain(args[1:2] if name in ("_set_item", "get") else args[1:]):
            raise UnsupportedError(f"aten::{name} at a place that the program computes")
        try:
            plain = _is_structural(name, args) or is_plain(args)
            found = BUILTINS[name](*args) if plain else computed(self.b, name, args)
        except (ArithmeticError, LookupError, ValueError, TypeError) as error:
            raise UnsupportedError(f"aten::{name}: {error}") from error
        return self.items(found) if isinstance(found, list) and not isinstance(found, Items) else found

    def _called(self, node: Any, args: tuple[Any, ...]) -> Any:
        """An operator on tensors, by its converter: one that writes does so to its first operand's box."""
        overload = _overload(node)
        given = tuple(self._argument(p, a) for p, a in zip(overload._schema.arguments, args, strict=False))
        name = overload._opname
        if overload._schema.is_mutable:
            return self._written(overload, args, given)
        self._require_wide(overload, args)
        value, may_share = self._value(overload, given)
        found = self._result(overload, args, given, value, may_share or name in MAY_SHARE or name in DROPOUT)
        if isinstance(found, Box):
            found.number = _known(name, args) if found not in args else found.number
        return found

    def _written(self, overload: Any, args: tuple[Any, ...], given: tuple[Any, ...]) -> Any:
        first, *rest = overload._schema.arguments
        name = overload._opname
        is_plain_write = name.endswith("_") and not name.endswith("__") and isinstance(args[0], Box)
        if not is_plain_write or not _is_written(first) or any(map(_is_written, rest)):
            raise UnsupportedError("no operator that gives what it writes")
        if torch.Tag.inplace_view in overload.tags:
            raise UnsupportedError("it changes the shape of a tensor in place", hint=f"use {name.removesuffix('_')}")
        if name.removesuffix("_") in DROPOUT and given[2] is False:
            return args[0]
        value, _ = self._value(_functional(overload, name), given)
        self.write(args[0], value)
        return args[0]

    def _value(self, overload: Any, given: tuple[Any, ...]) -> tuple[Any, bool]:
        """What an operator makes of its arguments, and whether that may share their memory though no schema says so."""
        function = find(overload)
        if function is None:
            found = expanded(self.b, self.held, overload, given)
            return found.value, found.may_share
        return function(self.b, **arguments(function, overload._schema, given, {})), False

    def _require_wide(self, overload: Any, args: tuple[Any, ...]) -> None:
        """Numbers that the program computes are tensors of int64, which count for more beside scalars than numbers."""
        scalars = [a for a in args if isinstance(a, Scalar)]
        tensors = [a.get() for a in args if isinstance(a, Box)]
        is_integer = any(not self.b.dtype(s.value).is_float for s in scalars)
        is_wide = any(self.b.rank(t) or self.b.dtype(t).is_float or self.b.dtype(t) == int64 for t in tensors)
        if is_integer and tensors and not is_wide:
            hint = "make the tensor one of int64"
            raise UnsupportedError("a number that the program computes beside a tensor of rank 0", hint=hint)

    def _result(self, overload: Any, args: tuple[Any, ...], given: tuple[Any, ...], value: Any, may_share: bool) -> Any:
        """What an operator gives: views of its operand where its schema says so."""
        returned, name = overload._schema.returns, overload._opname
        shares = name in PARTS or (bool(returned) and returned[0].alias_info is not None)
        shares = shares and isinstance(args[0], Box)
        if isinstance(value, Expr) and shares:
            has_own_dtype = self.b.dtype(value) != self.b.dtype(given[0])
            if name in MAY_COPY and (has_own_dtype or _is_copy(overload, given)):
                return self.box(value)
            if value is given[0] and name not in MAY_COPY:
                return args[0]
            write = None if has_own_dtype else writer(self.b, name, given[1:])
            return View(args[0], self._reader(overload, given), write, name, self._scope, name in MAY_COPY)
        return self._wrapped(value, overload, args, given, shares, may_share)

    def _scope(self) -> Scope:
        return self.scope

    def _reader(self, overload: Any, given: tuple[Any, ...], n: int | None = None) -> Callable[[Expr], Expr]:
        """How a view is read out of its base; of several, the one with a number."""

        def read(base: Expr) -> Expr:
            value, _ = self._value(overload, (base, *given[1:]))
            found = value if n is None else value[n]
            assert isinstance(found, Expr)
            return found

        return read

    def _wrapped(
        self, value: Any, overload: Any, args: tuple[Any, ...], given: tuple[Any, ...], shares: bool, may_share: bool
    ) -> Any:
        if isinstance(value, Expr):
            return self.entangled(value, args, f"what {overload._opname} gave") if may_share else self.box(value)
        if isinstance(value, tuple | list):
            made = [
                self._part(overload, args, given, value, n)
                if shares
                else self._wrapped(v, overload, args, given, False, may_share)
                for n, v in enumerate(value)
            ]
            is_list = len(overload._schema.returns) == 1
            return self.items(made) if is_list else tuple(made)
        return value

    def _part(
        self, overload: Any, args: tuple[Any, ...], given: tuple[Any, ...], parts: Sequence[Expr], n: int
    ) -> View:
        """One of the views that an operator gives."""
        named = zip(overload._schema.arguments, given, strict=False)
        dim = next((value for p, value in named if p.name == "dim"), 0)
        write = part_writer(self.b, overload._opname, dim, parts, n)
        return View(args[0], self._reader(overload, given, n), write, overload._opname, self._scope)

    def entangled(self, value: Expr, others: Any, what: str) -> Box:
        """A new tensor that may share the memory of the tensors among `others`."""
        return Entangled(value, boxes_of(others), what, self.depth)

    def _argument(self, parameter: Any, value: Any) -> Any:
        """A value as converters take it."""
        if isinstance(value, Box):
            return value.get()
        if isinstance(value, Scalar):
            return self._number(parameter, value)
        if isinstance(value, list | tuple):
            return tuple(self._argument(parameter, v) for v in value)
        if isinstance(value, int) and not isinstance(value, bool) and "ScalarType" in str(parameter.real_type):
            return dtype_of(value)
        return value

    def _number(self, parameter: Any, value: Scalar) -> Any:
        kind = str(parameter.real_type)
        if "Tensor" in kind:
            return value.value
        if "number" in kind or "Scalar" in kind:
            dtype = self.b.dtype(value.value)
            return Float(value.value) if dtype.is_float else value.value
        raise UnsupportedError(f"{parameter.name} is a number that the program computes")


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
        "slice", "keys", "values", "items", "get", "add", "add_",
    )) or name in ("__is__", "__isnot__", "warn", "format", "str")  # fmt: skip


def frozen(value: Any) -> Any:
    """A list or dict that may not be changed from now on, as it may be another one, too."""
    if isinstance(value, Items | Table):
        value.depth = -1
    return value


def _overload(node: Any) -> Any:
    """The operator of a node; UnsupportedError for those that only TorchScript's interpreter has."""
    schema = torch._C.parse_schema(node.schema())
    space, _, name = schema.name.partition("::")
    packet = getattr(getattr(torch.ops, space), name, None)
    found = getattr(packet, schema.overload_name or "default", None)
    if not isinstance(found, torch._ops.OpOverload) or not all("Tensor" in str(r.type) for r in found._schema.returns):
        raise UnsupportedError("no converter")
    return found


def _is_written(parameter: Any) -> bool:
    return parameter.alias_info is not None and parameter.alias_info.is_write


def _is_copy(overload: Any, given: tuple[Any, ...]) -> bool:
    """Whether `to` is asked for a copy."""
    names = [p.name for p in overload._schema.arguments]
    return "copy" in names[: len(given)] and given[names.index("copy")] is True


def _known(name: str, args: tuple[Any, ...]) -> Any:
    """The number that an operator gives on tensors that hold known ones, as traces compute sizes; else None."""
    values = [a.number if isinstance(a, Box) else a for a in args]
    if name not in _OF_SIZES or not all(type(v) is int for v in values) or (len(values) == 3 and values[2] != 1):
        return None
    found = _OF_SIZES[name](*values[:2]) if name == "mul" or values[1] or name in ("add", "sub") else None
    return found if found is not None and -(2**63) <= found < 2**63 else None


def _constant(walk: ScriptWalk, node: Any) -> Any:
    return walk.constant(next(iter(node.outputs())).toIValue(), "a constant")


def _attribute(walk: ScriptWalk, node: Any, owner: Any) -> Any:
    name = node.s("name")
    if isinstance(getattr(type(owner), name, None), property):  # of Python's class: `code`, `graph`
        parts = dict(owner.named_children())
        return walk.constant(parts[name] if name in parts else owner._c.getattr(name), name)
    return walk.constant(getattr(owner, name), name)


def _number_tensor(walk: ScriptWalk, node: Any, x: Any) -> Box:
    made = walk.box(scalar_tensor(walk.b, x))
    made.number = x
    return made


def _dict(walk: ScriptWalk, node: Any, *args: Any) -> Table:
    made = Table(zip(args[::2], args[1::2], strict=True))
    made.depth = walk.depth
    return made


def _raise(walk: ScriptWalk, node: Any, message: Any, *_: Any) -> Any:
    if walk.depth:
        raise UnsupportedError("a branch or loop that the data decides raises")
    raise ImportModelError(f"the model raises: {message}", span=span_of(node))


def _extreme(name: str) -> Callable[..., Any]:
    def rule(walk: ScriptWalk, node: Any, *args: Any) -> Any:
        return BUILTINS[name](*args) if is_plain(args) else computed(walk.b, name, args)

    return rule


def _unpacked(walk: ScriptWalk, node: Any, xs: Sequence[Any]) -> tuple[Any, ...]:
    if len(xs) != node.outputsSize():
        raise ImportModelError(f"a list of {len(xs)} is unpacked into {node.outputsSize()}", span=span_of(node))
    return tuple(xs)


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
    "ListUnpack": _unpacked,
    "DictConstruct": _dict,
    "TupleIndex": lambda walk, node, xs, n: xs[n],
    "TupleSlice": lambda walk, node, xs: xs[node.i("beg") : node.i("end")],
    "NumToTensor": _number_tensor,
    "dtype": lambda walk, node, x: CODES.index(to_torch(walk.b.dtype(x.get()))),
    "device": lambda walk, node, x: torch.device("cpu"),
    **dict.fromkeys(("is_cuda", "is_quantized", "is_sparse", "requires_grad"), _no),
    **dict.fromkeys(("layout", "Uninitialized", "Print"), _nothing),
    **dict.fromkeys(("unchecked_cast", "unchecked_unwrap_optional", "annotate"), _first),
    "RaiseException": _raise,
    "min": _extreme("min"),
    "max": _extreme("max"),
}
"""What the operators of `prim` give."""


def span_of(node: Any) -> Span:
    """The line of the user's Python that a node comes from."""
    found = _PLACE.search(str(node).partition("\n")[0])
    return Span(found[1], int(found[2]), int(found[3]) + 1) if found else Span(node.kind())
