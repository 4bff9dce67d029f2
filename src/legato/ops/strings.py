"""Operators that look into strings. They run in Python, by their references, wherever the program runs.

What only moves strings, or compares them for equality, is compiled as it is for numbers: see `dtype.string`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from legato.arith.expr import const, max_
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.codes import decode
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import RunError
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._computed import as_dims
from legato.ops._dtypes import convert, shortest
from legato.ops._regex import Regex, RegexError, compiled
from legato.ops._rules import broadcast_shapes, require_rank, tensor
from legato.ops._tensors import Array, require_choice

if TYPE_CHECKING:
    from legato.infer.builder import Builder

__all__ = ["CaseAttrs", "FullMatchAttrs", "NormalizeAttrs", "ParseAttrs", "PiecesAttrs", "PlaceAttrs"]

CASES: Final = ("none", "lower", "upper")
_NUMBER: Final = re.compile(
    r"\s*([+-]?)(?:(\d+)|(\d+\.\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)|(inf|nan))\s*", re.ASCII | re.I
)
_DIGITS: Final = 400  # of a number: beyond any that a dtype has

_op = partial(Op, storage=True)


def _words(*texts: Any) -> Array:
    return np.array(texts, object)


def _of_strings(rel: Relation, ty: Type, what: str) -> TensorType:
    """The type of a tensor of strings."""
    found = tensor(rel, ty, what)
    if not found.dtype.is_string:
        raise rel.fail(f"the {what} has dtype {found.dtype}, wanted strings")
    return found


def _mapped(function: Callable[[Any], Any], data: Array, dtype: DType) -> Array:
    """The array of `function` of each element."""
    found = np.empty(data.size, dtype.numpy)
    found[:] = [function(value) for value in data.ravel().tolist()]
    return found.reshape(data.shape)


# ------------------------------------------------------------------ elementwise


def _concat_relation(rel: Relation, a: Type, b: Type) -> Type:
    left, right = _of_strings(rel, a, "lhs"), _of_strings(rel, b, "rhs")
    return TensorType(broadcast_shapes(rel, left.shape, right.shape), dt.string)


def _concat_reference(a: Array, b: Array) -> Array:
    return np.asarray(np.add(a, b), object)


concat = _op(
    name="strings.concat",
    args=("lhs", "rhs"),
    type_rel=_concat_relation,
    reference=_concat_reference,
    samples=(
        Sample((_words("a", "", "é"), _words("b", "c", "")), exact=True),
        Sample((_words(["a"], ["b"]), _words("x", "y")), exact=True),
        Sample((np.array("x", object), np.empty((2, 0), object)), exact=True),
    ),
    doc="The strings of one tensor with those of another behind them, broadcast.",
)


@dataclass(frozen=True, slots=True)
class FullMatchAttrs(Attrs):
    """The regular expression, in RE2's syntax."""

    pattern: str


def _regex(rel: Relation, pattern: str) -> Regex:
    try:
        return compiled(pattern)
    except RegexError as error:
        raise rel.fail(f"the pattern {pattern!r:.80}: {error}", hint=error.hint) from None


def _match_relation(rel: Relation, data: Type, a: FullMatchAttrs) -> Type:
    _regex(rel, a.pattern)
    return TensorType(_of_strings(rel, data, "data").shape, dt.bool_)


def _match_reference(data: Array, a: FullMatchAttrs) -> Array:
    return _mapped(compiled(a.pattern).matches, data, dt.bool_)


full_match = _op(
    name="strings.full_match",
    args=("data",),
    attrs=FullMatchAttrs,
    type_rel=_match_relation,
    reference=_match_reference,
    samples=(
        Sample(
            (_words("www.google.com", "www.facebook.com", "www.bbc.co.uk"),),
            {"pattern": r"www\.[\w.-]+\.\bcom\b"},
            exact=True,
        ),
        Sample((_words(["", "a"], ["b", "é"]),), {"pattern": "[^a]?"}, exact=True),
    ),
    doc="""Whether a regular expression matches the whole of each string.

The syntax is RE2's. The time that a match takes is linear in the string, whatever the expression is.""",
)


# ------------------------------------------------------------------ numbers


def _text(value: Any, shown: Callable[[Any], str]) -> str:
    text = shown(value)
    return {"nan": "NaN", "inf": "INF", "-inf": "-INF", "True": "1", "False": "0"}.get(text, text)


def _format_relation(rel: Relation, data: Type) -> Type:
    ty = tensor(rel, data, "data")
    if ty.dtype.is_string:
        raise rel.fail("the data are strings already")
    return TensorType(ty.shape, dt.string)


def _format_reference(data: Array) -> Array:
    found = np.empty(data.size, object)
    dtype, numbers = dt.dtype(data.dtype), decode(data)
    is_short = dtype == dt.bfloat16 or (dtype.is_storage and dt.dtype(numbers.dtype).is_float)
    shown = partial(shortest, dtype=dtype) if is_short else str
    found[:] = [_text(value, shown) for value in numbers.ravel()]
    return found.reshape(data.shape)


format_ = _op(
    name="strings.format",
    args=("data",),
    type_rel=_format_relation,
    reference=_format_reference,
    samples=(
        Sample((np.array([0.1, -0.0, 1e20, np.nan, np.inf, -np.inf], np.float32),), exact=True),
        Sample((np.array([[-3, 7]], np.int64),), exact=True),
        Sample((np.array([True, False]),), exact=True),
    ),
    doc="""Numbers as text: floats, of 16 and fewer bits as well, with the fewest digits that give them back.

NaN is NaN, infinities are INF and -INF, as in ONNX; of bool, 1 and 0.""",
)


@dataclass(frozen=True, slots=True)
class ParseAttrs(Attrs):
    """The dtype of the numbers."""

    dtype: DType


def _parse_relation(rel: Relation, data: Type, a: ParseAttrs) -> Type:
    if a.dtype.is_string:
        raise rel.fail("the attribute dtype is that of strings, wanted one of numbers")
    return TensorType(_of_strings(rel, data, "data").shape, a.dtype)


def _parse_reference(data: Array, a: ParseAttrs) -> Array:
    numbers = [_parsed(value, a.dtype) for value in data.ravel().tolist()]
    return np.array(numbers, a.dtype.numpy).reshape(data.shape)


def _parsed(text: str, dtype: DType) -> Any:
    """The number that a text is; RunError for others."""
    found = _NUMBER.fullmatch(text) if len(text) <= _DIGITS else None
    if found is None:
        raise RunError(f"strings.parse: {text!r:.60} is no number")
    sign, digits, decimal, special = found.groups()
    if digits is not None and not dtype.is_float:
        value = int(sign + digits)
        if not dt.int64.min <= value <= dt.uint64.max:
            raise RunError(f"strings.parse: {text!r:.60} has more than 64 bits")
        wide = np.array(value, np.uint64 if value > dt.int64.max else np.int64)
        return convert(wide, dtype)
    number = float(sign + (digits or decimal or special))
    return convert(np.array(number, np.float64), dtype)


parse = _op(
    name="strings.parse",
    args=("data",),
    attrs=ParseAttrs,
    type_rel=_parse_relation,
    reference=_parse_reference,
    samples=(
        Sample((_words("3.14", "-1e5", " 7", "nan", "+INF", "-inf"),), {"dtype": "float32"}, exact=True),
        Sample((_words("3.9", "300", "-1"),), {"dtype": "int8"}, exact=True),
        Sample((_words("0", "0.5", "2"),), {"dtype": "bool"}, exact=True),
    ),
    doc="""The numbers that strings are: decimal, or with an exponent; INF and NaN in letters of any case.

As integers they are truncated as by cast. An error where a string is something else.""",
)


# ------------------------------------------------------------------ order


def _rank_relation(rel: Relation, data: Type) -> Type:
    return TensorType(_of_strings(rel, data, "data").shape, dt.int64)


def _rank_reference(data: Array) -> Array:
    texts = data.ravel().tolist()
    places = {text: n for n, text in enumerate(sorted(set(texts)))}
    return np.array([places[text] for text in texts], np.int64).reshape(data.shape)


rank = _op(
    name="strings.rank",
    args=("data",),
    type_rel=_rank_relation,
    reference=_rank_reference,
    samples=(
        Sample((_words(["b", "a", "é"], ["", "B", "a"]),), exact=True),
        Sample((np.empty((0, 2), object),), exact=True),
    ),
    doc="How many of the tensor's different strings come before each, by the codes of their characters.",
)


# ------------------------------------------------------------------ tables


@dataclass(frozen=True, slots=True)
class PlaceAttrs(Attrs):
    """The words of a table, each once."""

    words: tuple[str, ...]


_TABLES: Final[dict[int, tuple[PlaceAttrs, dict[str, int]]]] = {}  # by the identity of the record, which is kept
_MOST_TABLES: Final = 16


def _table(a: PlaceAttrs) -> dict[str, int]:
    """The places of words, counted from 1. Records of a program are the same ones in all calls."""
    found = _TABLES.get(id(a))
    if found is None or found[0] is not a:
        if len(_TABLES) >= _MOST_TABLES:
            _TABLES.clear()
        found = _TABLES[id(a)] = a, {word: n for n, word in enumerate(a.words, 1)}
    return found[1]


def _place_relation(rel: Relation, data: Type, a: PlaceAttrs) -> Type:
    if len(set(a.words)) != len(a.words):
        raise rel.fail("the table has a word twice")
    return TensorType(_of_strings(rel, data, "data").shape, dt.int64)


def _place_reference(data: Array, a: PlaceAttrs) -> Array:
    known = _table(a)
    return _mapped(lambda text: known.get(text, 0), data, dt.int64)


place = _op(
    name="strings.place",
    args=("data",),
    attrs=PlaceAttrs,
    type_rel=_place_relation,
    reference=_place_reference,
    samples=(
        Sample((_words(["b", "a"], ["", "c"]),), {"words": ("a", "", "b")}, exact=True),
        Sample((np.empty((0, 2), object),), {"words": ()}, exact=True),
    ),
    doc="Which word of a table each string is, counted from 1; 0 where it is none: what is fast for large tables.",
)


# ------------------------------------------------------------------ pieces


@dataclass(frozen=True, slots=True)
class PiecesAttrs(Attrs):
    """`delimiter`: where strings are split, if it is empty at whitespace; `maxsplit`: how often at most, from the left;
    any number of times where it is below 0.
    """

    delimiter: str = ""
    maxsplit: int = -1


def _split(text: str, a: Any) -> list[str]:
    if not a.delimiter:
        return text.split(None, a.maxsplit if a.maxsplit >= 0 else -1)
    return text.split(a.delimiter, a.maxsplit if a.maxsplit >= 0 else -1)


def _pieces_relation(rel: Relation, data: Type, a: PiecesAttrs) -> Type:
    return TensorType(_of_strings(rel, data, "data").shape, dt.int64)


pieces = _op(
    name="strings.pieces",
    args=("data",),
    attrs=PiecesAttrs,
    type_rel=_pieces_relation,
    reference=lambda data, a: _mapped(lambda text: len(_split(text, a)), data, dt.int64),
    samples=(
        Sample((_words("a b", " c ", ""),), exact=True),
        Sample((_words(["a-b-c"], ["-"]),), {"delimiter": "-", "maxsplit": 1}, exact=True),
    ),
    doc="How many pieces `strings.split` makes of each string.",
)


def _split_relation(rel: Relation, data: Type, a: PiecesAttrs) -> Type:
    return TensorType((*_of_strings(rel, data, "data").shape, rel.fresh("pieces")), dt.string)


def _split_reference(data: Array, a: PiecesAttrs) -> Array:
    rows = [_split(text, a) for text in data.ravel().tolist()]
    return _filled(rows, max(map(len, rows), default=0), data.shape)


def _filled(rows: Sequence[Sequence[str]], most: int, shape: tuple[int, ...]) -> Array:
    """Rows of strings, filled up with empty ones."""
    found = np.full((len(rows), most), "", object)
    for row, parts in zip(found, rows, strict=True):
        row[: len(parts)] = parts[:most]
    return found.reshape(*shape, most)


def _split_expand(b: Builder, data: Expr, a: PiecesAttrs) -> Expr:
    counts = b.reshape(b.strings.pieces(data, delimiter=a.delimiter, maxsplit=a.maxsplit), newshape=(-1,))
    least = b.constant(np.zeros(1, np.int64))
    (most,) = as_dims(b, b.max(b.concatenate((counts, least), axis=0), axis=0), "pieces")
    room = b.zeros(shape=(most,), dtype=dt.bool_)
    return b.strings.split_to(data, room, delimiter=a.delimiter, maxsplit=a.maxsplit)


_SPLIT_SAMPLES: Final[tuple[tuple[tuple[Array, ...], dict[str, Any]], ...]] = (
    ((_words("a b", " c ", ""),), {}),
    ((_words(["a-b-c", "x"], ["-", ""]),), {"delimiter": "-", "maxsplit": 1}),
    ((np.empty((0, 2), object),), {}),
)

split = _op(
    name="strings.split",
    args=("data",),
    attrs=PiecesAttrs,
    type_rel=_split_relation,
    reference=_split_reference,
    expand=_split_expand,
    samples=tuple(Sample(args, attrs, exact=True) for args, attrs in _SPLIT_SAMPLES),
    doc="The pieces of each string along a new last dim, which is as long as one needs; empty strings fill it up.",
)


def _split_to_relation(rel: Relation, data: Type, room: Type, a: PiecesAttrs) -> Type:
    where = tensor(rel, room, "room")
    require_rank(rel, where, 1, what="room")
    return TensorType((*_of_strings(rel, data, "data").shape, *where.shape), dt.string)


def _split_to_reference(data: Array, room: Array, a: PiecesAttrs) -> Array:
    return _filled([_split(text, a) for text in data.ravel().tolist()], len(room), data.shape)


split_to = _op(
    name="strings.split_to",
    args=("data", "room"),
    attrs=PiecesAttrs,
    type_rel=_split_to_relation,
    reference=_split_to_reference,
    samples=tuple(Sample((*args, np.zeros(2, bool)), attrs, exact=True) for args, attrs in _SPLIT_SAMPLES),
    doc="As `strings.split`, with as many pieces as a vector has elements; others are dropped.",
)


# ------------------------------------------------------------------ words


@dataclass(frozen=True, slots=True)
class CaseAttrs(Attrs):
    """The case that strings become: none, lower, upper."""

    case: str = "none"


def _case_relation(rel: Relation, data: Type, a: CaseAttrs) -> Type:
    require_choice(rel, "case", a.case, CASES)
    return _of_strings(rel, data, "data")


def _changed(case: str) -> Callable[[str], str]:
    found: dict[str, Callable[[str], str]] = {"none": str, "lower": str.lower, "upper": str.upper}
    return found[case]


change_case = _op(
    name="strings.change_case",
    args=("data",),
    attrs=CaseAttrs,
    type_rel=_case_relation,
    reference=lambda data, a: _mapped(_changed(a.case), data, dt.string),
    samples=tuple(Sample((_words(["aB", "ß"], ["", "Éa"]),), {"case": case}, exact=True) for case in CASES),
    doc="Strings in lower or upper case, as Python has it.",
)


@dataclass(frozen=True, slots=True)
class NormalizeAttrs(Attrs):
    """`case`: what case strings become; `stopwords`: words that are dropped; `casesensitive`: whether their case
    matters.
    """

    case: str = "none"
    stopwords: tuple[str, ...] = ()
    casesensitive: bool = True


def _words_type(rel: Relation, data: Type, a: NormalizeAttrs) -> TensorType:
    require_choice(rel, "case", a.case, CASES)
    ty = _of_strings(rel, data, "data")
    require_rank(rel, ty, 1, what="data")
    return ty


def _normalize_relation(rel: Relation, data: Type, a: NormalizeAttrs) -> Type:
    ty = _words_type(rel, data, a)
    return TensorType((rel.fresh("words"),), ty.dtype)


def _normalize_reference(data: Array, a: NormalizeAttrs) -> Array:
    changed = _changed(a.case)
    same: Callable[[str], str] = str if a.casesensitive else str.lower
    stopwords = set(map(same, a.stopwords))
    return np.array([changed(text) for text in data.tolist() if same(text) not in stopwords] or [""], object)


def _normalize_padded(data: Array, a: NormalizeAttrs) -> tuple[Array, Array]:
    found = _normalize_reference(data, a)
    rows = np.full(max(len(data), 1), "", object)
    rows[: len(found)] = found
    return rows, np.array([len(found)], np.int64)


def _padded_relation(rel: Relation, data: Type, a: NormalizeAttrs) -> Type:
    most = simplify(max_(_words_type(rel, data, a).shape[0], const(1)))
    return TupleType((TensorType((most,), dt.string), TensorType((const(1),), dt.int64)))


_WEEK: Final = _words("monday", "Tuesday", "wednesday", "", "thursday")
_NORMALIZE_SAMPLES: Final = (
    Sample((_WEEK,), {"case": "upper", "stopwords": ("monday", "tuesday")}, exact=True),
    Sample((_WEEK,), {"stopwords": ("Monday", "tuesday"), "casesensitive": False}, exact=True),
    Sample((_WEEK[:1],), {"stopwords": ("monday",)}, exact=True),
)

normalize_padded = _op(
    name="strings.normalize_padded",
    args=("data",),
    attrs=NormalizeAttrs,
    type_rel=_padded_relation,
    reference=_normalize_padded,
    samples=_NORMALIZE_SAMPLES,
    doc="(words, [n]): the n words that `strings.normalize` gives, and empty ones behind them.",
)

normalize = _op(
    name="strings.normalize",
    args=("data",),
    attrs=NormalizeAttrs,
    type_rel=_normalize_relation,
    reference=_normalize_reference,
    padded=normalize_padded,
    samples=_NORMALIZE_SAMPLES,
    doc="A vector of strings without stopwords, in lower or upper case; one empty string where nothing is left.",
)
