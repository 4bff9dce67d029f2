"""The pages of operators say what the records say."""

from __future__ import annotations

from dataclasses import fields

from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime

from legato.ir.op import Op
from legato.ops import table
from tools.docs_onnx import onnx_page
from tools.docs_ops import families, meanings, pages, stale


def operators() -> list[Op]:
    return [op for _, ops in families().values() for op in ops]


def test_every_operator_has_a_page() -> None:
    assert sorted(op.name for op in operators()) == list(table())


def test_every_attribute_means_something() -> None:
    """The docstring of a record, or of one that it is made from or names, has `name`: what it means."""
    missing = [
        f"{op.attrs.__name__}.{f.name}"
        for op in operators()
        if op.attrs is not None
        for f in fields(op.attrs)
        if not meanings(op.attrs).get(f.name)
    ]
    assert missing == []


def test_pages_are_current() -> None:
    assert stale(pages()) == [], "python -m tools.docs_ops"


def test_operators_of_onnx_are_spelled_as_models_spell_them() -> None:
    text = onnx_page("").partition("## Not imported")[0]
    shown = {line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")}
    registered = {schema.name for schema in onnxruntime.get_all_operator_schema() if schema.domain == "com.microsoft"}
    by_letters = {name.lower(): name for name in registered}
    wrong = {name: by_letters[name.lower()] for name in shown - registered if name.lower() in by_letters}
    assert {"GatedRMSNorm", "SwiGLU"} < shown
    assert wrong == {}
