"""Objects around a function whose classes are the program's own: none of their code runs when it is translated."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError
from legato.relay import Tensor, relay_model

RAN: list[str] = []


class Loud:
    """Notes each method of it that is called."""

    def __hash__(self) -> int:
        RAN.append("hash")
        return 0

    def __getattr__(self, name: str) -> Any:
        RAN.append(name)
        raise AttributeError(name)


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **named: Any) -> Any:
        RAN.append(name)
        return NotImplemented

    return method


_METHODS = ("add", "array", "bool", "call", "contains", "eq", "float", "getitem", "index", "int", "iter", "len", "lt",
            "ne", "radd", "repr", "str")  # fmt: skip
for _name in _METHODS:
    setattr(Loud, f"__{_name}__", _method(_name))
Loud.ty = property(_method("ty"))


class Slots:
    """An object with a slot that holds nothing."""

    __slots__ = ("empty",)


class Mode(enum.IntEnum):
    """Numbers with names."""

    TWO = 2


@functools.wraps(relay.add)
def wrapped(x: Any, y: Any) -> Any:
    """Looks like an operator of Relay."""
    RAN.append("wrapped")
    return x


loud, slots, flag, one = Loud(), Slots(), np.bool_(True), np.float32(1)
T = Tensor[(3,), "float32"]


def _with_default(x: T, k={}):  # noqa: B006
    return x


with_default = relay(_with_default)

FAULTS: dict[str, Callable[[Any], Any]] = {}


def fault(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Notes a function that cannot be translated."""
    FAULTS[function.__name__] = function
    return function


@fault
def condition(x: T):
    return x if loud else x + 1


@fault
def filtered(x: T):
    return [x for _ in range(3) if loud]


@fault
def called(x: T):
    return loud(x)


@fault
def added(x: T):
    return x + loud


@fault
def operand(x: T):
    return relay.add(x, loud)


@fault
def attribute(x: T):
    return relay.reshape(x, loud)


@fault
def index(x: T):
    return x[loud]


@fault
def bound(x: T):
    return x[0:loud]


@fault
def field_index(x: T):
    return (x, x)[loud]


@fault
def equal(x: T):
    return x if loud == 1 else x + 1


@fault
def contained(x: T):
    return x if 1 in (loud, 2) else x + 1


@fault
def counted(x: T):
    return tuple(range(loud))


@fault
def converted(x: T):
    return x.astype(loud)


@fault
def around(x: T):
    return wrapped(x, x)


@fault
def one_path(x: T, c: bool):
    return loud if c else x


@fault
def slot(x: T):
    return slots.empty


@fault
def in_text(x: T):
    return x if 1 in "abc" else x + 1


@fault
def no_step(x: T):
    return tuple(range(0, 3, 0))


@fault
def too_long(x: T):
    return [x for _ in range(10**9)]


@fault
def too_often(x: T):
    return (x,) * 10**9


@fault
def too_wide(x: T):
    return x * len("a" * 10**11)


@fault
def out_of_range(x: T):
    return x * np.int8(1000)


@fault
def negated_flag(x: T):
    return x + (-flag)


@fault
def inverted_float(x: T):
    return x + (~one)


@fault
def a_kind_of_kinds(x: T):
    return np.generic(x)


@fault
def annotation_inside(x: T):
    return Tensor(1, 2, 3)


@fault
def no_type(x: loud):
    return x


@fault
def no_dim(x: Tensor[loud]):
    return x


@fault
def no_dtype(x: Tensor[(3,), loud]):
    return x


@fault
def unclosed(x: "Tensor[(3,"):  # noqa: F722
    return x


@fault
def dictionary(x: {1: 2}):
    return x


@fault
def default(x: T):
    return with_default(x)


@pytest.mark.parametrize("name", FAULTS)
def test_refused_without_running(name: str) -> None:
    """The error is one of the compiler's, and none of the object's methods was called."""
    RAN.clear()
    with pytest.raises(CompileError) as caught:
        _ = relay(FAULTS[name]).module
    assert not RAN
    assert "typing" not in caught.value.message


@relay
def number() -> int:
    return Mode.TWO


@relay
def contains(x: T):
    return x + 1 if x.shape[0] in (1, Mode.TWO, 3.0) and "b" in "abc" else x


def test_numbers_with_names() -> None:
    """A number of a class of its own is a number; membership is by equality."""
    assert int(np.asarray(number())) == 2
    assert np.array_equal(np.asarray(contains(np.zeros(3, "float32"))), np.ones(3))


def test_models() -> None:
    """A model's slots are read; an annotation that is no expression is an error of the compiler."""

    @relay_model
    class Slotted:
        __slots__ = ("scale",)

        def __init__(self):
            self.scale = 2.0

        def forward(self, x: T):
            return x * self.scale

    assert np.array_equal(np.asarray(Slotted()(np.ones(3, "float32"))), np.full(3, 2.0))

    @relay_model
    class Unclosed:
        w: "Tensor[(3,"  # noqa: F722

        def forward(self, x: T):
            return x

    with pytest.raises(CompileError, match="never closed"):
        _ = Unclosed().module
