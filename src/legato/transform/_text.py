"""Passes as text: their names, with options in braces, in the order in which they run.

    fold-constant, fuse{max-ops=32}, legalize{skip=[nn.dense, "exp"], groups=true}

Options are the fields of the pass, with hyphens; those that are left out have their defaults. Values are numbers,
`true` and `false`, strings (in quotes, or names with dots), and lists of these in square brackets.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.base.lexer import Token, number, quote
from legato.base.tokens import TokenStream
from legato.transform._decorators import MadePass
from legato.transform._options import Option, options
from legato.transform._table import table
from legato.transform.pass_ import Pass

__all__ = ["read_passes", "show_pass", "show_value", "summary"]


def summary(of: type[Pass]) -> str:
    """What a pass does: the first paragraph of its file, or of the function that it is made of, in one line; empty
    where Python keeps no docstrings."""
    text = (of.__doc__ if issubclass(of, MadePass) else sys.modules[of.__module__].__doc__) or ""
    return " ".join(text.strip().partition("\n\n")[0].split())


def show_pass(step: Pass) -> str:
    """A pass as `read_passes` reads it, without the options that have their defaults."""
    values = [(o, getattr(step, o.field)) for o in options(type(step)).values()]
    given = ", ".join(f"{o.name}={show_value(value)}" for o, value in values if value != o.default)
    return f"{step.name}{{{given}}}" if given else step.name


def show_value(value: Any) -> str:
    """The value of an option as text."""
    if isinstance(value, list | tuple | frozenset):
        items = sorted(value) if isinstance(value, frozenset) else value
        return f"[{', '.join(map(show_value, items))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quote(value) if isinstance(value, str) else repr(value)


def read_passes(
    text: str,
    lists: Mapping[str, Sequence[Pass]] = MappingProxyType({}),
    own: Mapping[str, type[Pass]] = MappingProxyType({}),
) -> tuple[Pass, ...]:
    """The passes that `text` names; the name of one of `lists` stands for its passes, and `own` are passes beside those
    of the table.

    ParseError, with the place, for a text of another form, for a pass or option that there is not, an option that is
    given twice, and a value that is of another kind than the option has, or that the pass refuses.
    """
    return _Reader(TokenStream(text, "<passes>"), lists, {**table(), **own}).read()


@dataclass(frozen=True, slots=True)
class _Reader:
    stream: TokenStream
    lists: Mapping[str, Sequence[Pass]]
    known: Mapping[str, type[Pass]]

    def read(self) -> tuple[Pass, ...]:
        """All passes of the text."""
        found = list(self.item())
        while self.stream.accept(","):
            found += self.item()
        self.stream.expect_kind("eof", "`,` or the end of the text")
        return tuple(found)

    def item(self) -> Sequence[Pass]:
        """A pass, or those of a list."""
        name = self.name("the name of a pass")
        if name.text in self.lists:
            if self.stream.at("{"):
                raise self.stream.error(f"{name.text} is a list of passes, which has no options")
            return self.lists[name.text]
        if name.text not in self.known:
            names = (*self.known, *self.lists)
            from difflib import get_close_matches  # only for mistakes

            close = get_close_matches(name.text, names, 3)
            hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names)}"
            raise self.stream.error(f"there is no pass {name.text}", name, hint)
        given = self.given(self.known[name.text])
        try:
            return [self.known[name.text](**given)]
        except CompileError as error:  # the pass refuses values
            raise self.stream.error(f"pass {name.text}: {error.message}", name, error.hint) from error

    def given(self, of: type[Pass]) -> dict[str, Any]:
        """The options in braces, by field."""
        found: dict[str, Any] = {}
        if not self.stream.accept("{") or self.stream.accept("}"):
            return found
        known = options(of)
        while True:
            name = self.name("the name of an option")
            if name.text not in known:
                hint = f"its options are {', '.join(known)}" if known else "it has none"
                raise self.stream.error(f"pass {of.name} has no option {name.text}", name, hint)
            option = known[name.text]
            if option.field in found:
                raise self.stream.error(f"option {name.text} of pass {of.name} is given twice", name)
            self.stream.expect("=")
            found[option.field] = self.value(of, option)
            if not self.stream.accept(","):
                self.stream.expect("}")
                return found

    def name(self, wanted: str) -> Token:
        """A name with hyphens, as one token."""
        first = last = self.stream.expect_kind("ident", wanted)
        while self.stream.at("-"):
            self.stream.next()
            last = self.stream.expect_kind("ident", wanted)
        return first._replace(text=self.stream.source.text[first.start : last.end], end=last.end)

    def value(self, of: type[Pass], option: Option) -> Any:
        """The value of an option, as its field has it."""
        first = self.stream.peek()
        found = self.items() if self.stream.accept("[") else self.scalar()
        try:
            return option.converted(found)
        except TypeError:
            end = self.stream.tokens[self.stream.pos - 1].end
            message = f"option {option.name} of pass {of.name}: got {show_value(found)}, wanted {option.wanted}"
            raise self.stream.error(message, first._replace(end=end)) from None

    def items(self) -> list[Any]:
        """The values in square brackets, the first of which has been read."""
        found: list[Any] = []
        while not self.stream.accept("]"):
            if found:
                self.stream.expect(",")
            found.append(self.scalar())
        return found

    def scalar(self) -> Any:
        """A number, a truth value or a string."""
        sign = -1 if self.stream.accept("-") else 1
        if self.stream.at_kind("int", "float"):
            value, dtype = number(self.stream.peek())
            if dtype is not None:
                raise self.stream.unexpected("a number without a dtype")
            self.stream.next()
            return sign * value
        if sign < 0 or not self.stream.at_kind("ident", "string"):
            raise self.stream.unexpected("a number" if sign < 0 else "a value")
        if self.stream.at_kind("string"):
            return self.stream.string()
        word = self.stream.next().text
        return {"true": True, "false": False}.get(word, word)
