"""Constants of strings in programs: texts, files and comparisons of programs keep every character."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import legato.script
from legato.base.dtype import dtype
from legato.base.errors import CompileError, ParseError, TypeCheckError
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir._hash import structural_hash
from legato.ir.equal import alpha_equal
from legato.ir.expr import Constant, Function, Tuple, constant
from legato.ir.files import load_json_file, load_text, save_json_file, save_text
from legato.ir.json_load import load_json
from legato.ir.json_save import save_json
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ops import table
from legato.transform.eliminate_common import EliminateCommon

WORDS = ["", "a", 'q"\\\n\t\0', "é 😀", "meta[relay.Constant][0]", "//", "long " * 500]


def _module(*arrays: np.ndarray) -> Module:
    b = Builder()
    x = b.var("x", (2,), "string")
    return infer(Module.from_expr(Function((x,), b.tuple_((x, *(constant(a) for a in arrays))))))


MODULE = _module(
    np.array(WORDS, object), np.array("é", object), np.empty((2, 0, 3), object), np.array([["a", "b"]] * 40)
)


def _through_text(mod: Module) -> Module:
    return infer(parse(str(mod), ops=table()))


def _through_json(mod: Module) -> Module:
    return load_json(save_json(mod), ops=table(), name="t")


def _through_script(mod: Module) -> Module:
    found = legato.script.parse(legato.script.show(mod))
    assert isinstance(found, Module)
    return infer(found)


@pytest.mark.parametrize("through", [_through_text, _through_json, _through_script])
def test_round_trips(through: Callable[[Module], Module]) -> None:
    again = through(MODULE)
    assert alpha_equal(again, MODULE)
    assert structural_hash(again) == structural_hash(MODULE)


def test_files(tmp_path: Path) -> None:
    save_text(MODULE, tmp_path / "m.relay")
    assert alpha_equal(infer(load_text(tmp_path / "m.relay", ops=table())), MODULE)
    save_json_file(MODULE, tmp_path / "m.json")
    assert alpha_equal(load_json_file(tmp_path / "m.json", ops=table()), MODULE)
    assert {p.name for p in tmp_path.iterdir()} == {"m.relay", "m.json"}, "strings need no file beside"


def test_what_differs_is_told() -> None:
    a, b = _module(np.array(["a", "bc"], object)), _module(np.array(["ab", "c"], object))
    assert not alpha_equal(a, b)
    assert structural_hash(a) != structural_hash(b)
    assert alpha_equal(a, _module(np.array(["a", "".join(["b", "c"])])))


def test_equal_constants_are_one() -> None:
    mod = _module(np.array(["a"], object), np.array(["".join(["", "a"])], object), np.array(["b"], object))
    body = EliminateCommon()(mod)["main"].body
    assert isinstance(body, Tuple)
    _, first, second, third = body.fields
    assert first is second is not third


def test_dtypes() -> None:
    for given in ("string", str, object, np.dtype("U3"), np.dtype(object), np.dtypes.StringDType()):
        assert dtype(given) == "string"
    for wrong in (list, bytes, np.dtype("S3")):
        with pytest.raises(TypeCheckError):
            dtype(wrong)


def test_constants_are_arrays_of_str() -> None:
    found = constant(np.array(["a", "b"]))
    assert isinstance(found, Constant)
    assert found.data.dtype == object
    assert not found.data.flags.writeable
    for wrong in (np.array(["a", 1], object), np.array([None]), np.array(["\ud800"], object), np.array([b"a"], object)):
        with pytest.raises(CompileError):
            constant(wrong)


@pytest.mark.parametrize(
    "entry",
    [
        '"data": [1]',
        '"data": ["a", "b", "c"]',
        '"bits": "00"',
        '"data": "ab"',
        '"data": ["\\ud800", "a"]',
        '"data": [null, ""]',
    ],
)
def test_damaged_texts(entry: str) -> None:
    section = f'{{"relay.Constant": [{{"dtype": "string", "shape": [2], {entry}}}]}}'
    text = f"def @main() {{ meta[relay.Constant][0] }}\n#[metadata]\n{section}"
    with pytest.raises(ParseError):
        parse(text, ops=table())


@pytest.mark.parametrize(
    "content", ['"YWI="', '{"strings": ["a"]}', '{"strings": ["a", 1]}', '{"strings": ["a", "\\ud800"]}']
)
def test_damaged_json(content: str) -> None:
    text = save_json(_module(np.array(["a", "b"], object)))
    damaged = text.replace('{"strings": ["a", "b"]}', content).replace('{"strings":["a","b"]}', content)
    assert damaged != text
    with pytest.raises(ParseError):
        load_json(damaged, ops=table(), name="t")
