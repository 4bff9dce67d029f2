"""A cursor over tokens: what every hand-written parser here needs."""

from __future__ import annotations

from legato.base.errors import ParseError
from legato.base.lexer import Lines, Source, Token, tokenize, unquote
from legato.base.span import Span

__all__ = ["TokenStream"]

_NAMES = {"ident": "a name", "local": "a %variable", "global": "a @function", "int": "an integer",
          "float": "a number", "string": "a string", "eof": "the end of the text"}  # fmt: skip


class TokenStream:
    """The tokens of a text with a position. A word or symbol is tested by its text: `at("let")`, `accept(",")`."""

    def __init__(self, text: str, source_name: str = "<text>", *, arithmetic: bool = False) -> None:
        self.source = Source(text, source_name)
        self.tokens = tokenize(self.source, arithmetic=arithmetic)
        self.pos = 0
        self._last = len(self.tokens) - 1
        self._lines = Lines(self.source)

    def peek(self, ahead: int = 0) -> Token:
        """The token `ahead` of the current one; eof past the end."""
        index = self.pos + ahead
        return self.tokens[index if index < self._last else self._last]

    def next(self) -> Token:
        """The current token; moves on."""
        token = self.peek()
        self.pos += 1
        return token

    def at(self, *texts: str, ahead: int = 0) -> bool:
        """True if the token is one of these words or symbols."""
        token = self.peek(ahead)
        return token.text in texts and token.kind in ("ident", "punct")

    def at_kind(self, *kinds: str, ahead: int = 0) -> bool:
        """True if the token is of one of these kinds."""
        return self.peek(ahead).kind in kinds

    def accept(self, *texts: str) -> Token | None:
        """The current token if it is one of these words or symbols (and moves on), else None."""
        return self.next() if self.at(*texts) else None

    def expect(self, text: str) -> Token:
        """The current token, which must be this word or symbol; moves on."""
        if not self.at(text):
            raise self.unexpected(f"`{text}`")
        return self.next()

    def expect_kind(self, kind: str, wanted: str | None = None) -> Token:
        """The current token, which must be of this kind; moves on."""
        if self.peek().kind != kind:
            raise self.unexpected(wanted or _NAMES[kind])
        return self.next()

    def string(self) -> str:
        """The text of the string literal that must come next; moves on."""
        return unquote(self.source, self.expect_kind("string"))

    def unexpected(self, wanted: str, hint: str | None = None) -> ParseError:
        """The error that the current token is not what the grammar wants."""
        token = self.peek()
        got = "the end of the text" if token.kind == "eof" else f"`{self.source.text[token.start : token.end]}`"
        return self.error(f"expected {wanted}, got {got}", hint=hint)

    def error(self, message: str, token: Token | None = None, hint: str | None = None) -> ParseError:
        """A ParseError that points at `token` (default: the current one)."""
        at = token or self.peek()
        return self.source.error(message, at.start, at.end, hint=hint)

    def span(self, first: Token, last: Token | None = None) -> Span:
        """The place from `first` to `last` (default: to the token read last)."""
        end = (last or self.tokens[max(0, self.pos - 1)]).end
        return self._lines.span(first.start, max(end, first.end))
