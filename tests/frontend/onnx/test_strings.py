"""Strings in ONNX models, compiled and interpreted, as ONNX Runtime has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import legato
from legato.base.errors import ImportModelError, LegatoError, UnsupportedError
from legato.frontend.onnx import from_onnx
from legato.frontend.onnx.operators.ml_labels import label_encoder_2
from legato.frontend.onnx.tensors import to_array
from legato.interp import evaluate
from tests.frontend.onnx import peer

Array = peer.Array
ML = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
WORDS = np.array([["a", "b", "", "a"], ["é", "a", "b", "long " * 20]], object)


def _value(name: str, array: Array) -> onnx.ValueInfoProto:
    kind = TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def _model(
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, Array],
    outputs: Sequence[str] = ("y",),
    weights: Mapping[str, Array] | None = None,
) -> onnx.ModelProto:
    inputs = [_value(name, array) for name, array in feeds.items()]
    return peer.model(nodes, inputs, outputs, weights, opset_imports=ML, ir_version=10)


def _agrees(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> None:
    """ONNX Runtime, the interpreter and compiled code give the same."""
    wanted = peer.ort_outputs(proto, feeds)
    module = from_onnx(proto)
    args = [feeds[p.name] for p in module["main"].params]
    for result in (evaluate(module, args), legato.compile(module)(*args)):
        found = result if isinstance(result, tuple) else (result,)
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def _node(op: str, inputs: str, outputs: str = "y", **attrs: Any) -> onnx.NodeProto:
    domain = "ai.onnx.ml" if op in ("LabelEncoder", "CategoryMapper") else ""
    return helper.make_node(op, inputs.split(","), outputs.split(","), domain=domain, **attrs)


def _ints(*values: int) -> Array:
    return np.array(values, np.int64)


MOVING = {
    "Reshape": (_node("Reshape", "x,n"), {"n": _ints(4, -1)}),
    "Transpose": (_node("Transpose", "x"), {}),
    "Squeeze": (_node("Squeeze", "u,n"), {"u": WORDS[None], "n": _ints(0)}),
    "Unsqueeze": (_node("Unsqueeze", "x,n"), {"n": _ints(1)}),
    "Gather": (_node("Gather", "x,n", axis=1), {"n": np.array([[0, -1], [2, 2]])}),
    "GatherElements": (_node("GatherElements", "x,n", axis=1), {"n": np.array([[0, 3], [1, 1]])}),
    "GatherND": (_node("GatherND", "x,n"), {"n": np.array([[0, 3], [1, 0]])}),
    "Slice": (_node("Slice", "x,n,m"), {"n": _ints(1, 1), "m": _ints(2, 4)}),
    "Concat": (_node("Concat", "x,x", axis=0), {}),
    "Expand": (_node("Expand", "x,n"), {"n": _ints(3, 1, 4)}),
    "Tile": (_node("Tile", "x,n"), {"n": _ints(2, 1)}),
    "Flatten": (_node("Flatten", "x"), {}),
    "Identity": (_node("Identity", "x"), {}),
    "Split": (_node("Split", "x", "y,z", axis=1, num_outputs=2), {}),
    "Where": (_node("Where", "c,x,w"), {"c": WORDS == "a", "w": np.array(["other"], object)}),
    "Equal": (_node("Equal", "x,w"), {"w": np.array(["a"], object)}),
    "ScatterElements": (
        _node("ScatterElements", "x,n,w", axis=1), {"n": _ints(0, 2).reshape(2, 1), "w": WORDS[:, -1:]}
    ),
    "ScatterND": (_node("ScatterND", "x,n,w"), {"n": _ints(1, 0).reshape(1, 2), "w": np.array(["new"], object)}),
    "Shape": (_node("Shape", "x"), {}),
    "Size": (_node("Size", "x"), {}),
    "Compress": (_node("Compress", "x,k", axis=1), {"k": np.array([True, False, False, True])}),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVING)
@pytest.mark.shared(2)
def test_movement(name: str) -> None:
    node, more = MOVING[name]
    feeds = {k: v for k, v in {"x": WORDS, **more}.items() if k in node.input and k not in ("n", "m")}
    weights = {k: v for k, v in more.items() if k in ("n", "m")}
    proto = _model([node], feeds, node.output, weights)
    _agrees(proto, feeds)
    assert legato.compile(from_onnx(proto)).program.stats["host_operators"] == 0, "nothing looks into strings"


@pytest.mark.parametrize("attrs", [{}, {"sorted": 0}, {"axis": 0}, {"axis": 1}])
@pytest.mark.shared(2)
def test_unique(attrs: dict[str, Any]) -> None:
    node = _node("Unique", "x", "y,first,which,count", **attrs)
    _agrees(_model([node], {"x": WORDS}, node.output), {"x": WORDS})


def test_one_hot_of_strings() -> None:
    feeds = {"i": np.array([[0, -1], [7, 1]], np.int64), "v": np.array(["off", "on"], object)}
    _agrees(_model([_node("OneHot", "i,d,v")], feeds, weights={"d": np.array(3)}), feeds)


@pytest.mark.parametrize(
    ("node", "feeds", "wanted"),
    [
        (_node("Pad", "x,n"), {"x": WORDS, "n": _ints(0, 1, 0, 0)},
         np.pad(WORDS, ((0, 0), (1, 0)), constant_values="")),
        (_node("Pad", "x,n,v"), {"x": WORDS, "n": _ints(1, 0, 0, 0), "v": np.array("p", object)},
         np.pad(WORDS, ((1, 0), (0, 0)), constant_values="p")),
        (_node("Trilu", "x"), {"x": WORDS}, np.where(np.triu(np.ones(WORDS.shape, bool)), WORDS, "")),
        (_node("DepthToSpace", "x", blocksize=2), {"x": WORDS.reshape(1, 8, 1, 1)},
         np.array([["a", ""], ["é", "b"], ["b", "a"], ["a", "long " * 20]], object).reshape(1, 2, 2, 2)),
    ],
)  # fmt: skip
def test_what_onnx_runtime_lacks(node: onnx.NodeProto, feeds: dict[str, Array], wanted: Array) -> None:
    module = from_onnx(_model([node], feeds))
    args = [feeds[p.name] for p in module["main"].params]
    for found in (evaluate(module, args), legato.compile(module)(*args)):
        np.testing.assert_array_equal(found, wanted)


def test_constants_and_initializers() -> None:
    nodes = [
        helper.make_node("Constant", [], ["one"], value_string="é\0x"),
        helper.make_node("Constant", [], ["some"], value_strings=["a", ""]),
        helper.make_node("Constant", [], ["whole"], value=numpy_helper.from_array(WORDS)),
        _node("Equal", "x,whole", "same"),
        _node("Concat", "some,w", "both", axis=0),
    ]
    weights = {"w": np.array(["w", "a"], object)}
    _agrees(_model(nodes, {"x": WORDS}, ("one", "same", "both"), weights), {"x": WORDS})


def _subgraph(nodes: Sequence[onnx.NodeProto], inputs: Sequence[Any], outputs: Sequence[Any]) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "body", list(inputs), list(outputs))


@pytest.mark.parametrize("flag", [True, False])
def test_branches(flag: bool) -> None:
    some = helper.make_tensor_value_info("z", TensorProto.STRING, [2, 4])
    branches = [_subgraph([_node("StringConcat", pair, "z")], [], [some]) for pair in ("x,x", "x,w")]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    feeds = {"x": WORDS, "c": np.array(flag), "w": np.array("w", object)}
    _agrees(_model([node], feeds), feeds)


def test_loops() -> None:
    """A string grows, and is collected in each turn."""
    info = helper.make_tensor_value_info
    state, out = info("out", TensorProto.STRING, [2]), info("each", TensorProto.STRING, [2])
    body = _subgraph(
        [_node("StringConcat", "s,w", "out"), _node("Identity", "out", "each"), _node("Identity", "go", "on")],
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("s", TensorProto.STRING, [2])],
        [info("on", TensorProto.BOOL, []), state, out],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=body)
    feeds = {"x": np.array(["a", ""], object), "n": np.array(3), "w": np.array("é", object)}
    _agrees(_model([node], feeds, ("last", "all")), feeds)


def test_sequences() -> None:
    nodes = [
        _node("SequenceConstruct", "x,w,x", "s"),
        _node("SequenceInsert", "s,w,one", "t"),
        _node("SequenceErase", "t,two", "u"),
        _node("SequenceAt", "u,one", "at"),
        _node("ConcatFromSequence", "u", "all", axis=0),
        _node("SequenceLength", "u", "count"),
    ]
    feeds = {
        "x": np.array(["a", ""], object),
        "w": np.array(["b", "c"], object),
        "one": np.array(1),
        "two": np.array(2),
    }
    _agrees(_model(nodes, feeds, ("at", "all", "count")), feeds)


@pytest.mark.parametrize(
    ("text", "to"),
    [
        (["3.25", "-1e5", " 7", "NaN", "+INF", "inf", "-inf"], "float32"), (["0.1"], "float64"), (["300"], "int8"),
        (["18446744073709551615"], "uint64"), (["-9223372036854775808"], "int64"), (["0", "1"], "bool"),
    ],
)  # fmt: skip
def test_numbers_of_text(text: list[str], to: str) -> None:
    feeds = {"x": np.array(text, object)}
    _agrees(_model([_node("Cast", "x", to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))], feeds), feeds)


@pytest.mark.parametrize("text", ["", "a", "1x", "--1", "1_0", "0x1", "9" * 30, "nan1", "٣"])
def test_text_that_is_no_number(text: str) -> None:
    feeds = {"x": np.array([text], object)}
    exe = legato.compile(_model([_node("Cast", "x", to=TensorProto.INT64)], feeds))
    with pytest.raises(LegatoError, match=r"is no number|more than 64 bits"):
        exe(feeds["x"])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint64", "bool"])
def test_text_of_numbers(dtype: str) -> None:
    """Text gives the same number back: of float16, and digits beyond ONNX Runtime's eight, too."""
    numbers = np.array([0, 1, 0.1, 3.5, 1e-7, 100, 12345 if dtype == "float16" else 123456789]).astype(dtype)
    proto = _model([_node("Cast", "x", "y", to=TensorProto.STRING), _node("CastLike", "y,x", "z")], {"x": numbers},
                   ("y", "z"))  # fmt: skip
    text, back = legato.compile(proto)(numbers)
    assert text.dtype == object
    np.testing.assert_array_equal(back, numbers)
    if numbers.dtype.kind != "f":
        np.testing.assert_array_equal(text, peer.ort_outputs(proto, {"x": numbers})[0])


def test_special_numbers_as_text() -> None:
    feeds = {"x": np.array([np.nan, np.inf, -np.inf], np.float32)}
    _agrees(_model([_node("Cast", "x", to=TensorProto.STRING)], feeds), feeds)


ENCODERS = [
    ({"keys_strings": ["b", "a", "", "a"], "values_int64s": [4, 5, 6, 7]}, WORDS),
    ({"keys_strings": ["b", "a"], "values_floats": [0.5, -1.5], "default_float": 7.0}, WORDS),
    ({"keys_strings": ["b"], "values_strings": ["B"]}, WORDS),
    ({"keys_int64s": [3, 4], "values_strings": ["x", "y"], "default_string": "none"}, _ints(2, 3, 5, 4, -(2**63))),
    ({"keys_int64s": [9, -4, 2**62], "values_int64s": [1, 2, 3]}, _ints(9, 2**62, -4, 0)),
    ({"keys_floats": [0.5, float("nan"), -0.0], "values_int64s": [1, 2, 3]}, np.array([0.5, np.nan, 0, 2], np.float32)),
]  # fmt: skip


@pytest.mark.parametrize(("attrs", "x"), ENCODERS)
def test_label_encoder(attrs: dict[str, Any], x: Array) -> None:
    _agrees(_model([_node("LabelEncoder", "x", **attrs)], {"x": x}), {"x": x})


@pytest.mark.parametrize("dtype", ["int64", "float32", "object"])
def test_large_tables(dtype: str) -> None:
    """Numbers are sorted, and words found in Python: the answers are those of small tables."""
    rng = np.random.default_rng(0)
    keys = rng.permutation(60_000)[: 200 if dtype != "object" else 5000]
    kind = {"int64": "int64s", "float32": "floats", "object": "strings"}[dtype]
    given = [f"w{k}" for k in keys] if dtype == "object" else (keys / 2 - 100 if dtype == "float32" else keys).tolist()
    node = _node("LabelEncoder", "x", **{f"keys_{kind}": given, "values_int64s": keys.tolist()})
    extra = ["", "w", "w-1"] if dtype == "object" else [-(2**31), 2**31, float("nan") if dtype == "float32" else 0]
    x = np.array([*given[::3], *extra, *given[-5:]], dtype)[None]
    _agrees(_model([node], {"x": x}), {"x": x})


def test_label_encoder_of_tensors() -> None:
    def tensor(values: Array) -> onnx.TensorProto:
        return numpy_helper.from_array(values, "t")

    attrs = {
        "keys_tensor": tensor(np.array([1, 5, 7], np.float64)),
        "values_tensor": tensor(np.array(["a", "b", "c"], object)),
        "default_tensor": tensor(np.array(["d"], object)),
    }
    x = np.array([[5, 1], [2, 7]], np.float64)
    _agrees(_model([_node("LabelEncoder", "x", **attrs)], {"x": x}), {"x": x})


@pytest.mark.parametrize("first", [-(2**63), 2**63 - 3])
def test_keys_in_order_at_the_ends_of_their_type(first: int) -> None:
    x = np.array([first + 2, first, 0, first + 1, -(2**63), 2**63 - 1])
    node = _node("LabelEncoder", "x", keys_int64s=[first, first + 1, first + 2], values_int64s=[3, 1, 4])
    _agrees(_model([node], {"x": x}), {"x": x})


@pytest.mark.parametrize("x", [WORDS, _ints(3, 1, 4)])
def test_category_mapper(x: Array) -> None:
    node = _node("CategoryMapper", "x", cats_strings=["a", "é"], cats_int64s=[3, 1], default_int64=-5)
    _agrees(_model([node], {"x": x}), {"x": x})


def test_encoders_that_do_not_fit() -> None:
    for attrs, x in (
        ({"keys_strings": ["a"], "values_int64s": [1, 2]}, WORDS),
        ({"keys_int64s": [1], "values_int64s": [1]}, WORDS),
        ({"keys_int64s": [1], "keys_strings": ["a"], "values_int64s": [1]}, WORDS),
        ({"keys_strings": ["a"]}, WORDS),
    ):
        with pytest.raises(ImportModelError):
            from_onnx(_model([_node("LabelEncoder", "x", **attrs)], {"x": x}))
    assert label_encoder_2 is not None


POOL = {"ngram_counts": [0, 3], "ngram_indexes": [2, 0, 5, 1, 4], "weights": [0.5, 2.0, 3.0, 1.5, -1.0]}
TOKENS = np.array([[1, 2, 3, 1, 2, 3], [9, 2, 9, 3, 1, 1]], np.int64)


@pytest.mark.parametrize(
    ("mode", "skips", "dtype"),
    [("TF", 0, "int64"), ("IDF", 2, "int32"), ("TFIDF", 9, "object"), ("TF", 2, "object"), ("TFIDF", 1, "int64")],
)
@pytest.mark.shared(2)
def test_tf_idf(mode: str, skips: int, dtype: str) -> None:
    pool = [1, 2, 3, 1, 2, 3, 1]
    own = {"pool_strings": list(map(str, pool))} if dtype == "object" else {"pool_int64s": pool}
    node = _node("TfIdfVectorizer", "x", mode=mode, max_skip_count=skips, min_gram_length=1, max_gram_length=2, **own,
                 **POOL)  # fmt: skip
    for x in (TOKENS, TOKENS[0]) if skips == 2 else (TOKENS[:, :1], TOKENS):
        given = x.astype(str).astype(object) if dtype == "object" else x.astype(dtype)
        _agrees(_model([node], {"x": given}), {"x": given})


@pytest.mark.parametrize(
    "change",
    [{"mode": "?"}, {"ngram_counts": [0, 2]}, {"ngram_counts": [0, 99]}, {"ngram_indexes": [0, 1]},
     {"ngram_indexes": [0, 0, 1, 2, 3]}, {"ngram_indexes": [0, 1, 2, 3, 1 << 40]}, {"ngram_indexes": [0, 1, 2, 3, -1]},
     {"pool_strings": ["a"]}, {"min_gram_length": 3}, {"max_skip_count": -1}, {"weights": [1.0]}],
)  # fmt: skip
def test_tf_idf_that_does_not_fit(change: dict[str, Any]) -> None:
    attrs = {"mode": "TF", "max_skip_count": 0, "min_gram_length": 1, "max_gram_length": 2,
             "pool_int64s": [1, 2, 3, 1, 2, 3, 1], **POOL} | change  # fmt: skip
    with pytest.raises((ImportModelError, UnsupportedError)):
        from_onnx(_model([_node("TfIdfVectorizer", "x", **attrs)], {"x": TOKENS}))


def test_skips_of_rows_of_any_length() -> None:
    attrs = {"mode": "TF", "max_skip_count": 10**9, "min_gram_length": 1, "max_gram_length": 2,
             "pool_int64s": [1, 2, 3, 1, 2, 3, 1], **POOL}  # fmt: skip
    proto = _model([_node("TfIdfVectorizer", "x", **attrs)], {"x": TOKENS})
    from_onnx(proto)
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
    with pytest.raises(UnsupportedError, match="left out"):
        from_onnx(proto)


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"case_change_action": "UPPER", "locale": "C"}, WORDS[:1, 1:]),
        ({"stopwords": ["A"], "is_case_sensitive": 0, "case_change_action": "LOWER", "locale": "C"}, WORDS[0]),
        ({"stopwords": ["A", "b"], "is_case_sensitive": 1}, WORDS[:1]),
        ({"stopwords": ["a", "b", ""], "is_case_sensitive": 1}, WORDS[0]),
    ],
)
def test_string_normalizer(attrs: dict[str, Any], words: Array) -> None:
    _agrees(_model([_node("StringNormalizer", "x", **attrs)], {"x": words}), {"x": words})


@pytest.mark.parametrize("pattern", [r"[a-z]*", r"(a|b)?", r".{1,3}", r"(?i)É", r"long( long)* ", r"\pL"])
def test_regex_full_match(pattern: str) -> None:
    _agrees(_model([_node("RegexFullMatch", "x", pattern=pattern)], {"x": WORDS}), {"x": WORDS})


def test_patterns_that_are_refused() -> None:
    for pattern in (r"(a)\1", "(?=a)", "(?:x{1000}){1000}"):
        with pytest.raises(LegatoError, match="pattern"):
            from_onnx(_model([_node("RegexFullMatch", "x", pattern=pattern)], {"x": WORDS}))


SENTENCES = np.array([["one two  three", "x"], [" a-b-c ", "-"]], object)


@pytest.mark.parametrize("attrs", [{}, {"delimiter": " "}, {"delimiter": "-", "maxsplit": 1}, {"maxsplit": 1}])
def test_string_split(attrs: dict[str, Any]) -> None:
    x = SENTENCES[:1] if attrs == {"maxsplit": 1} else SENTENCES  # ONNX Runtime drops whitespace at the end there
    _agrees(_model([_node("StringSplit", "x", "y,z", **attrs)], {"x": x}, ("y", "z")), {"x": x})


def test_pieces_of_the_empty_string() -> None:
    """One, which is empty, as in ONNX's reference; ONNX Runtime has none."""
    x = np.array(["", "a-"], object)
    proto = _model([_node("StringSplit", "x", "y,z", delimiter="-")], {"x": x}, ("y", "z"))
    wanted = peer.reference_outputs(proto, {"x": x})
    assert wanted is not None
    for a, b in zip(legato.compile(proto)(x), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_tensors_in_files() -> None:
    proto = numpy_helper.from_array(WORDS, "t")
    np.testing.assert_array_equal(to_array(proto, None, "t"), WORDS)
    proto.string_data[1] = b"\xff"
    with pytest.raises(ImportModelError, match="string 1 is not UTF-8"):
        to_array(proto, None, "t")
    del proto.string_data[0]
    with pytest.raises(ImportModelError, match="7 elements, but its shape has 8"):
        to_array(proto, None, "t")
    proto.dims[:] = [1 << 20, 1 << 14]
    with pytest.raises(ImportModelError, match="but its shape has"):
        to_array(proto, None, "t")
    proto.raw_data = b"abc"
    with pytest.raises(ImportModelError, match="strings as bytes"):
        to_array(proto, None, "t")
