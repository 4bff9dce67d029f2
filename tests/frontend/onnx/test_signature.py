"""Converters by operator: found without importing all of them, and the same ones."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from typing import Any

import pytest
from onnx import helper

from legato.base.errors import ImportModelError
from legato.frontend.onnx.initializers import Elements
from legato.frontend.onnx.signature import find, signature, table

LOOK_UP = """
import sys
from legato.frontend.onnx.initializers import Elements
from legato.frontend.onnx.signature import find
print(find("", "Conv", 13).__name__, sum(".onnx.operators." in m for m in sys.modules))
"""


def test_every_converter_is_found() -> None:
    for (domain, operator), versions in table().items():
        assert [since for since, _ in versions] == sorted((since for since, _ in versions), reverse=True)
        assert all(find(domain, operator, since) is converter for since, converter in versions)
        assert find(domain, operator.upper(), versions[-1][0]) is versions[-1][1]
        assert find(domain, operator, versions[-1][0] - 1) is None
    assert find("", "Nonsense", 13) is None
    assert find("nobody.knows", "Conv", 13) is None


def test_a_look_up_imports_little() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK_UP], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["conv", "1"]


def test_what_is_on_or_off_is_1_or_0() -> None:
    flags = [(signature(f), name) for versions in table().values() for _, f in versions
             for name, (kind, _) in signature(f).attributes.items() if kind is bool]  # fmt: skip
    assert {"keepdims", "transA", "ceil_mode", "largest"} <= {name for _, name in flags}
    for found, name in flags:
        given = {other: helper.make_attribute(other, 0) for other, (_, default) in found.attributes.items()
                 if other != name and default is inspect.Parameter.empty}  # fmt: skip
        for number in (2, -1):
            with pytest.raises(ImportModelError, match=f"{name} of It is {number}, wanted 0 or 1"):
                found.convert({name: helper.make_attribute(name, number), **given}, "It", Elements(None))


LONG = {"group_query_attention"}  # two kinds of cache, and what each part of the attention may leave out


def test_converters_are_short() -> None:
    """25 lines without the signature, which is as long as the standard's is. What is longer is several ideas."""
    converters = {function for versions in table().values() for _, function in versions}
    assert len(converters) > 300
    assert {function.__name__ for function in converters if _lines(function) > 25} == LONG


def _lines(function: Any) -> int:
    (node,) = ast.parse(inspect.getsource(function)).body
    assert isinstance(node, ast.FunctionDef)
    return (node.body[-1].end_lineno or 0) - node.body[0].lineno + 1
