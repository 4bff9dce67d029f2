"""One operator in one file, one pass in one file: a script of a user's own, run from a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.dtype import float32, float64
from legato.base.errors import CompileError, ParseError, RunError
from legato.interp import evaluate
from legato.ir.op import Relation
from legato.ir.packed import OUTSIDE
from legato.ir.records import require_record
from legato.ir.types import TensorType, Type
from legato.ops import table
from legato.te.tensor import compute
from legato.tir.expr import cast
from tests.extension.own_operator import TEXT, median, squareplus

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tests" / "extension" / "own_operator.py"


def test_a_script_outside_the_package(tmp_path: Path) -> None:
    script = shutil.copy(SCRIPT, tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-W", "error", script, tmp_path]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["builder", "text", "onnx", "median"]


def test_an_operator_that_was_not_given() -> None:
    with pytest.raises(ParseError, match=r"my\.squareplus"):
        legato.parse(TEXT)


def test_an_artifact_whose_operator_was_not_given(tmp_path: Path) -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(3,), float32]) { my.median(%x) }'
    legato.compile(legato.parse(text, ops=[median]), ops=[median]).save(tmp_path / "m.legato")
    exe = legato.load(tmp_path / "m.legato")
    with pytest.raises(RunError, match=r"operator my\.median failed") as error:
        exe(np.ones(3, np.float32))
    assert "hint: load it with ops=[…]" in str(error.value)


def test_a_name_that_is_taken() -> None:
    with pytest.raises(CompileError, match="an operator called 'tanh' exists already"):
        legato.parse(TEXT, ops=[replace(squareplus, name="tanh")])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"name": "my squareplus"}, "an operator is called 'my squareplus'"),
        ({"args": "data"}, "my.squareplus: args is 'data', wanted a tuple of names"),
        ({"args": ("*data", "weight")}, "my.squareplus: args is ('*data', 'weight'), wanted a tuple of names"),
        ({"args": ("data", "*data")}, "my.squareplus: args is ('data', '*data'), wanted a tuple of names"),
        ({"attrs": dict}, "my.squareplus: attrs is <class 'dict'>, wanted a class"),
        ({"reference": None}, "my.squareplus: reference is None, wanted a function (data, attrs)"),
        ({"type_rel": 3}, "my.squareplus: type_rel is 3, wanted a function (relation, data, attrs)"),
        ({"reference": lambda x: x}, "my.squareplus: reference cannot be called with (data, attrs)"),
        ({"compute": lambda x, attrs: x}, "my.squareplus: compute cannot be called with (data, attrs, out)"),
        ({"grad": lambda call, dy: [dy]}, "my.squareplus: grad cannot be called with (builder, call, dy)"),
        ({"expand": 3}, "my.squareplus: expand is 3, wanted a function (builder, data, attrs)"),
    ],
)
def test_records_that_are_none(change: dict[str, Any], text: str) -> None:
    with pytest.raises(CompileError) as caught:
        legato.parse(TEXT, ops=[replace(squareplus, **change)])
    assert caught.value.message == text


def test_records_of_the_package_are_records() -> None:
    """Their attributes are classes of the package's own decorator, which users may take as well."""
    records = (*table().values(), *OUTSIDE)
    assert list(map(require_record, records)) == list(records)


def test_what_is_no_operator_and_two_of_a_name() -> None:
    with pytest.raises(CompileError, match="3 among the operators"):
        legato.parse(TEXT, ops=[3])  # type: ignore[list-item]
    with pytest.raises(CompileError, match=r"two operators are called 'my\.squareplus'"):
        legato.parse(TEXT, ops=[squareplus, replace(squareplus)])
    legato.parse(TEXT, ops=[squareplus, squareplus])


MEDIAN = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(n, 4), float32]) { tanh(my.median(%x)) }'
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_an_operator_that_the_module_has_is_known() -> None:
    exe = legato.compile(legato.parse(MEDIAN, ops=[median]))
    np.testing.assert_allclose(np.asarray(exe(X)), np.tanh(np.median(X, axis=1)), rtol=1e-6)
    with pytest.raises(CompileError, match=r"two operators are called 'my\.median'"):
        legato.compile(legato.parse(MEDIAN, ops=[median]), ops=[replace(median)])


@pytest.mark.parametrize(
    ("loops", "text"),
    [
        (lambda x, out: compute((2,), lambda i: x[i, 0]), "Tensor[(2,), float32]"),
        (lambda x, out: compute((x.shape[0], 1), lambda i, j: x[i, j]), "Tensor[(n, 1), float32]"),
        (lambda x, out: compute(out.shape, lambda i: cast(x[i, 0], float64)), "Tensor[(n,), float64]"),
        (lambda x, out: (compute(out.shape, lambda i: x[i, 0]),), "(Tensor[(n,), float32])"),
        (lambda x, out: None, "None"),
    ],
)
def test_loops_of_another_type_than_the_relation_says(loops: Any, text: str) -> None:
    """Code would leave elements of the result as they happen to be, or write past it."""
    op = replace(median, compute=loops)
    with pytest.raises(CompileError) as caught:
        legato.compile(legato.parse(MEDIAN, ops=[op]))
    assert caught.value.message == f"my.median: its compute gives {text}, its relation says Tensor[(n,), float32]"


def test_relations_that_give_no_type() -> None:
    shape: Any = lambda relation, data: (3,)  # noqa: E731
    with pytest.raises(CompileError, match=r"my\.median: its relation gives \(3,\), wanted a type"):
        legato.parse(MEDIAN, ops=[replace(median, type_rel=shape)])


def test_references_of_another_dtype_than_the_relation_says() -> None:
    mod = legato.parse(MEDIAN, ops=[replace(median, reference=lambda x: np.median(x, axis=1).astype(np.float64))])
    with pytest.raises(RunError, match=r"my\.median: its reference gives float64, wanted float32"):
        evaluate(mod, [X])


def test_an_operator_of_one_dtype_is_verified_in_it() -> None:
    def typed(relation: Relation, data: Type) -> Type:
        if not isinstance(data, TensorType) or data.dtype != float32:
            raise relation.fail("takes float32")
        return TensorType(data.shape[:1], data.dtype)

    mod = legato.parse(MEDIAN, ops=[replace(median, type_rel=typed)])
    assert legato.verify(mod, [X])
