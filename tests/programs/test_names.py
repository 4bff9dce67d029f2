"""Functions, variables, data types and constructors may have any name that is text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato import relay
from legato.base.errors import LegatoError, ParseError
from legato.interp import evaluate
from tests.programs.returning import check_returning
from tests.programs.settings import examples
from tests.programs.values import same

ODD = ['a"b', "a\\41", "a\0b", "", 'main"', "é", "💥", "memcpy", "llvm.trap", "kernel", "$41$", "a\nb", " ", "/*",
       "//x", "0", "let", "Tensor", "inff", "../x", "%x", "\x1b[0m", "\u2028", "x" * 300]  # fmt: skip
INT = relay.TensorType((), "int32")


def module(names: list[str]) -> relay.IRModule:
    """Functions that call themselves, with variables and constructors, called by `names`."""
    functions, total = {}, relay.const(0)
    main = relay.var("main", INT)
    for n, name in enumerate(names):
        gv, x, y = relay.GlobalVar(name), relay.var(name, INT), relay.var(name, INT)
        again = relay.Call(gv, [x + relay.const(n + 1)])
        body = relay.Let(y, relay.If(x < relay.const(9), again, x), y + relay.const(1))
        functions[gv] = relay.Function([x], body, INT)
        total = total + relay.Call(gv, [main])
    functions[relay.GlobalVar("main")] = relay.Function([main], total)
    types = {}
    for n, name in enumerate(dict.fromkeys(names)):
        header = relay.GlobalTypeVar(name + "T")
        types[header] = relay.TypeData(header, [], [relay.Constructor(f"{name}{n}", [INT], header)])
    return relay.transform.InferType()(relay.IRModule(functions, types))


@examples(20)
@given(st.lists(st.text(max_size=8) | st.sampled_from(ODD), max_size=6, unique=True))
def test_names_come_back(names: list[str]) -> None:
    check_returning(module([n for n in names if n != "main"]).module)


def test_functions_of_odd_names_are_compiled(tmp_path: Path) -> None:
    mod = module(ODD)
    check_returning(mod.module)
    executable = legato.compile(mod, threads=1)
    executable.save(tmp_path / "names.legato")
    wanted = evaluate(mod.module, [np.array(3, np.int32)])
    for each in (executable, legato.load(tmp_path / "names.legato")):
        assert same(each(np.array(3, np.int32)), wanted)


def test_half_a_character_is_no_text(tmp_path: Path) -> None:
    """UTF-8 has no form for it: refused where it is read, else where it is written or compiled."""
    mod = module(["\ud800"])
    for use in (legato.compile, lambda m: legato.parse(m.astext()), lambda m: relay.load_json(relay.save_json(m))):
        with pytest.raises(LegatoError, match="half a character"):
            use(mod)
    with pytest.raises(ParseError, match="half a character"):
        legato.parse('def @main(%"\\ud800": int32) { 1 }')
