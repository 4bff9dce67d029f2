"""The JSON of TVM's Relay modules: what is read, and what is said of JSON that is none, or is damaged."""

from __future__ import annotations

import json
import random
import struct
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import ArtifactError, LegatoError, ParseError
from legato.infer.infer import infer
from legato.ir._tvm_types import TypeReader
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Constant, Function, Let, Var, constant
from legato.ir.json_load import load_json as load_tvm_json
from legato.ir.module import Module
from legato.ir.types import TensorType, tensor_type, walk
from legato.ops import table
from legato.prelude import library
from legato.prelude import parse as parse_with_library
from tests.ir.tvm_writer import RECORDS, Writer, raw_array, tvm_json

OPS = table()


def read(text: str) -> Module:
    """The untyped module of a text."""
    return parse_with_library(text, ops=OPS)


def again(mod: Module) -> Module:
    return load_tvm_json(tvm_json(mod), ops=OPS)


SIZES = {"lstm": {"iterations": 2, "num_hidden": 8}, "resnet": {"num_layers": 18, "batch_size": 1}}

# Programs with every kind of node and attribute.
PROGRAMS = {
    "a convolution": """
def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32], Primitive=1, Compiler="none") {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  %1 = nn.max_pool2d(nn.leaky_relu(%0, alpha=0.1f), pool_size=[2, 2], strides=[2, 2], padding=[0, 0, 0, 0]);
  nn.lrn(nn.pad(%1, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [2, 0]]), size=3)
}""",
    "attributes of every sort": """
def @main(%x: Tensor[(4, 6), float32], %i: Tensor[(3), int64]) {
  %0 = take(%x, %i, axis=1, mode="wrap");
  %1 = split(%x, indices_or_sections=[2, 5], axis=1);
  %2 = topk(%x, k=2, axis=0, ret_type="values", dtype="int64");
  %3 = strided_slice(%x, begin=[0, 1], end=[4, -1], strides=[1, 2], axes=[0, 1]);
  %4 = one_hot(%i, 1f, 0f, depth=5, dtype="float32");
  %5 = expand_dims(cast(clip(%x, a_min=-1f, a_max=2f), dtype="int32"), axis=0, num_newaxis=2);
  %6 = (repeat(%x, repeats=3, axis=1), stack((%x, %x), axis=1));
  %7 = image.resize2d(reshape(%x, newshape=[1, 1, 4, -1]), size=[8, 12], layout="NCHW");
  (%0, %1, %2, %3, %4, %5, sum(%x, axis=[0], keepdims=True), argmax(%x, axis=[1]), zeros(shape=[2, 3], dtype="int8"),
   mean(%x), %6, squeeze(transpose(%x, axes=[1, 0])), %7)
}""",
    "control flow, references, closures": """
def @main(%c: bool, %x: Tensor[(n, 3), float32], %k: int32) -> Tensor[(n, 3), float32] {
  let %cell = ref(%x);
  let %loop = fn (%i: int32, %f: fn (Tensor[(n, 3), float32]) -> Tensor[(n, 3), float32]) -> Tensor[(n, 3), float32] {
    if (%i < %k) { let %done = ref_write(%cell, %f(ref_read(%cell))); %loop(%i + 1, %f) } else { ref_read(%cell) }
  };
  let %step = fn (%v: Tensor[(n, 3), float32]) -> Tensor[(n, 3), float32] { %v * 2f };
  if (%c) { %loop(0, %step) } else { @other(%x) }
}
def @other[A](%x: A) -> A { %x }""",
    "data types": """
type Figure { Point, Box((float32, float32), List[Tensor[(2), float32]]), Both(Figure, Figure) }
def @main(%s: Figure, %r: float32) -> float32 {
  match? (%s) {
    Both(Box((%a, _), Cons(%v, _)), _) => %a + sum(%v),
    Both(Point, %rest) => @main(%rest, %r),
    Point => %r
  }
}""",
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_programs_come_back(name: str) -> None:
    mod = read(PROGRAMS[name])
    got, want = infer(again(mod)), infer(mod)
    assert alpha_equal(got, want), f"{got}\n{want}"


@pytest.mark.parametrize("name", ["mlp", "resnet", "dqn", "squeezenet", "lstm", "mobilenet"])
def test_models_come_back(name: str) -> None:
    mod = getattr(relay.testing, name).get_workload(**SIZES.get(name, {"batch_size": 1}))[0].module
    assert alpha_equal(infer(again(mod)), infer(mod))


def test_the_library_comes_back() -> None:
    mod = library()
    assert alpha_equal(infer(again(mod)), mod)


def test_records_have_the_axes_that_the_reader_takes_them_to_have() -> None:
    from legato.ir._tvm_attrs import _AXIS_NODES, _NODES, _NUMBERS

    for kind, fields in RECORDS.values():
        for field in fields.split():
            name, _, how = field.partition(":")
            if name == "axis":
                assert (kind in _AXIS_NODES) == (how == "n"), kind
            elif how == "i":
                assert name in _NUMBERS
            assert not (name in _NODES and how == "i")


def test_what_was_shared_is_shared_and_equal_arrays_are_not() -> None:
    x = Var("x", ty=tensor_type((2,)))
    add, one = OPS["add"], constant(np.ones(2, np.float32))
    shared = Call(add, (x, one))
    got = again(Module.from_expr(Function((x,), Call(add, (shared, shared)))))["main"]
    assert isinstance(got, Function)
    assert isinstance(got.body, Call)
    a, b = got.body.args
    assert a is b
    assert isinstance(a, Call)
    assert isinstance(a.args[1], Constant)
    assert not a.args[1].data.flags.writeable


def test_deep_programs() -> None:
    relu, x = OPS["nn.relu"], Var("x", ty=tensor_type((2,)))
    body: Any = x
    for _ in range(5_000):
        body = Call(relu, (body,))
    for n in range(2_000):
        v = Var(f"v{n}")
        body = Let(v, body, Call(relu, (v,)))
    assert alpha_equal(again(Module.from_expr(Function((x,), body))), Module.from_expr(Function((x,), body)))


def test_unknown_dims_are_dims_of_their_own() -> None:
    w = Writer()

    def var(name: str, ty: int) -> int:
        return w.add("relay.Var", vid=w.add("relay.Id", name_hint=w.string(name)), type_annotation=ty, span=0)

    some = w.add("tir.Any", dtype="int32", span=0)
    ty = w.add("relay.TensorType", shape=w.array([some, w.value(3)]), dtype="float32", span=0)
    a, b = var("a", ty), var("b", ty)
    op = w.put({"type_key": "Op", "repr_str": "nn.relu"})
    body = w.add("relay.Call", op=op, args=w.array([a]), attrs=0, type_args=0, span=0)
    root = {"params": w.array([a, b]), "body": body, "ret_type": 0, "type_params": 0, "attrs": 0, "span": 0}
    text = w.text({"type_key": "relay.Function", "attrs": {k: str(v) for k, v in root.items()}})
    mod = infer(load_tvm_json(text, ops=OPS))
    assert "%a: Tensor[(d, 3), float32], %b: Tensor[(d_1, 3), float32]) -> Tensor[(d, 3), float32]" in str(mod)


def test_an_expression_becomes_main_and_spans_are_kept() -> None:
    w = Writer()
    source = w.put({"type_key": "SourceName", "repr_str": "net.py"})
    span = w.add("Span", source_name=source, line=3, column=5, end_line=3, end_column=9)
    v = w.add("relay.Var", vid=w.add("relay.Id", name_hint=w.string("v")), type_annotation=0, span=span)
    root = {"fields": w.array([v, v]), "span": w.add("SequentialSpan", spans=w.array([span]))}
    mod = load_tvm_json(w.text({"type_key": "relay.Tuple", "attrs": {k: str(n) for k, n in root.items()}}), ops=OPS)
    main = mod["main"]
    assert isinstance(main, Function)
    assert [str(e.span) for e in (*main.params, main.body)] == ["net.py:3:5"] * 2


def test_the_facade_and_files_read_both_forms(tmp_path: Any) -> None:
    mod = relay.parse("def @main(%x: Tensor[(2, 3), float32]) { nn.softmax(%x) }")
    x = np.float32([[1, 2, 3], [0, 0, 1]])
    for text in (tvm_json(mod.module), relay.save_json(mod)):
        found = relay.load_json(text)
        np.testing.assert_array_equal(relay.build(found)(x), relay.build(mod)(x))
        (tmp_path / "m.json").write_text(text)
        np.testing.assert_array_equal(legato.compile(tmp_path / "m.json")(x), relay.build(mod)(x))


def test_what_says_how_the_original_ran_is_passed_over() -> None:
    mod = read("def @main(%x: float32) { %x }")
    found = json.loads(tvm_json(mod))
    nodes = found["nodes"]
    nodes.append({"type_key": "Executor", "attrs": {}})
    nodes.append({"type_key": "IntImm", "attrs": {"dtype": "int32", "value": "7", "span": "0"}})
    nodes.append({"type_key": "Map", "keys": ["executor", "level"], "data": [len(nodes) - 2, len(nodes) - 1]})
    nodes.append({"type_key": "DictAttrs", "attrs": {"__dict__": str(len(nodes) - 1)}})
    nodes[1]["attrs"]["attrs"] = str(len(nodes) - 1)
    assert load_tvm_json(json.dumps(found), ops=OPS).attrs == {"level": 7}


# ------------------------------------------------------------------ what cannot be read


def changed(change: Any) -> str:
    """The JSON of a small program after a change."""
    text = """def @main(%x: Tensor[(2, 3), float32]) { sum(nn.relu(%x), axis=[1]) + nn.batch_flatten(%x) }"""
    found = json.loads(tvm_json(read(text)))
    change(found)
    return json.dumps(found)


def of_kind(found: Any, kind: str) -> Any:
    return next(node for node in found["nodes"] if node["type_key"] == kind)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.update(root=10_000), "expected the number of a node before this, got 10000"),
        (lambda f: f.update(nodes=3), "expected a list, got 3"),
        (lambda f: of_kind(f, "Op").update(repr_str="nn.magic"), "there is no operator 'nn.magic'"),
        (lambda f: of_kind(f, "relay.Call")["attrs"].update(op="0"), "an expression of kind '' cannot be read"),
        (lambda f: of_kind(f, "relay.Call")["attrs"].pop("args"), "relay.Call has no args"),
        (
            lambda f: of_kind(f, "relay.Function").update(type_key="tir.PrimFunc"),
            "@main is a tir.PrimFunc, which cannot",
        ),
        (lambda f: of_kind(f, "relay.TensorType")["attrs"].update(dtype="float33"), "float33"),
        (lambda f: of_kind(f, "relay.TensorType").update(type_key="relay.Odd"), "a type of kind 'Odd' cannot be read"),
        (
            lambda f: of_kind(f, "relay.attrs.ReduceAttrs")["attrs"].update(axis="-1"),
            "ReduceAttrs: axis is no node: '-1'",
        ),
        (lambda f: of_kind(f, "relay.attrs.ReduceAttrs")["attrs"].update(odd="7"), "no attribute odd"),
        (lambda f: of_kind(f, "relay.attrs.ReduceAttrs")["attrs"].update(keepdims="x"), "keepdims is no node: 'x'"),
    ],
)
def test_damaged_json(change: Any, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        load_tvm_json(changed(change), ops=OPS, name="m.json")
    assert message in str(caught.value)


def test_a_node_that_is_a_part_of_itself() -> None:
    def knot(found: Any) -> None:
        calls = [n for n, node in enumerate(found["nodes"]) if node["type_key"] == "relay.Call"]
        args = int(found["nodes"][calls[0]]["attrs"]["args"])
        found["nodes"][args]["data"] = [calls[-1]]

    with pytest.raises(ParseError, match="is a part of itself"):
        load_tvm_json(changed(knot), ops=OPS)


def doubled(times: int, dim: str | None = None, fields: int = 2) -> str:
    """A variable whose type is a tuple, all of whose fields are one tuple, and so on: `times`."""
    w = Writer()
    shape = [] if dim is None else [w.add(dim, dtype="int32", span=0)]
    ty = w.add("relay.TensorType", shape=w.array(shape), dtype="float32", span=0)
    for _ in range(times):
        ty = w.add("TupleType", fields=w.array([ty] * fields), span=0)
    v = w.add("relay.Var", vid=w.add("relay.Id", name_hint=w.string("v")), type_annotation=ty, span=0)
    return w.text({"type_key": "relay.RefCreate", "attrs": {"value": str(v), "span": "0"}})


def test_types_with_parts_in_common_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    whole = TypeReader._type
    monkeypatch.setattr(TypeReader, "_type", lambda self, index: (read.append(index), whole(self, index))[1])
    (param,) = load_tvm_json(doubled(10), ops=OPS)["main"].params
    assert sum(isinstance(part, TensorType) for part in walk(param.ty)) == 1 << 10
    assert len(read) == 11
    read.clear()
    with pytest.raises(ParseError, match="types have more than 65536 parts"):
        load_tvm_json(doubled(60), ops=OPS)
    assert len(read) == 61
    with pytest.raises(ParseError, match="types are nested more than 100 deep"):
        load_tvm_json(doubled(100, fields=1), ops=OPS)


def test_each_dim_that_is_not_known_is_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    (param,) = load_tvm_json(doubled(5, "tir.Any"), ops=OPS)["main"].params
    dims = {part.shape[0] for part in walk(param.ty) if isinstance(part, TensorType)}
    assert len(dims) == 1 << 5
    monkeypatch.setattr("legato.ir._tvm_shared._MAX_AGAIN", 1000)
    with pytest.raises(ParseError, match="types with dims that are not known have more than 1000 parts in common"):
        load_tvm_json(doubled(60, "tir.Any"), ops=OPS)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"nodes": [], "root": 0}', "nonsense"])
def test_other_texts(text: str) -> None:
    with pytest.raises(ParseError):
        load_tvm_json(text, ops=OPS)


def test_randomly_damaged_json_is_read_or_refused() -> None:
    rng = random.Random(0)
    sources = [tvm_json(read(PROGRAMS[n])) for n in PROGRAMS]
    for turn in range(400):
        found = json.loads(sources[turn % len(sources)])
        for _ in range(rng.randint(1, 3)):
            _damage(found, rng)
        try:
            infer(load_tvm_json(json.dumps(found), ops=OPS))
        except LegatoError:
            continue


# ------------------------------------------------------------------ parameters


def saved_params(arrays: dict[str, Any]) -> bytes:
    """What TVM's `save_param_dict` writes."""
    count = struct.pack("<Q", len(arrays))
    names = b"".join(struct.pack("<Q", len(name.encode())) + name.encode() for name in arrays)
    return struct.pack("<QQ", 0xF7E58D4F05049CB7, 0) + count + names + count + b"".join(map(raw_array, arrays.values()))


PARAMS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "é": np.array(True), "k": np.zeros((0, 2), np.int8)}


def test_parameters_that_were_saved_apart() -> None:
    found = relay.load_param_dict(saved_params(PARAMS))
    assert list(found) == list(PARAMS)
    for name, value in PARAMS.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == value.dtype


def test_damaged_parameters() -> None:
    whole, rng = saved_params(PARAMS), random.Random(1)
    for size in range(len(whole)):
        with pytest.raises(ArtifactError):
            relay.load_param_dict(whole[:size])
    for text in (whole + b"x", whole.replace(b"\xc3\xa9", b"\xff\xff"), whole.replace(b"\xc3\xa9", b"\xc3\xc3")):
        with pytest.raises(ArtifactError):
            relay.load_param_dict(text)
    for _ in range(300):
        changed_bytes = bytearray(whole)
        changed_bytes[rng.randrange(8, len(whole))] = rng.randrange(256)
        with suppress(ArtifactError):
            relay.load_param_dict(changed_bytes)


def _damage(found: Any, rng: random.Random) -> None:
    node = rng.choice(found["nodes"])
    if node.get("attrs") and rng.random() < 0.7:
        key = rng.choice(list(node["attrs"]))
        values = ["0", "1", str(rng.randrange(len(found["nodes"]))), "-1", "", "x", "99999999999", "1e400", "nan"]
        node["attrs"][key] = rng.choice(values)
    elif node.get("data"):
        node["data"][rng.randrange(len(node["data"]))] = rng.choice(
            [0, rng.randrange(len(found["nodes"])), -1, "x", 10**9]
        )
    else:
        node["type_key"] = rng.choice(found["nodes"])["type_key"]
