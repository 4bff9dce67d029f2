"""Text as Apache TVM's printer wrote it, versions 0.6 to 0.19: comments with types and spans, metadata as a graph of

nodes, dims as references into it, names that are no identifiers, statements in parentheses, operators since renamed.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.arith.expr import Var as DimVar
from legato.base.errors import ParseError
from legato.driver import operators
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Constant, Function, Let, Match, RefWrite, Tuple, TupleGetItem, Var
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.types import GlobalTypeVar, TensorType, TypeCall
from tests.ir.programs import OPS, op
from tests.programs.settings import examples

_CODES = {"int8": (0, 8), "int64": (0, 64), "uint8": (1, 8), "bool": (1, 1), "float16": (2, 16), "float32": (2, 32),
          "float64": (2, 64), "bfloat16": (4, 16)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reduction:
    """The attribute of scatter_elements."""

    reduction: str = "update"


def _blob(data: np.ndarray[Any, Any], magic: int = 0xDD5E40F096B4A13F, shape: tuple[int, ...] | None = None) -> str:
    """An array as TVM saved it."""
    shape = data.shape if shape is None else shape
    raw = struct.pack("<QQiii", magic, 0, 1, 0, len(shape)) + struct.pack("<BBH", *_CODES[data.dtype.name], 1)
    raw += struct.pack(f"<{len(shape)}q", *shape) + struct.pack("<q", data.nbytes) + data.tobytes()
    return b64encode(raw).decode()


def _metadata(entries: dict[str, list[dict[str, Any]]], arrays: list[np.ndarray[Any, Any]], **more: Any) -> str:
    """A metadata section as TVM wrote it. An entry's own parts are numbered from 100."""
    nodes: list[dict[str, Any]] = [{"type_key": ""}, {"type_key": "Map", "keys": list(entries), "data": []}]
    for values in entries.values():
        nodes[1]["data"].append(len(nodes))
        nodes.append({"type_key": "Array", "data": list(range(len(nodes) + 1, len(nodes) + 1 + len(values)))})
        nodes += values
    found = {"root": 1, "nodes": nodes, "b64ndarrays": [_blob(a) for a in arrays], "attrs": {"tvm_version": "0.14"}}
    return f"\n#[metadata]\n{json.dumps(found | more, indent=2)}"


def _constant(index: int) -> dict[str, Any]:
    return {"type_key": "relay.Constant", "attrs": {"data": str(index), "span": "0", "virtual_device_": "0"}}


def _module(text: str) -> Module:
    return parse(f'#[version = "0.0.5"]\n{text}', ops=OPS)


def _main(text: str) -> Function:
    found = _module(text)["main"]
    assert isinstance(found, Function)
    return found


def test_an_annotated_program() -> None:
    func = _main("""
def @main(%data: Tensor[(1, 8), float32] /* ty=Tensor[(1, 8), float32] span=a/b:0:0 */, %v1: int64) -> (Tensor[(1, 8), float32], bool) {
  %0 = nn.relu(%data, /* en_id=418 */) /* fc1/Relu */ /* ty=Tensor[(1, 8), float32] */;
  %1 = add(%0, -1.5e-05f /* ty=float32 span=from_string:4:10 */) /* ty=Tensor[(1, 8), float32] */;
  %2 = (%1, True /* ty=bool */) /* ty=(Tensor[(1, 8), float32], bool) */;
  %3 = %2.0 /* ty=Tensor[(1, 8), float32] */;
  (%3, %2.1,)
} /* ty=fn (Tensor[(1, 8), float32], int64) -> (Tensor[(1, 8), float32], bool) */
""")  # noqa: E501  # as it was printed
    assert isinstance(func.body, Tuple)
    first, second = func.body.fields
    assert isinstance(first, TupleGetItem)
    assert isinstance(second, TupleGetItem)
    assert first.value is second.value


@pytest.mark.parametrize("name", _CODES)
def test_constants(name: str) -> None:
    data = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, name) if name == "bfloat16" else name)
    scalar = np.array(1, data.dtype)
    body = (
        "(meta[relay.Constant][0] /* ty=Tensor[(2, 3), float32] */, meta[relay.Constant][1], meta[relay.Constant][0])"
    )
    section = _metadata({"relay.Constant": [_constant(1), _constant(0)]}, [scalar, data])
    a, b, c = _main(f"def @main() {{ {body} }}{section}").body.children()
    assert isinstance(a, Constant)
    assert isinstance(b, Constant)
    assert a is c
    assert a.data.dtype == data.dtype
    assert a.data.tobytes() == data.tobytes()
    assert b.data.shape == ()
    assert not a.data.flags.writeable


def test_symbolic_dims() -> None:
    dims = [{"type_key": "tir.SizeVar", "attrs": {"dtype": "int32", "name": "n", "span": "0"}}]
    section = _metadata({"tir.SizeVar": dims}, [])
    n = "meta[tir.SizeVar][0]"
    module = _module(f"""
def @f(%x: Tensor[({n}, {n}, ?), float32]) -> Tensor[({n}, 4), float32] {{ %x }}
def @main(%x: Tensor[({n}), float32]) {{ %x }}{section}""")
    f, main = module["f"], module["main"]
    assert isinstance(f, Function)
    assert isinstance(main, Function)
    assert isinstance(f.params[0].ty, TensorType)
    assert isinstance(f.ret_type, TensorType)
    a, b, c = f.params[0].ty.shape
    assert a is b is f.ret_type.shape[0]
    assert f.type_params == (a, c)
    assert isinstance(a, DimVar)
    assert (a.name, a.lo) == ("n", 0)
    assert main.type_params != f.type_params  # each function binds its own
    assert alpha_equal(parse(str(module), ops=OPS), module)


def test_dims_in_attributes_are_those_of_the_types() -> None:
    dims = [{"type_key": "tir.SizeVar", "attrs": {"name": "n"}}]
    lists = [{"type_key": "Array", "data": [3, 0]}]
    section = _metadata({"tir.SizeVar": dims, "Array": lists}, [])
    n = "meta[tir.SizeVar][0]"
    func = _main(f"""def @main(%x: Tensor[({n}, 2), float32]) {{
      nn.relu(%x, padding=[{n}, 2], out=meta[Array][0])
    }}{section}""")
    assert isinstance(func.body, Call)
    assert isinstance(func.params[0].ty, TensorType)
    assert func.body.attrs.padding[0] is func.params[0].ty.shape[0]
    assert func.body.attrs.out == (func.params[0].ty.shape[0], None)


def test_arithmetic_of_dims() -> None:
    section = _metadata({"tir.Mul": [{"type_key": "tir.Mul", "attrs": {"a": "4", "b": "5", "dtype": "int32"}},
                                     {"type_key": "tir.Var", "attrs": {"name": "k"}},
                                     {"type_key": "IntImm", "attrs": {"dtype": "int32", "value": "2"}}]},
                        [])  # fmt: skip
    func = _main(f"def @main(%x: Tensor[(meta[tir.Mul][0], meta[tir.Mul][2]), float32]) {{ %x }}{section}")
    assert str(func.params[0].ty) == "Tensor[(k * 2, 2), float32]"


def test_attribute_values_in_the_metadata() -> None:
    values: list[dict[str, Any]] = [
        {"type_key": "Map", "keys": ["axis", "name"], "data": [5, 6]},
        {"type_key": "Array", "data": [5, 0]},
        {"type_key": "IntImm", "attrs": {"dtype": "int64", "value": "-3"}},
        {"type_key": "runtime.String", "repr_str": "q"},
    ]
    section = _metadata({"Map": values}, [])
    func = _main(f"""
def @main(%x {{virtual_device=meta[VirtualDevice][0]}}: int8, a=meta[Map][0], b=meta[Map][1],
          virtual_device=meta[VirtualDevice][0]) {{ %x }}{section}""")
    assert dict(func.attrs) == {"a": {"axis": -3, "name": "q"}, "b": (-3, None)}


def test_statements_in_parentheses() -> None:
    func = _main("""def @main(%x) {
      %0 = (
        let %v = %x;
        add(%v, %v)
      );
      add(let %w = 1; %w, (ref_write(%x, %0); %0))
    }""")
    assert isinstance(func.body, Call)
    first, second = func.body.args
    assert isinstance(first, Let)
    assert isinstance(second, Let)
    assert isinstance(second.value, RefWrite)
    assert isinstance(second.body, Let)


def test_a_binding_of_one_branch_used_in_the_other() -> None:
    func = _main("def @main(%c, %x) { if (%c) { %0 = nn.relu(%x); add(%0, %0) } else { nn.relu(%0) } }")
    assert alpha_equal(parse(str(Module.from_expr(func)), ops=OPS), Module.from_expr(func))


def test_data_types() -> None:
    module = _module("""
type static_tensor_t {
  tensor_nil_t,
  tensor_constructor_t(Tensor[(2, 3), float32]),
}
type Storage { }
def @main[A](%x: static_tensor_t[], %y: Storage[], %z: fn [B](B, List[B]) -> ref(A)) -> List[static_tensor_t[]] {
  match? (%x) {
    tensor_constructor_t(%t: Tensor[(2, 3), float32] /* ty=Tensor[(2, 3), float32] */) => {
      Cons(tensor_constructor_t(%t) /* ty=static_tensor_t[] */, Nil) /* ty=List[static_tensor_t[]] */
    },
  }
}
type List[A] { Cons(A, List[A]), Nil, }
""")
    func = module["main"]
    assert isinstance(func, Function)
    assert isinstance(func.params[0].ty, GlobalTypeVar)
    assert isinstance(func.ret_type, TypeCall)
    assert func.ret_type.args == (func.params[0].ty,)
    assert isinstance(func.body, Match)
    assert not func.body.complete


# ---------------------------------------------------------------------------------------------- damaged metadata


def _refusal(text: str) -> str:
    with pytest.raises(ParseError) as caught:
        _module(text)
    return caught.value.message


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (_constant(3), "expected the number of an array before this, got 3"),
        ({"type_key": "relay.Constant", "attrs": {"data": "x"}}, "relay.Constant has no data"),
        ({"type_key": "relay.Constant"}, "expected an object, got null"),
        ({"type_key": "Target", "attrs": {}}, "a node of kind 'Target' cannot be read"),
        ({"type_key": "Array", "data": [3]}, "nodes are nested more than 100 deep"),
        ({"type_key": "Array", "data": [-1]}, "expected the number of a node before this, got -1"),
    ],
)
def test_damaged_nodes(entry: dict[str, Any], reason: str) -> None:
    section = _metadata({"relay.Constant": [entry]}, [np.zeros(2, "int8")])
    found = _refusal(f"def @main(a=meta[relay.Constant][0]) {{ 1 }}{section}")
    assert found == f"meta[relay.Constant][0]: {reason}"


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        ("AAAA", "array 0 is damaged"), ("?", "array 0 is damaged"),
        (_blob(np.zeros(2, "int8"), magic=1), "array 0 is no array of a known dtype"),
        (_blob(np.array([2], "uint8").view("bool")), "array 0 of bool has a byte that is neither 0 nor 1"),
        (_blob(np.zeros((0, 1), "int8"), shape=(0, 1 << 62, 1 << 62)),
         "array 0 has the shape (0, 4611686018427387904, 4611686018427387904), which is too large"),
        (b64encode(b"\x3f\xa1\xb4\x96\xf0\x40\x5e\xdd" + bytes(40)).decode(), "array 0 is no array of a known dtype"),
    ],
)  # fmt: skip
def test_damaged_arrays(blob: str, reason: str) -> None:
    section = _metadata({"relay.Constant": [_constant(0)]}, [], b64ndarrays=[blob])
    found = _refusal(f"def @main() {{ meta[relay.Constant][0] }}{section}")
    assert found == f"meta[relay.Constant][0]: {reason}"


def test_damaged_graphs() -> None:
    use = "def @main() { meta[relay.Constant][0] }\n#[metadata]\n"
    assert _refusal(use + '{"root": 7, "nodes": []}') == (
        "the metadata section is damaged: expected the number of a node before this, got 7"
    )
    assert _refusal(use + '{"root": 0, "nodes": [{"keys": [], "data": []}]}') == (
        "meta[relay.Constant] has 0 entries, there is no entry 0"
    )
    assert _refusal(use + '{"root": 0, "nodes": [{"keys": ["relay.Constant"], "data": [9]}]}') == (
        "meta[relay.Constant]: expected the number of a node before this, got 9"
    )
    assert _refusal(use + "1" * 5000).startswith("the metadata section cannot be read: Exceeds the limit")
    doubled = [{"type_key": "Array", "data": [i + 4, i + 4]} for i in range(40)] + [_constant(0)]
    section = _metadata({"relay.Constant": doubled}, [np.zeros(1, "int8")])
    found = _refusal(f"def @main(a=meta[relay.Constant][0]) {{ 1 }}{section}")
    assert found == "meta[relay.Constant][0]: a value has more than 65536 parts"


def test_values_that_nest_over_several_references() -> None:
    nested = [_constant(0), *({"type_key": "Array", "data": [i + 3]} for i in range(2000))]
    section = _metadata({"relay.Constant": nested}, [np.zeros(1, "int8")])
    attrs = ", ".join(f"a{i}=meta[relay.Constant][{i}]" for i in range(0, 2000, 80))
    found = _refusal(f"def @main({attrs}) {{ 1 }}{section}")
    assert found == "meta[relay.Constant][160]: nodes are nested more than 100 deep"


def test_numbers_that_are_too_long() -> None:
    entries = [{"type_key": "FloatImm", "attrs": {"value": "1" * n}} for n in (400, 401)]
    section = _metadata({"Number": entries}, [])
    found = _refusal(f"def @main(a=meta[Number][0], b=meta[Number][1]) {{ 1 }}{section}")
    assert found == f"meta[Number][1]: '{'1' * 400}' is no number"


_PROGRAM = f"""
type t {{ c(Tensor[(2), float32]), }}
def @main(%x.1: Tensor[(meta[tir.SizeVar][0], ?), float32] /* ty=_ span=a:1:2 */, %y {{virtual_device=meta[V][0]}}: t[],
          a=meta[Map][0]) -> (int8, bool) {{
  %0 = (let %v: ref(fn [A](A) -> A) = add(%x.1, meta[relay.Constant][0], /* en_id=1 */); scatter(%v, -1i64, %x.1));
  match? (%y) {{ c(_) => {{ %0.0.1 }}, }}
}}{_metadata({"relay.Constant": [_constant(0)],
              "tir.SizeVar": [{"type_key": "tir.SizeVar", "attrs": {"name": "n"}}],
              "Map": [{"type_key": "Map", "keys": ["k"], "data": [4]}]}, [np.ones(2, "float32")])}
"""  # fmt: skip


@examples(30)
@given(st.lists(st.tuples(st.integers(1, len(_PROGRAM)), st.integers(0, 9),
                          st.sampled_from(["", "(", "[", "}", ",", ":", ".", "-1", "%x", "meta", '"', "3", "0", "[]"])),
                min_size=1, max_size=3))  # fmt: skip
def test_damaged_text_of_tvm_is_refused_or_parsed(edits: list[tuple[int, int, str]]) -> None:
    text = _PROGRAM
    for at, removed, inserted in edits:
        text = f"{text[:at]}{inserted}{text[at + removed :]}"
    with suppress(ParseError):
        parse(f'#[version = "0.0.5"]{text}', ops=[*OPS, op("scatter_elements", "x", "i", "u", attrs=Reduction)])


def test_variables_are_found_by_their_names() -> None:
    func = _main("def @main(%resnet/conv0/w, %v1) { add(%resnet/conv0/w, %v1) }")
    assert isinstance(func.body, Call)
    assert isinstance(func.body.args[0], Var)
    assert func.body.args[0] == func.params[0]


# ---------------------------------------------------------------------------------------------- names


def test_names_that_are_no_identifiers() -> None:
    func = _main("""
def @main(%input.1: Tensor[(2,), float32], %features.0.weight: Tensor[(2,), float32], %aten::relu_0.bias: int8,
          %x:0: float32, %conv-1/w:int8, %t: (int8, int8)) {
  %0 = add(%input.1, %features.0.weight);
  let %y.2 = (%0, %aten::relu_0.bias, %x:0, %conv-1/w-1, %t.0);
  (%y.2.0, %y.2.1)
}""")
    assert [p.name for p in func.params] == [
        "input.1", "features.0.weight", "aten::relu_0.bias", "x:0", "conv-1/w", "t",
    ]  # fmt: skip
    assert str(func.params[4].ty) == "int8"
    assert isinstance(func.body, Let)
    made = func.body.value
    assert isinstance(made, Tuple)
    assert made.fields[1:3] == (func.params[2], func.params[3])
    assert isinstance(made.fields[3], Call)
    assert made.fields[3].args[0] == func.params[4]
    assert made.fields[4].children() == (func.params[5],)
    assert [e.children() for e in func.body.body.children()] == [(func.body.var,), (func.body.var,)]
    again = parse(str(Module.from_expr(func)), ops=OPS)
    assert alpha_equal(again, Module.from_expr(func))


def test_a_name_that_begins_with_a_tensor() -> None:
    func = _main("def @main(%input: Tensor[(2,), float32], %input.1: int8) { (%input.1, %input) }")
    assert func.body.children() == (func.params[1], func.params[0])


def test_a_name_that_may_mean_two_things() -> None:
    with pytest.raises(ParseError) as caught:
        _main("def @main(%t, %t.1) { %t.1 }")
    assert str(caught.value) == (
        "parse error: `%t.1` may be a variable, or begin with `%t`\n  at <text>:2:23\n"
        '  | def @main(%t, %t.1) { %t.1 }\n  |                       ^^\n  hint: put quotes around the name: %"t.1"'
    )
    assert isinstance(_main('def @main(%t, %"t.1") { %t.1 }').body, TupleGetItem)
    assert isinstance(_main('def @main(%t, %t.1) { %"t.1" }').body, Var)


# ---------------------------------------------------------------------------------------------- operators


def _same(old: str, new: str) -> bool:
    """True if two bodies of a program over the package's operators are the same."""
    found = [parse(f'#[version = "0.0.5"]\ndef @main(%x, %i, %u) {{ {body} }}', ops=operators()) for body in (old, new)]
    return alpha_equal(*found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scatter(%x, %i, %u, axis=1)", 'scatter_elements(%x, %i, %u, axis=1, reduction="update")'),
        ("scatter_add(%x, %i, %u)", 'scatter_elements(%x, %i, %u, reduction="add")'),
        ('image.resize(%x, size=[2, 2], layout="NHWC", method="bicubic")',
         'image.resize2d(%x, size=[2, 2], layout="NHWC", method="cubic", rounding_method="round")'),
        ('image.resize(%x, size=[2, 2], coordinate_transformation_mode="asymmetric")',
         'image.resize2d(%x, size=[2, 2], coordinate_transformation_mode="asymmetric", rounding_method="floor")'),
        ("contrib.adaptive_avg_pool2d(%x, output_size=[1, 1])", "nn.adaptive_avg_pool2d(%x, output_size=[1, 1])"),
        ("nn.pad(%x, pad_width=[[0, 0], [1i64, 1i64]])", "nn.pad(%x, 0f, pad_width=[[0, 0], [1, 1]])"),
        ("nn.pad(%x, pad_width=[[0, 0]], pad_value=-2f)", "nn.pad(%x, -2f, pad_width=[[0, 0]])"),
        ('arange(0 /* ty=int32 */, 5, 2, dtype="int32")', 'arange(start=0, stop=5, step=2, dtype="int32")'),
        ('arange(0f, 1f, 0.25f, dtype="float32")', 'arange(start=0f, stop=1f, step=0.25f, dtype="float32")'),
        ('broadcast_to(%x, shape=[2, 3], dtype="float32")', "broadcast_to(%x, shape=[2, 3])"),
        ("strided_slice(%x, begin=[0i64], end=[2i64], strides=[1i64], axes=None)",
         'strided_slice(%x, begin=[0], end=[2], slice_mode="end")'),
        ('cast(%x, dtype="int64")', "cast(%x, dtype=int64)"),
        ("clip(%x, a_min=-inff, a_max=6f)", "clip(%x, a_min=-inff, a_max=6)"),
        # Attributes that are left out mean what they meant there, not what the record has.
        ("nn.batch_matmul(%x, %u)", "nn.batch_matmul(%x, %u, transpose_b=False)"),
        ("image.resize2d(%x, size=[2, 2])", 'image.resize2d(%x, size=[2, 2], rounding_method="round")'),
        ("nn.upsampling3d(%x, scale_d=2f)",
         'nn.upsampling3d(%x, scale_d=2f, coordinate_transformation_mode="half_pixel")'),
    ],
)  # fmt: skip
def test_operators_that_have_changed(old: str, new: str) -> None:
    assert _same(old, new)


def test_bounds_of_slices_as_arguments() -> None:
    section = _metadata({"relay.Constant": [_constant(0), _constant(1)]}, [np.array([0, 2]), np.array([1, 1])])
    meta = "meta[relay.Constant]"
    old = f'#[version = "0.0.5"]\ndef @main(%x) {{ strided_slice(%x, {meta}[0], {meta}[1], {meta}[1]) }}{section}'
    new = '#[version = "0.0.5"]\ndef @main(%x) { strided_slice(%x, begin=[0, 2], end=[1, 1], strides=[1, 1]) }'
    assert alpha_equal(parse(old, ops=operators()), parse(new, ops=operators()))


def test_defaults_of_text_are_not_printed() -> None:
    text = "def @main(%x, %u) {\n  nn.batch_matmul(%x, %u, transpose_b=True)\n}\n"
    both = f'#[version = "0.0.5"]\n\n{text}'
    assert str(parse(both, ops=operators())) == both
    plain = both.replace(", transpose_b=True", "")
    assert str(parse(plain, ops=operators())) == plain
    assert not alpha_equal(parse(both, ops=operators()), parse(plain, ops=operators()))


def test_a_program_of_an_importer_has_types() -> None:
    section = _metadata({"relay.Constant": [_constant(0), _constant(1)]},
                        [np.ones((8, 3, 3, 3), "float32"), np.zeros(8, "float32")])  # fmt: skip
    module = legato.parse(f"""#[version = "0.0.5"]
def @main(%input.1: Tensor[(1, 3, 6, 6), float32] /* ty=Tensor[(1, 3, 6, 6), float32] */) -> Tensor[(1, 8), float32] {{
  %0 = nn.pad(%input.1, 0 /* ty=int32 */, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]) /* ty=float32 */;
  %1 = nn.conv2d(%0, meta[relay.Constant][0], padding=[0, 0, 0, 0], channels=8, kernel_size=[3, 3]);
  %2 = nn.bias_add(%1, meta[relay.Constant][1] /* ty=Tensor[(8), float32] */);
  %3 = nn.dropout(nn.relu(%2), rate=0.5f);
  %4 = nn.global_avg_pool2d(%3.0);
  %5 = reshape(%4, newshape=[-1, 8]);
  nn.softmax(%5, axis=1)
}}{section}""")
    main = module["main"]
    assert isinstance(main, Function)
    assert str(main.body.ty) == "Tensor[(1, 8), float32]"


def test_devices_in_the_metadata() -> None:
    devices = [
        {"type_key": "VirtualDevice",
         "attrs": {"device_type_int": kind, "virtual_device_id": index, "target": "0", "memory_scope": scope}}
        for kind, index, scope in (("2", "1", "7"), ("1", "-1", "0"), ("-1", "-1", "0"), ("99", "0", "0"))
    ]  # fmt: skip
    section = _metadata({"VirtualDevice": [*devices, {"type_key": "runtime.String", "repr_str": "global"}]}, [])
    func = _main(f"""
def @main(%x {{virtual_device=meta[VirtualDevice][0]}}: int8, %y {{virtual_device=meta[VirtualDevice][2]}}: int8,
          virtual_device=meta[VirtualDevice][1]) {{
  on_device(%x, virtual_device=meta[VirtualDevice][0], constrain_result=True)
}}{section}""")
    assert dict(func.attrs) == {"param_virtual_devices": ("cuda:1/global", ""), "result_virtual_device": "cpu:0"}
    assert isinstance(func.body, Call)
    assert func.body.attrs.virtual_device == "cuda:1/global"
    with pytest.raises(ParseError, match="99 is no device"):
        _main(f"def @main(%x: int8, virtual_device=meta[VirtualDevice][3]) {{ %x }}{section}")
