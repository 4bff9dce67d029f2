"""Code generators by name, as Relay's scripts have them: functions, patterns and predicates that they register.

In Relay these were tables of the process, and here they are, for such scripts alone. What is registered under a name is
one generator, an object as `legato.generators` wants it: its `compile` is the function "relay.ext.NAME", its
`composites` are the table of patterns, `supports` asks the predicates "target.NAME" of operators. Generators that are
given (`relay.build(…, generators=[…])`) come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, UnsupportedError
from legato.generators import CSource, OnnxRuntime
from legato.generators.generator import Composite
from legato.ir.expr import Call, Function
from legato.ir.module import Module
from legato.ir.scope import post_order
from legato.ops import table
from legato.runtime.engines import by_name
from legato.transform._external import compiler_of, is_external

__all__ = ["generator", "get_global_func", "register_func", "register_generator", "register_op_attr",
           "registered_for", "table_of", "with_table"]  # fmt: skip

_EXT: Final = "relay.ext."
_TARGET: Final = "target."
_OWN: Final = {g.name: g for g in (OnnxRuntime(), CSource(name="ccompiler"))}

Predicate = Callable[[Call], bool]


@dataclass(slots=True)
class _Registered:
    """What scripts have said of a generator."""

    name: str
    function: Callable[[Function], Any] | None = None
    table: tuple[Composite, ...] | None = None
    predicates: dict[str, tuple[Predicate | bool, int]] = field(default_factory=dict)  # with their levels
    whole: Any = None  # a generator as it is

    @property
    def composites(self) -> tuple[Composite, ...]:
        """The patterns that are registered, else those of the generator itself."""
        return tuple(getattr(self.whole, "composites", ())) if self.table is None else self.table

    def supports(self, call: Call) -> bool:
        """Whether a call is taken: as the operator's predicate says, else as the generator itself."""
        found, _ = self.predicates.get(getattr(call.op, "name", ""), (None, 0))
        if found is not None:
            return bool(found(call)) if callable(found) else bool(found)
        supports = getattr(self.whole, "supports", None)
        return bool(supports(call)) if callable(supports) else False

    def compile(self, function: Function) -> Any:
        """What the function "relay.ext.NAME" makes, or else the generator itself."""
        return self.whole.compile(function) if self.function is None else self.function(function)


_registered: Final[dict[str, _Registered]] = {}


def _of(name: str) -> _Registered:
    found = _registered.get(name)
    if found is None:
        found = _registered[name] = _Registered(name, whole=_OWN.get(name))
    return found


def register_func(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Registers a function "relay.ext.NAME", which makes the engine of a function; without `f`, a decorator.

    CompileError for one that is there already, unless `override`; UnsupportedError for other names: a function that
    programs call is given to `legato.compile(packed={…})`.
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    if not str(func_name).startswith(_EXT):
        hint = 'a function that programs call is given by name: legato.compile(…, packed={"name": function})'
        raise UnsupportedError(f"register_func: {func_name!r} is no {_EXT}NAME", hint=hint)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        found = _of(str(func_name).removeprefix(_EXT))
        if found.function is not None and not override:
            raise CompileError(f"register_func: {func_name!r} is registered already", hint="override=True")
        found.function = function
        return function

    return register if f is None else register(f)


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """The function that is registered as "relay.ext.NAME"; CompileError, or None, where there is none."""
    known = _registered.get(name.removeprefix(_EXT)) if name.startswith(_EXT) else None
    if known is not None and (known.function is not None or known.whole is not None):
        return known.compile
    if name.startswith(_EXT) and name.removeprefix(_EXT) in _OWN:
        return _of(name.removeprefix(_EXT)).compile
    if allow_missing:
        return None
    raise CompileError(f"no function is registered as {name!r}")


def register_op_attr(op_name: str, attr_key: str, value: Predicate | bool | None = None, level: int = 10) -> Any:
    """Registers whether a generator takes calls of an operator, as the attribute "target.NAME" of this: a predicate of
    calls, or a bool; without `value`, a decorator. Of several the last one of the highest level counts.
    UnsupportedError for other attributes and operators."""
    if not attr_key.startswith(_TARGET):
        raise UnsupportedError(f"register_op_attr: {attr_key!r} is fixed", hint="an operator's record says all of it")
    if op_name not in table():
        hint = "the name of an operator of Legato's own: docs/ops has all"
        raise UnsupportedError(f"register_op_attr: there is no operator {op_name!r}", hint=hint)

    def register(predicate: Any) -> Any:
        known = _of(attr_key.removeprefix(_TARGET)).predicates
        if op_name not in known or known[op_name][1] <= level:
            known[op_name] = predicate, level
        return predicate

    return register if value is None else register(value)


def register_generator(given: Any) -> None:
    """Registers a generator as it is."""
    for name, found in by_name([given]).items():
        _of(name).whole = found


def with_table(name: str, entries: Sequence[Composite]) -> None:
    """Registers the patterns of a generator."""
    _of(name).table = tuple(entries)


def table_of(name: str) -> tuple[Composite, ...] | None:
    """The patterns of a generator; None where none are registered."""
    found = _registered.get(name)
    return (found.composites or None) if found is not None else tuple(getattr(_OWN.get(name), "composites", ())) or None


def generator(name: str) -> Any:
    """What is registered under a name; the generators of the package are."""
    return _of(name)


def registered_for(mod: Module, given: Iterable[Any]) -> tuple[Any, ...]:
    """The generators that are `given`, and those that are registered for other functions of `mod`."""
    known = by_name(given)
    nodes = (node for _, func in mod.graph_functions() for node in (func, *post_order(func.body)))
    wanted = {str(compiler_of(node)) for node in nodes if is_external(node)} - set(known)
    found = (_whole(name) for name in sorted(wanted))
    return (*known.values(), *(g for g in found if g is not None))


def _whole(name: str) -> Any:
    """A generator that can compile: the package's own as it is, where nothing was registered for it."""
    found = _registered.get(name)
    if found is None or found.function is None:
        return _OWN.get(name) if found is None else found.whole
    return found
