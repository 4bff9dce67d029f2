"""Hints at what was meant, where a text has what other languages write.

The parsers say what they wanted and what they got; here is, as data, what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from legato.base.errors import ParseError
from legato.base.lexer import Token
from legato.base.tokens import TokenStream

__all__ = ["FIELDS", "WORDS", "HintedStream", "dtype_hint"]

_LOOP: Final = (
    "a loop is a function that calls itself: let %loop = fn (%i: int32) { if (…) { %loop(%i + 1) } else { … } };"
)
_LET: Final = "a variable is bound by let: let %x = …;"
_IF: Final = "a choice is if (…) { … } else { … }"
_TENSOR: Final = "a tensor type is Tensor[(3, 4), float32]"
_ASSIGN: Final = "nothing is assigned to; a new let hides the old one: let %x = %x + 1;"
_TUPLE: Final = "one variable is bound at a time: let %t = …; then %t.0, %t.1, … are the fields"
_COMMENT: Final = "comments are // … and /* … */"
_BODY: Final = "a body stands in braces: { … }"
_SEPARATED: Final = "`;` ends a let, and every expression of a block but the last"
FIELDS: Final = "a field of a tuple is %t.0; take(…) and strided_slice(…) give parts of a tensor"

# Words that no operator or constructor is called, where an expression begins.
WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("while", "for", "do", "loop", "break", "continue"), _LOOP),
    **dict.fromkeys(("var", "val", "const", "auto", "mut"), _LET),
    "return": "a block's result is its last expression: { let %y = …; %y }",
    "lambda": "a function is fn (%x) { … }",
    "function": "a function is fn (%x) { … }",
    "not": "write logical_not(a)",
    "true": "write True",
    "false": "write False",
    **dict.fromkeys(("null", "nil", "none", "void"), "the unit value is ()"),
    "case": "a clause is: pattern => result",
    "elif": "write else if (…) { … }",
    "switch": "write match (…) { pattern => result, … }",
}

# What stands behind an operand where another language has an operator.
_INFIX: Final[Mapping[str, str]] = {
    "and": "write logical_and(a, b)", "or": "write logical_or(a, b)",
    "&&": "write logical_and(a, b)", "||": "write logical_or(a, b)",
    "&": "write bitwise_and(a, b)", "|": "write bitwise_or(a, b)", "^": "write bitwise_xor(a, b)",
    "<<": "write left_shift(a, b)", ">>": "write right_shift(a, b)",
    "%": "the remainder is floor_mod(a, b)", "@": "a matrix product is matmul(a, b)",
    "?": _IF, "if": _IF, "=": "== compares, let %x = …; binds",
}  # fmt: skip

# By what was wanted: hints by what was got; "" is everything else.
_WANTED: Final[Mapping[str, Mapping[str, str]]] = {
    "`else`": {"elif": "write else if (…) { … }", "": "both branches are written: if (…) { … } else { … }"},
    "`=`": {",": _TUPLE},
    "a %variable": {"(": _TUPLE, "*": "a function has a fixed number of parameters"},
    "`[`": {"(": _TENSOR, "<": _TENSOR},
    "`{`": {"": _BODY},
    "`,` or `)`": {"=": "parameters have no default values", "[": _TENSOR},
    "a type": {"=": "write let %x = …; or let %x: int32 = …;"},
    "an expression": {
        "[": "a tuple is (a, b), and stack((a, b)) a tensor", "!": "write logical_not(a)",
        "def": "a function inside a function is a value: let %f = fn (%x) { … };",
    },
    "a definition": {
        "fn": "write def @name(…) { … }", "func": "write def @name(…) { … }", "function": "write def @name(…) { … }",
        "import": "the prelude's names need no import", "let": "let stands inside functions: def @main() { let … }",
    },
    "a pattern": {"": "patterns are variables, _, constructors and tuples; numbers are compared by if"},
}  # fmt: skip

# By what was wanted behind which token.
_BEHIND: Final[Mapping[tuple[str, str], str]] = {
    ("`(`", "if"): "the condition stands in parentheses: if (…) { … } else { … }",
    ("`(`", "["): _TENSOR,
    ("`,`", ")"): _TENSOR,
    ("`{`", ")"): "the result's type stands behind ->, the body in braces: (…) -> int32 { … }",
    ("a type", "->"): "the result's type stands behind ->, the body in braces: (…) -> int32 { … }",
    ("an expression", "{"): "a block has a result; the unit value is ()",
    ("an expression", ";"): "a block ends with its result: { let %y = …; %y }",
}

_NAMES: Final = {"a %variable": "%", "a @function": "@"}
_DTYPES: Final = {
    "float": "float32", "double": "float64", "half": "float16", "bf16": "bfloat16", "int": "int32", "long": "int64",
    "uint": "uint32", "byte": "uint8", "boolean": "bool", "f16": "float16", "f32": "float32", "f64": "float64",
    **{f"{sign}{bits}": f"{name}{bits}" for sign, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
}  # fmt: skip
_DIVISION: Final = re.compile(r"[ \t]*//[ \t]*[0-9%(]")
_ENDS: Final = ("`;`", "`}`", "`)`", "`,` or `)`", "`,` or `}`", "the end of the text")  # what follows an expression
_OPERANDS: Final = frozenset({"ident", "local", "global", "int", "float"})


class HintedStream(TokenStream):
    """The tokens of Relay's text. `hints` is False while text of another grammar is read."""

    hints = True

    def unexpected(self, wanted: str, hint: str | None = None) -> ParseError:
        """The error that the current token is not what the grammar wants, with what may have been meant."""
        return super().unexpected(wanted, hint or (_hint(self, wanted) if self.hints else None))


def dtype_hint(name: str) -> str | None:
    """A hint at the dtype that another language calls `name`."""
    found = _DTYPES.get(name)
    return None if found is None else f"did you mean `{found}`?"


def _hint(stream: TokenStream, wanted: str) -> str | None:
    token, got = stream.peek(), _got(stream)
    before = stream.tokens[stream.pos - 1] if stream.pos else Token("", "", 0, 0)
    if _ends_operand(before) and _DIVISION.match(stream.source.text, before.end):
        return "`//` starts a comment here; write floor_divide(a, b)"
    if got == "#":
        return _COMMENT
    if wanted in _NAMES and token.kind == "ident":
        return f"its name begins with {_NAMES[wanted]}: {_NAMES[wanted]}{token.text}"
    if wanted.startswith("the index") and token.kind == "ident":
        return "fields have numbers: %t.0; operators are called: exp(%x)"
    if wanted == "an expression":
        return _operand_hint(got, before, token)
    found = _BEHIND.get((wanted, before.text)) if wanted != "`{`" or got == ":" else None
    by_got = _WANTED.get(wanted.partition(" (")[0], {})
    return found or by_got.get(got) or by_got.get("") or _separator_hint(wanted, got, before, token)


def _ends_operand(token: Token) -> bool:
    return token.kind in _OPERANDS or token.text in (")", "]", "}")


def _got(stream: TokenStream) -> str:
    """The text of the current token; `&&` and `||` are two."""
    token, after = stream.peek(), stream.peek(1)
    if token.kind not in ("punct", "ident"):
        return ""
    twice = token.text in ("&", "|") and after.text == token.text and after.start == token.end
    return token.text * (1 + twice)


def _operand_hint(got: str, before: Token, token: Token) -> str | None:
    """What was meant where an operand is missing."""
    adjacent = before.kind == "punct" and before.end == token.start
    if adjacent and got == "=" and before.text in ("+", "-", "*", "/"):
        return _ASSIGN
    if adjacent and got == before.text == "*":
        return "a power is power(a, b)"
    return _WANTED["an expression"].get(got) or (_BEHIND.get(("an expression", before.text)) if got == "}" else None)


def _separator_hint(wanted: str, got: str, before: Token, token: Token) -> str | None:
    """What was meant where an expression should have ended."""
    if wanted not in _ENDS or not _ends_operand(before):
        return None
    if got in _INFIX:
        return _INFIX[got]
    starts = token.kind in _OPERANDS or token.text == "}"
    return _SEPARATED if starts and wanted in ("`;`", "`}`") else None
