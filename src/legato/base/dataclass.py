"""`dataclass`, with methods that are made when they are first used.

The standard decorator compiles the text of up to six methods for each class: half a millisecond, and there are 300
classes in the compiler, most of whose methods a program never calls. Here it makes the fields and the slots; type
checkers see no difference. Subclasses of frozen classes take this decorator as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_NOT_GIVEN = _Factory()  # the default of a parameter whose field has a factory


class _Later:
    """The attribute `name` of a class until it is first asked for: `make(cls)`."""

    __slots__ = ("cls", "make", "name")

    def __init__(self, cls: type, name: str, make: Callable[[type], Any]) -> None:
        self.cls, self.name, self.make = cls, name, make

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        method = self.make(self.cls)
        method.__module__, method.__qualname__ = self.cls.__module__, f"{self.cls.__qualname__}.{self.name}"
        setattr(self.cls, self.name, method)
        return method.__get__(instance, owner)


def _decorated(
    cls: type | None = None,
    /,
    *,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
    weakref_slot: bool = False,
) -> Any:
    """As `dataclasses.dataclass`."""

    def decorate(cls: type) -> type:
        own = dict(cls.__dict__)
        if not cls.__doc__:
            cls.__doc__ = cls.__name__  # or the standard decorator writes one, from a signature that is not there yet
        standard: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot)
        made: type[Any] = standard(cls)
        if "__eq__" in own and own["__hash__"] is None:
            del own["__hash__"]  # nobody wrote it: Python did, because of __eq__
        methods: dict[str, Any] = {"__init__": _init(frozen)} if init else {}
        if repr:
            methods["__repr__"] = _repr
        if eq:
            methods["__eq__"] = _eq
            methods["__hash__"] = _hash if frozen else None
        for name, make in methods.items():
            if name not in own:
                setattr(made, name, make and _Later(made, name, make))
        if frozen:
            _freeze(made, slots)
        return made

    return decorate if cls is None else decorate(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _decorated


def _compiled(name: str, parameters: str, body: Iterable[str], names: dict[str, Any]) -> Any:
    exec(f"def {name}({parameters}):\n " + "\n ".join(body), names)
    return names[name]


def _init(frozen: bool) -> Callable[[type], Any]:
    def make(cls: type) -> Any:
        names: dict[str, Any] = {"NOT_GIVEN": _NOT_GIVEN, "setattr": object.__setattr__}
        fields = dataclasses.fields(cls)
        places = [_parameter(f, names) for f in fields if f.init and not f.kw_only]
        keywords = [_parameter(f, names) for f in fields if f.init and f.kw_only]
        parameters = ", ".join(["self", *places, *(["*", *keywords] if keywords else [])])
        body = [_assignment(cls, f, frozen, names) for f in fields if f.init or _has_default(f)]
        if hasattr(cls, "__post_init__"):
            body.append("self.__post_init__()")
        method = _compiled("__init__", parameters, body or ["pass"], names)
        method.__annotations__ = {f.name: f.type for f in fields if f.init} | {"return": None}
        return method

    return make


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _parameter(field: Field[Any], names: dict[str, Any]) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=NOT_GIVEN"
    if field.default is MISSING:
        return field.name
    names[f"default_{field.name}"] = field.default
    return f"{field.name}=default_{field.name}"


def _assignment(cls: type, field: Field[Any], frozen: bool, names: dict[str, Any]) -> str:
    name = value = field.name
    if field.default_factory is not MISSING:
        names[f"new_{name}"] = field.default_factory
        value = f"new_{name}() if {name} is NOT_GIVEN else {name}" if field.init else f"new_{name}()"
    elif not field.init:
        names[f"default_{name}"] = field.default
        value = f"default_{name}"
    if not frozen:
        return f"self.{name} = {value}"
    slot = getattr(cls, name, None)
    if not isinstance(slot, MemberDescriptorType):
        return f"setattr(self, {name!r}, {value})"
    names[f"set_{name}"] = slot.__set__  # faster than object.__setattr__, which looks for it
    return f"set_{name}(self, {value})"


def _tuple(of: str, fields: Iterable[Field[Any]]) -> str:
    return "(" + "".join(f"{of}.{f.name}, " for f in fields) + ")"


def _eq(cls: type) -> Any:
    fields = [f for f in dataclasses.fields(cls) if f.compare]
    same = f"{_tuple('self', fields)} == {_tuple('other', fields)}"
    return _compiled(
        "__eq__", "self, other", [f"return {same} if other.__class__ is self.__class__ else NotImplemented"], {}
    )


def _hash(cls: type) -> Any:
    fields = [f for f in dataclasses.fields(cls) if (f.compare if f.hash is None else f.hash)]
    return _compiled("__hash__", "self", [f"return hash({_tuple('self', fields)})"], {})


def _repr(cls: type) -> Any:
    names = [f.name for f in dataclasses.fields(cls) if f.repr]

    @recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _freeze(cls: type[Any], slots: bool) -> None:
    """No attribute of a `cls` can be assigned or deleted, and no field where it is part of something else."""
    fields = frozenset(f.name for f in dataclasses.fields(cls))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in fields:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in fields:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    methods: list[Any] = [__setattr__, __delattr__]
    if slots:
        methods += [__getstate__, __setstate__]
    for method in methods:
        setattr(cls, method.__name__, method)


def __getstate__(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def __setstate__(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
