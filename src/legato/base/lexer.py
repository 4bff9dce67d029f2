"""Tokens of the text formats: one lexer for modules, loop programs and scalar expressions.

    kind       text                          example
    ident      the (dotted) name             nn.conv2d
    local      the name without %            %x  %0  %conv/weight  %"any text"
    global     the name without @            @main
    int float  the literal with its suffix   3  3i64  1.5f  2e-3f16  inff
    string     the quoted text               "a\\n"
    punct      the symbol                    ->  =>  //  ..
    version    the version                   #[version = "0.0.5"]
    metadata   everything behind the mark    #[metadata] { … }
    eof

Comments are `/* … */`, which nest, and `// …` to the end of the line. In Relay text `//` and `%` mean something else
than in index arithmetic, so the lexer tells the two apart by place:

* Arithmetic text is a function that starts with `kernel @` or `host @` outside all brackets, up to its closing brace,
  or a whole text lexed with `arithmetic=True`. There `//` is floor division, `%` the remainder, `#` starts a comment.
* Elsewhere `//` is floor division, and `%` a remainder, only inside square brackets and directly behind an operand
  (a name, number or closing bracket) on the same line: `Tensor[(n//4, m % 2), float32]`. So dims belong in square
  brackets, and an ordinary Relay text keeps its meaning.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import NamedTuple

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import ParseError
from legato.base.limits import MAX_NAME, MAX_NUMBER, MAX_TEXT, MAX_TOKENS
from legato.base.span import Span

__all__ = ["Source", "Token", "has_half", "number", "quote", "tokenize", "unquote"]


class Token(NamedTuple):
    """A token; `start` and `end` are offsets into the text."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Source:
    """A text with its name, for positions and error messages."""

    text: str
    name: str = "<text>"

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column (1-based) of an offset."""
        return self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)

    def span(self, start: int, end: int) -> Span:
        """The place from `start` up to `end`."""
        return Span(self.name, *self.position(start), *self.position(max(start, end)))

    def line(self, offset: int) -> str:
        """The text of the line that holds an offset."""
        first = self.text.rfind("\n", 0, offset) + 1
        last = self.text.find("\n", offset)
        return self.text[first : len(self.text) if last < 0 else last]

    def error(self, message: str, start: int, end: int, hint: str | None = None) -> ParseError:
        """A ParseError that points at [start, end); it quotes the line unless that is absurdly long."""
        line = self.line(start)
        quoted = line if len(line) <= _QUOTED else None
        return ParseError(message, span=self.span(start, end), hint=hint, source_line=quoted)


class Lines:
    """Offsets to positions in logarithmic time: for parsers that give every node a span."""

    __slots__ = ("_name", "_starts")

    def __init__(self, source: Source) -> None:
        self._name = source.name
        self._starts = [0, *(m.end() for m in re.finditer("\n", source.text))]

    def span(self, start: int, end: int) -> Span:
        """The place from `start` up to `end`."""
        first, last = bisect_right(self._starts, start), bisect_right(self._starts, end)
        return Span(self._name, first, start - self._starts[first - 1] + 1, last, end - self._starts[last - 1] + 1)


_QUOTED = 1000  # characters of a line that an error quotes
# Repeats are possessive (`*+`): nothing is gained by trying fewer, and the engine would keep a note of each.
_NAME = r'[A-Za-z0-9_]+(?:/[A-Za-z0-9_]+)*+|"(?:[^"\\\n]++|\\.)*+"'
_TOKENS = re.compile(
    r"""[ \t\r\n]*
    (?:(?P<version>\#\[\s*version\s*=\s*"[^"\n]*"\s*\])
    |(?P<metadata>\#\[\s*metadata\s*\])
    |(?P<float>(?:inf|nan)(?:bf16|f16|f32|f64|f)\b
              |[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?:bf16|f16|f32|f64|f)(?![A-Za-z0-9_])
              |[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)(?![A-Za-z0-9_]))
    |(?P<int>[0-9]+(?:[iu](?:8|16|32|64)|i)?(?![A-Za-z0-9_]))
    |(?P<ident>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*+)
    |(?P<string>"(?:[^"\\\n]++|\\.)*+")
    |(?P<local>%(?:"""
    + _NAME
    + r"""))
    |(?P<global>@(?:"""
    + _NAME
    + r"""))
    |(?P<open>/\*)
    |(?P<symbol>//|[()\[\]{}\#])
    |(?P<punct>->|=>|==|!=|<=|>=|<<|>>|\.\.|[<>,;:=+\-*/%.?@&|^!])
    |(?P<end>\Z))
    """,
    re.VERBOSE,
)
_PLAIN = frozenset({"ident", "string", "punct"})  # tokens that mean the same everywhere
_NAMES = frozenset({"ident", "local", "global"})
_DIGITS = re.compile(r"[0-9]+")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_OPERAND_ENDS = frozenset(")]")
_OPERANDS = frozenset({"ident", "local", "int", "float"})


def tokenize(source: Source, *, arithmetic: bool = False) -> list[Token]:
    """The tokens of `source`, ended by one of kind eof. ParseError where no token starts, or a limit is passed."""
    if len(source.text) > MAX_TEXT:
        message = f"{source.name} has {len(source.text)} characters, more than the limit of {MAX_TEXT}"
        raise ParseError(message, hint="keep the weights in a file beside the text")
    return _Lexer(source, arithmetic).run()


class _Lexer:
    """The state of one run: the brackets that are open, and whether arithmetic text is being read."""

    def __init__(self, source: Source, arithmetic: bool) -> None:
        self.source = source
        self.text = source.text
        self.tokens: list[Token] = []
        self.whole = arithmetic  # the whole text is arithmetic
        self.arithmetic = arithmetic
        self.open: list[str] = []
        self.squares = 0  # how many of them are square

    def run(self) -> list[Token]:
        text, match, pos = self.text, _TOKENS.match, 0
        add, new = self.tokens.append, tuple.__new__  # Token(…) is new(Token, (…)) and one call more
        for _ in range(MAX_TOKENS + 1):
            found = match(text, pos)
            kind = None if found is None else found.lastgroup
            if found is None or kind is None:
                raise self._stray(pos)
            start, pos = found.span(kind)
            if pos - start > MAX_NAME and kind in _NAMES:
                raise self._long_name(start, pos)
            if kind in _PLAIN:
                add(new(Token, (kind, text[start:pos], start, pos)))
            elif kind == "local" and not self.arithmetic and not self.squares and text[start + 1] != '"':
                add(new(Token, (kind, text[start + 1 : pos], start, pos)))
            elif kind == "symbol":
                pos = self._symbol(text[start:pos], start, pos)
            elif kind == "end":
                add(Token("eof", "", len(text), len(text)))
                return self.tokens
            else:
                pos = self._special(kind, start, pos)
        message = f"the text has more than {MAX_TOKENS} tokens and comments"
        raise self.source.error(message, pos, pos, hint="split the program into several modules")

    def _long_name(self, start: int, end: int) -> ParseError:
        message = f"a name has {end - start} characters, more than the limit of {MAX_NAME}"
        return self.source.error(message, start, start + 1, hint="give it a shorter name")

    def _stray(self, pos: int) -> ParseError:
        pos += len(self.text[pos:]) - len(self.text[pos:].lstrip(" \t\r\n"))
        if self.text[pos] == '"':
            return self.source.error("this string has no end", pos, pos + 1, hint='close it with " on the same line')
        return self.source.error(f"unexpected character {self.text[pos]!r}", pos, pos + 1)

    def _special(self, kind: str, pos: int, end: int) -> int:
        """Reads a token whose form depends on where it stands; returns where the next one starts."""
        text = self.text[pos:end]
        if kind == "open":
            return self._skip_comment(pos)
        if kind == "metadata":
            self.tokens.append(Token(kind, self.text[end:], pos, len(self.text)))
            return len(self.text)
        if kind in ("float", "int") and end - pos > MAX_NUMBER:
            raise self.source.error(f"this number has more than {MAX_NUMBER} characters", pos, end)
        if kind in ("float", "int") and self._after_dot(pos):  # %t.0.1 is two projections
            digits = _DIGITS.match(self.text, pos)
            kind, end = "int", end if digits is None else digits.end()
            text = self.text[pos:end]
        elif kind == "local" and (self.arithmetic or self._divides(pos)):
            kind, text, end = "punct", "%", pos + 1
        elif kind in ("local", "global"):
            self._note_function(kind)
            text = unquote(self.source, Token(kind, text[1:], pos + 1, end)) if text[1] == '"' else text[1:]
        elif kind == "version":
            text = text.split('"')[1]
        self.tokens.append(Token(kind, text, pos, end))
        return end

    def _symbol(self, text: str, pos: int, end: int) -> int:
        if self._starts_comment(text, pos):
            line_end = self.text.find("\n", pos)
            return len(self.text) if line_end < 0 else line_end
        if text in "([{":
            self.open.append(text)
            self.squares += text == "["
        elif text in ")]}" and self.open:  # that they pair up is the parser's business
            self.squares -= self.open.pop() == "["
            if text == "}" and not self.open:
                self.arithmetic = self.whole
        self.tokens.append(Token("punct", text, pos, end))
        return end

    def _starts_comment(self, text: str, pos: int) -> bool:
        return text == "#" if self.arithmetic else text == "//" and not self._divides(pos)

    def _after_dot(self, pos: int) -> bool:
        last = self.tokens[-1] if self.tokens else None
        return last is not None and last.text == "." and last.kind == "punct" and last.end == pos

    def _divides(self, pos: int) -> bool:
        """True if an operator may stand at `pos`: inside square brackets, behind an operand on the same line."""
        if not self.squares or not self.tokens:
            return False
        last = self.tokens[-1]
        is_operand = last.kind in _OPERANDS or (last.kind == "punct" and last.text in _OPERAND_ENDS)
        return is_operand and "\n" not in self.text[last.end : pos]

    def _note_function(self, kind: str) -> None:
        last = self.tokens[-1] if self.tokens else None
        starts = kind == "global" and last is not None and last.kind == "ident" and last.text in ("kernel", "host")
        if starts and not self.open:
            self.arithmetic = True

    def _skip_comment(self, start: int) -> int:
        depth, pos = 0, start
        while True:
            edge = _COMMENT_EDGE.search(self.text, pos)
            if edge is None:
                raise self.source.error("this comment has no end", start, start + 2, hint="close it with */")
            depth += 1 if edge.group() == "/*" else -1
            pos = edge.end()
            if depth == 0:
                return pos


_HALF = re.compile("[\ud800-\udfff]")  # UTF-8 has no form for these
_SUFFIXES = {"bf16": dt.bfloat16, "f16": dt.float16, "f32": dt.float32, "f64": dt.float64, "f": dt.float32}
_SUFFIXES["i"] = dt.int32
_SUFFIXES |= {f"{d.name[0]}{d.bits}": d for d in dt.ALL_DTYPES if d.is_int}
_NUMBER = re.compile(r"(inf|nan|[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-z0-9]*)\Z")


def number(token: Token) -> tuple[int | float, DType | None]:
    """The value of an int or float token, and the dtype that its suffix names (None without one)."""
    found = _NUMBER.match(token.text)
    assert found is not None
    digits, suffix = found.groups()
    if token.kind == "int":
        return int(digits), _SUFFIXES.get(suffix)
    return float(digits), _SUFFIXES.get(suffix)


def has_half(text: str) -> bool:
    """True if a text has a surrogate, half of a character: it cannot be written as UTF-8."""
    return not text.isascii() and _HALF.search(text) is not None


def quote(text: str) -> str:
    """`text` as a string literal."""
    return json.dumps(text, ensure_ascii=False)


def unquote(source: Source, token: Token) -> str:
    """The text of a string token; ParseError for an unknown escape."""
    try:
        text = json.loads(token.text, strict=False)
    except json.JSONDecodeError:
        hint = 'the escapes are those of JSON: \\" \\\\ \\n \\t \\uXXXX …'
        raise source.error("bad escape in a string", token.start, token.end, hint=hint) from None
    assert isinstance(text, str)
    if has_half(text):
        raise source.error("a string has half a character, a surrogate without the other", token.start, token.end)
    return text
