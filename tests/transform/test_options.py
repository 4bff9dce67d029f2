"""Options of passes: of the kind that the field says, for every pass that there is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from legato.base.errors import CompileError
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.transform import function_pass, module_pass, show_pass, table
from legato.transform._options import Option, options
from legato.transform.convert_layout import ConvertLayout
from legato.transform.fuse import Fuse
from legato.transform.legalize import Legalize
from legato.transform.rematerialize import Rematerialize

OPTIONS = [(of, option) for of in table().values() for option in options(of).values()]
WRONG: dict[Any, list[Any]] = {
    bool: [1, "true", None, ()],
    int: [1.5, "1", None, (1,), True],
    float: ["1", None, (1.0,), True, 10**400],
    str: [1, None, ("a",), b"a"],
    tuple: ["abc", 3, {"a"}, None, (None,), ([],)],
    frozenset: ["abc", 3, None, {None}, ([],), {"a": 1}.values()],
}


@pytest.mark.parametrize(("of", "option"), OPTIONS, ids=lambda x: getattr(x, "name", None))
def test_a_value_of_another_kind_is_one_error(of: Any, option: Option) -> None:
    for value in WRONG[option.whole or option.kind]:
        with pytest.raises(CompileError, match=f"option {option.name} of pass {of.name}: got .*, wanted "):
            of(**{option.field: value})


def test_values_have_the_form_of_their_fields() -> None:
    step = Fuse(max_ops=np.int64(3))  # type: ignore[arg-type]
    assert show_pass(step) == "fuse{max-ops=3}"
    assert type(step.max_ops) is int
    assert show_pass(Rematerialize(extra=1)) == "rematerialize{extra=1.0}"
    assert Legalize(skip=["exp"]) == Legalize(skip=frozenset({"exp"}))  # type: ignore[arg-type]
    assert ConvertLayout(["nn.conv2d:NHWC"]) == ConvertLayout()  # type: ignore[arg-type]


def same(func: Function, mod: Module, *, times: int = 2, names: tuple[str, ...] = ()) -> Function:
    """Nothing."""
    return func


class Same:
    """Nothing, as an object."""

    def __call__(self, func: Function, mod: Module, *, times: int = 2) -> Function:
        return func


def test_options_of_functions_are_checked_as_well() -> None:
    with pytest.raises(CompileError, match="option times of pass same: got '3', wanted an integer"):
        replace(function_pass(same), times="3")  # type: ignore[call-arg]  # an option


def test_partial_functions_and_objects_are_passes() -> None:
    assert show_pass(function_pass(partial(same, times=4))) == "same"
    assert function_pass(partial(same, times=4)).times == 4  # type: ignore[attr-defined]  # an option
    bound = function_pass(partial(lambda func, mod, which: func, which=3), name="bound")  # type: ignore[call-overload]
    assert show_pass(bound) == "bound"
    assert show_pass(replace(function_pass(name="object")(Same()), times=3)) == "object{times=3}"  # type: ignore[call-arg]


def unknown(func: Any, mod: Any, *, k: Nothing = 3) -> Any:  # type: ignore[name-defined]  # noqa: F821
    """A type that there is not."""


def unread(func: Any, mod: Any, *, k: "tuple[int" = ()) -> Any:  # type: ignore  # noqa: F722
    """A type that is none."""


def unwritten(func: Any, mod: Any, *, k: dict[str, int] | None = None) -> Any:
    """A type that no option has."""


def wrong(func: Any, mod: Any, *, k: int = "a") -> Any:  # type: ignore[assignment]
    """A default of another type."""


@pytest.mark.parametrize("made", [function_pass, module_pass])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (3, "3 is no function"),
        (Same, "the class Same is no function"),
        (Same(), "None is no name of a pass"),
        (max, "pass max: its parameters cannot be looked up"),
        (unknown, "pass unknown: its parameters cannot be looked up: name 'Nothing'"),
        (unread, "pass unread: its parameters cannot be looked up"),
        (unwritten, "option k of pass unwritten has the type"),
        (wrong, "option k of pass wrong: got 'a', wanted an integer"),
    ],
)
def test_what_no_pass_can_be_made_of(made: Any, function: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        made(function)


def test_names_and_rounds_of_other_kinds() -> None:
    with pytest.raises(CompileError, match="3 is no name of a pass"):
        function_pass(name=3)(same)  # type: ignore[call-overload]
    with pytest.raises(CompileError, match="rounds is 3, wanted True or False"):
        function_pass(rounds=3)(same)  # type: ignore[call-overload]
