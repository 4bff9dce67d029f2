"""Text as Apache TVM's printer wrote it, versions 0.6 to 0.19: comments with types and spans, metadata as a graph of

nodes, dims as references into it, names that are no identifiers, statements in parentheses, operators since renamed.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from legato.arith.expr import Var as DimVar
from legato.base.errors import ParseError
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Constant, Function, Let, Match, RefWrite, Tuple, TupleGetItem, Var
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.types import GlobalTypeVar, TensorType, TypeCall
from tests.ir.programs import OPS

_CODES = {"int8": (0, 8), "int64": (0, 64), "uint8": (1, 8), "bool": (1, 1), "float16": (2, 16), "float32": (2, 32),
          "float64": (2, 64), "bfloat16": (4, 16)}  # fmt: skip


def _blob(data: np.ndarray[Any, Any], magic: int = 0xDD5E40F096B4A13F) -> str:
    """An array as TVM saved it."""
    raw = struct.pack("<QQiii", magic, 0, 1, 0, data.ndim) + struct.pack("<BBH", *_CODES[data.dtype.name], 1)
    raw += struct.pack(f"<{data.ndim}q", *data.shape) + struct.pack("<q", data.nbytes) + data.tobytes()
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
    doubled = [{"type_key": "Array", "data": [i + 4, i + 4]} for i in range(40)] + [_constant(0)]
    section = _metadata({"relay.Constant": doubled}, [np.zeros(1, "int8")])
    found = _refusal(f"def @main(a=meta[relay.Constant][0]) {{ 1 }}{section}")
    assert found == "meta[relay.Constant][0]: a value has more than 65536 parts"


def test_variables_are_found_by_their_names() -> None:
    func = _main("def @main(%resnet/conv0/w, %v1) { add(%resnet/conv0/w, %v1) }")
    assert isinstance(func.body, Call)
    assert isinstance(func.body.args[0], Var)
    assert func.body.args[0] == func.params[0]
