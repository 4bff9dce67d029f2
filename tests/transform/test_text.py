"""Passes as text: what is written is read, and exact messages for what is not."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from legato import transform
from legato.base.errors import CompileError, InternalError, ParseError, UnsupportedError
from legato.ir.module import Module
from legato.pipelines import BY_PRECISION
from legato.transform import table
from legato.transform._options import Option, options
from legato.transform._text import read_passes, show_pass, summary
from legato.transform.fold_constant import FoldConstant
from legato.transform.fuse import Fuse
from legato.transform.legalize import Legalize
from legato.transform.pass_ import Pass

OTHER: dict[Any, Any] = {bool: True, int: -7, float: 2.5e-9, str: 'a "b" \\'}


@dataclass(frozen=True, slots=True)
class Plenty(Pass):
    """A pass with options of all kinds."""

    name = "plenty"
    share: float = 0.5
    title: str = "none"
    exact: bool = True
    axes: tuple[int, ...] = ()
    kept: frozenset[str] = frozenset({"exp"})

    def check_options(self) -> None:
        if not self.exact and self.share < 0:
            raise UnsupportedError("no share of less than nothing", hint="take more")

    def __call__(self, mod: Module) -> Module:
        return mod


@dataclass(frozen=True, slots=True)
class Strange(Pass):
    name = "strange"
    of: object = None

    def __call__(self, mod: Module) -> Module:
        return mod


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has `Plenty` as well."""
    found = MappingProxyType({**table(), "plenty": Plenty})
    monkeypatch.setattr("legato.transform._text.table", lambda: found)


def changed(option: Option) -> Any:
    """A value of the option that is not its default."""
    if option.whole is not None:
        return option.whole([OTHER[option.kind]] * 2)
    return not option.default if option.kind is bool else OTHER[option.kind]


def test_every_file_has_its_pass() -> None:
    files = {p.stem for p in Path(transform.__file__).parent.glob("[a-z]*.py")} - {"pass_"}
    assert {stem.replace("_", "-") for stem in files} == set(table())
    assert all(summary(of) for of in table().values())


def test_what_is_written_is_read(known: None) -> None:
    for of in (*table().values(), Plenty):
        other = {option.field: changed(option) for option in options(of).values()}
        for values in ({}, other, *({field: value} for field, value in other.items())):
            with suppress(CompileError):  # the pass refuses them
                step = of(**values)
                assert read_passes(show_pass(step)) == (step,)
    for steps in BY_PRECISION.values():
        assert read_passes(", ".join(map(show_pass, steps))) == steps


def test_forms(known: None) -> None:
    assert read_passes(" fold-constant ,\nfuse { max-ops = 32 } ") == (FoldConstant(), Fuse(max_ops=32))
    assert read_passes('fuse{}, legalize{skip=[nn.dense, "exp"]}') == (Fuse(), Legalize(frozenset({"nn.dense", "exp"})))
    assert read_passes("plenty{share=1, axes=[-1, 2]}") == (Plenty(1.0, axes=(-1, 2)),)
    assert read_passes("fuse,few,fuse", {"few": (FoldConstant(), Fuse())}) == (Fuse(), FoldConstant(), Fuse(), Fuse())
    assert show_pass(Fuse(max_row=8)) == "fuse{max-row=8}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the name of a pass, got the end of the text"),
        ("fuse,", "expected the name of a pass, got the end of the text"),
        ("fuse fuse", "expected `,` or the end of the text, got `fuse`"),
        ("fold-constants", "there is no pass fold-constants\n  at <passes>:1:1\n  | fold-constants\n"
         "  | ^^^^^^^^^^^^^^\n  hint: did you mean fold-constant?"),
        ("fuse, xyzzy", "there is no pass xyzzy\n  at <passes>:1:7\n  | fuse, xyzzy\n  |       ^^^^^\n"
         f"  hint: there are {', '.join(table())}, plenty, few"),
        ("fuse{max_ops=3}", "pass fuse has no option max_ops\n  at <passes>:1:6\n  | fuse{max_ops=3}\n"
         "  |      ^^^^^^^\n  hint: its options are max-ops, max-mixed, max-row, max-reads"),
        ("simplify{a=1}", "pass simplify has no option a\n  at <passes>:1:10\n  | simplify{a=1}\n"
         "  |          ^\n  hint: it has none"),
        ("fuse{max-ops=1, max-ops=2}", "option max-ops of pass fuse is given twice\n  at <passes>:1:17\n"),
        ("few{a=1}", "few is a list of passes, which has no options"),
        ("fuse{max-ops}", "expected `=`, got `}`"),
        ("fuse{max-ops=}", "expected a value, got `}`"),
        ("fuse{max-ops=-a}", "expected a number, got `a`"),
        ("fuse{max-ops=3i64}", "expected a number without a dtype, got `3i64`"),
        ("fuse{max-ops=3", "expected `}`, got the end of the text"),
        ("fuse{max-ops=true}", "option max-ops of pass fuse: got true, wanted an integer\n  at <passes>:1:14\n"
         "  | fuse{max-ops=true}\n  |              ^^^^"),
        ("fuse{max-ops=1.0}", "option max-ops of pass fuse: got 1.0, wanted an integer"),
        ("fold-constant{flush=1}", "option flush of pass fold-constant: got 1, wanted true or false"),
        ("legalize{skip=exp}", 'option skip of pass legalize: got "exp", wanted a list of strings'),
        ("legalize{skip=[exp, 1]}", 'option skip of pass legalize: got ["exp", 1], wanted a list of strings'),
        ("legalize{skip=[exp,]}", "expected a value, got `]`"),
        ("plenty{title=true}", "option title of pass plenty: got true, wanted a string"),
        ("plenty{share=a}", 'option share of pass plenty: got "a", wanted a number'),
        (f"plenty{{share={10**350}}}", f"option share of pass plenty: got {10**350}, wanted a number"),
        ("plenty{exact=false, share=-1}", "pass plenty: no share of less than nothing\n  at <passes>:1:1\n"
         "  | plenty{exact=false, share=-1}\n  | ^^^^^^\n  hint: take more"),
        ("plenty{axes=[[1]]}", "expected a value, got `[`"),
    ],
)  # fmt: skip
def test_wrong_texts(text: str, message: str, known: None) -> None:
    with pytest.raises(ParseError) as error:
        read_passes(text, {"few": (Fuse(),)})
    assert str(error.value).startswith(f"parse error: {message}")


def test_values_that_cannot_be_written() -> None:
    with pytest.raises(InternalError, match="option of of pass strange has values that cannot be written"):
        options(Strange)
