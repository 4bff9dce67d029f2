"""Messages write options as Python's functions have them and, under the command line, as it has them."""

from __future__ import annotations

from typing import Any

import pytest

from legato.base.spelling import ELLIPSIS, command_line, converters, option, written

WRITTEN: list[tuple[tuple[str, str, Any], str, str]] = [
    (("shapes", "x", (1, None, "w:32..960")), "shapes={'x': (1, None, 'w:32..960')}", "--shape x=1,?,w:32..960"),
    (("shapes", "x", ("n",)), "shapes={'x': ('n',)}", "--shape x=n"),
    (("shapes", "n", [1, 8, "1..512"]), "shapes={'n': [1, 8, '1..512']}", "--shape n=1,8,1..512"),
    (("shapes", "xs", [(2,), (3,)]), "shapes={'xs': [(2,), (3,)]}", "in Python, shapes={'xs': [(2,), (3,)]}"),
    (("constants", "k", ELLIPSIS), "constants={'k': …}", "--constant k=…"),
    (("dims", "n", 8), "dims={'n': 8}", "--dim n=8"),
    (("custom", "my::Op", ELLIPSIS), "custom={'my::Op': …}", "in Python, custom={'my::Op': …}"),
]


@pytest.mark.parametrize(("given", "python", "cli"), WRITTEN)
def test_a_value_of_an_option(given: tuple[str, str, Any], python: str, cli: str) -> None:
    assert written(*given) == python
    with command_line():
        assert written(*given) == cli
    assert written(*given) == python


def test_an_option() -> None:
    assert (option("shapes"), option("shapes", "x")) == ("shapes", "shapes['x']")
    with command_line():
        assert (option("shapes"), option("shapes", "x")) == ("--shape", "--shape x")


def test_converters_of_operators() -> None:
    assert converters(["a::b", "c", "a::b"]) == 'custom={"a::b": function, "c": function}'
    many = converters(["a", "b", "c", "d"], "from_onnx")
    assert many == 'from_onnx(…, custom={"a": function, "b": function, "c": function, …})'
    with command_line():
        assert converters(["a"], "from_onnx") == '--ops FILE.py that has custom = {"a": function}'
