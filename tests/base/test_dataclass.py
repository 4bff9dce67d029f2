"""Data classes whose methods are made late: the same as the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import weakref
from dataclasses import FrozenInstanceError, field, replace
from itertools import product
from typing import Any

import pytest

from legato.base import dataclass as late

OPTIONS = [
    {"frozen": frozen, "eq": eq, "slots": slots, "repr": shown}
    for frozen, eq, slots, shown in product([False, True], repeat=4)
]


def classes(decorator: Any, options: dict[str, bool]) -> tuple[type[Any], ...]:
    """Defaults, factories, keywords, fields that are compared or shown in other ways, inheritance, own methods."""

    @decorator(**options)
    class Point:
        """A point."""

        x: int
        y: list[int] = field(default_factory=list, compare=False)

        @property
        def double(self) -> int:
            return 2 * self.x

    @decorator(**options)
    class Named(Point):
        """A point with a name."""

        name: str = field(default="p", kw_only=True)
        secret: int = field(default=7, repr=False, hash=False)
        count: int = field(default=0, init=False)
        parts: tuple[int, ...] = field(default_factory=tuple, init=False)

    @decorator(**options)
    class Own:
        """Its own equality, text and check."""

        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

        def __repr__(self) -> str:
            return "own"

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("below zero")

    @decorator(**options)
    class Empty:
        """Nothing."""

    return Point, Named, Own, Empty


def outcome(action: Any) -> Any:
    """What it gives, or how it fails."""
    try:
        return action()
    except (AttributeError, TypeError, ValueError) as error:
        return type(error), str(error).replace("classes.<locals>.", "").replace("__init__()", "")


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(k for k, v in o.items() if v))
def test_as_the_standard_library_has_it(options: dict[str, bool]) -> None:
    def seen(decorator: Any) -> list[Any]:
        point, named, own, empty = classes(decorator, options)
        a, b = point(1, [2]), named(3, name="q")
        return [
            *(str(inspect.signature(c)) for c in (point, named, own)),
            *(c.__match_args__ for c in (point, named, own, empty)),
            *(tuple(f.name for f in dataclasses.fields(c)) for c in (point, named, own, empty)),
            outcome(lambda: point()), outcome(lambda: named(1, 2, 3, 4)), outcome(lambda: own(-1)),
            (a.x, a.y, a.double), (b.x, b.y, b.name, b.secret, b.count, b.parts), point(1).y is point(1).y,
            *(None if not options["repr"] else repr(x) for x in (a, b, own(1), empty())),
            a == point(1, [3]), a == point(2, [2]), a == b, b == named(3, name="q", secret=8), own(1) == 3,
            empty() == empty(), point.__hash__ is None, hash(own(1)),
            outcome(lambda: hash(a) == hash(point(1))) if options["eq"] else None,
            outcome(lambda: hash(b) == hash(named(3, [4], secret=9, name="q"))) if options["eq"] else None,
            outcome(lambda: setattr(a, "x", 5)), outcome(lambda: delattr(named(1), "name")), a.x,
            outcome(lambda: setattr(named(1), "other", 5)) if not options["slots"] else None,
            replace(b, x=9).x, replace(b, x=9).name, outcome(lambda: replace(b, count=1)),
            (copy.copy(b).x, copy.deepcopy(b).name), dataclasses.asdict(b), hasattr(a, "__dict__"),
        ]  # fmt: skip

    for got, wanted in zip(seen(late.dataclass), seen(dataclasses.dataclass), strict=True):
        assert got == wanted


def test_a_plain_class_that_inherits_may_have_attributes_of_its_own() -> None:
    point, *_ = classes(late.dataclass, {"frozen": True})

    one = type("Painted", (point,), {})(1)
    one.colour = "red"
    assert (one.colour, one.x) == ("red", 1)
    with pytest.raises(FrozenInstanceError):
        one.x = 2


@late.dataclass(frozen=True, slots=True, weakref_slot=True)
class Known:
    """At the top of a module: pickle finds it."""

    x: int
    y: str = "y"


def test_pickle_match_and_weak_references() -> None:
    one = Known(1)
    assert pickle.loads(pickle.dumps(one)) == one
    assert weakref.ref(one)() is one
    match one:
        case Known(x, y):
            assert (x, y) == (1, "y")


def test_methods_are_made_once_when_they_are_asked_for() -> None:
    point, named, *_ = classes(late.dataclass, {"frozen": True, "slots": True})
    assert all(type(vars(c)["__init__"]).__name__ == "_Later" for c in (point, named))
    point(1)
    assert inspect.isfunction(vars(point)["__init__"])
    assert type(vars(named)["__init__"]).__name__ == "_Later"
    assert type(vars(point)["__eq__"]).__name__ == "_Later"
    assert point(1) == point(1)
    assert inspect.isfunction(vars(point)["__eq__"])
    assert vars(point)["__init__"].__qualname__ == point.__qualname__ + ".__init__"
