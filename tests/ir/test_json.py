"""Modules as JSON: what comes back, and what is said of JSON that is no module."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from legato.arith.expr import Select, const, fresh, lt
from legato.base import dtype as dt
from legato.base.errors import CompileError, ParseError
from legato.base.span import Span
from legato.ir.call_tir import call_tir
from legato.ir.constraint import Constraint
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Constant, Expr, Function, GlobalVar, Let, Tuple, Var, constant
from legato.ir.json_load import load_json
from legato.ir.json_save import save_json
from legato.ir.module import Module
from legato.ir.types import GlobalTypeVar, ShapeType, TensorType, TupleType, Type, scalar_type, tensor_type
from legato.ir.verify import verify
from legato.tir.parser import parse_func
from tests.ir.programs import BY_NAME, OPS, TYPES, Attrs, modules
from tests.programs.settings import examples

ADD, RELU = BY_NAME["add"], BY_NAME["nn.relu"]


def _again(module: Module) -> Module:
    return load_json(save_json(module), ops=OPS)


def _body(module: Module) -> Any:
    func = module["main"]
    assert isinstance(func, Function)
    return func.body


def test_types_spans_and_sharing() -> None:
    n = fresh("n", 1, 9)
    ty = tensor_type((n, n * 2))
    x = Var("x", ty=ty, span=Span("m.relay", 1, 2, 3, 4))
    use = Var("x", uid=x.uid)
    shared = Call(ADD, (x, use), ty=ty, span=Span("model.onnx"))
    pair = Tuple((shared, shared), ty=TupleType((ty, ty)))
    main = _again(Module.from_expr(Function((x,), pair)))["main"]
    assert isinstance(main, Function)
    a, b = main.body.children()
    assert a is b
    assert isinstance(a, Call)
    assert a.span == Span("model.onnx")
    assert main.params[0].span == Span("m.relay", 1, 2, 3, 4)
    assert a.args[0] is main.params[0]
    assert a.args[1] == main.params[0]
    assert a.args[1].ty is None
    assert isinstance(a.ty, TensorType)
    assert isinstance(main.params[0].ty, TensorType)
    assert a.ty.shape == main.params[0].ty.shape
    found = a.ty.shape[0]
    assert str(a.ty) == "Tensor[(n, n * 2), float32]"
    assert getattr(found, "hi", None) == 9


def test_a_dim_is_one_variable_in_all_functions() -> None:
    n = fresh("n")
    kernel = parse_func("kernel @k(a: Buffer[(n,), int32], n: index) {\n  for i in 0..n { a[i] = 1i32; }\n}")
    x = Var("x", ty=tensor_type((n,)))
    gv = GlobalVar("k")
    body = call_tir(gv, (x,), [tensor_type((n,))], [n], operators=["nn.relu"])
    other = Function((Var("y", ty=ShapeType((n,))),), constant(1))
    again = _again(Module({gv: kernel, GlobalVar("main"): Function((x,), body), GlobalVar("f"): other}))
    first, second = again["main"], again["f"]
    assert isinstance(first, Function)
    assert isinstance(second, Function)
    assert isinstance(first.params[0].ty, TensorType)
    assert isinstance(second.params[0].ty, ShapeType)
    assert second.params[0].ty.dims == first.params[0].ty.shape
    assert isinstance(first.body, Call)
    assert first.body.attrs.dims == first.params[0].ty.shape
    assert str(again["k"]) == str(kernel)


def test_attribute_values() -> None:
    n = fresh("n")
    values = {
        "a": (1, 1.0, -0.0, float("inf"), True, None, "\ud800\n"), "b": {"x": n * 2, "y": scalar_type("int8")},
        "c": (Constraint(n, const(3), "why", Span("s", 1, 1, 1, 2)),), "d": np.arange(3), "e": float("nan"),
        "f": Select(lt(n, 3), n, const(3)), "g": dt.bfloat16,
    }  # fmt: skip
    func = Function((), constant(1), attrs=values)
    again = _again(Module({GlobalVar("main"): func}, {}, {"v": values["a"]}, {"held": np.eye(2)}))
    found = again["main"]
    assert isinstance(found, Function)
    assert repr(found.attrs["a"]) == repr(values["a"])
    assert repr(again.attrs["v"]) == repr(values["a"])
    assert alpha_equal(again, Module({GlobalVar("main"): func}, {}, {"v": values["a"]}, {"held": np.eye(2)}))


def test_arrays_are_shared_exact_and_read_only() -> None:
    odd = np.array([0x7FC00001, 0x80000000], "uint32").view("float32").copy()
    odd.setflags(write=False)
    a, b = constant(odd), constant(odd)
    assert a.data is b.data
    first, second = _body(_again(Module.from_expr(Tuple((a, b))))).children()
    assert isinstance(first, Constant)
    assert first.data is second.data
    assert first.data.tobytes() == odd.tobytes()
    assert not first.data.flags.writeable


def test_what_has_no_json_form() -> None:
    def message(func: Expr, types: Any = TYPES) -> str:
        with pytest.raises(CompileError) as caught:
            save_json(Module({GlobalVar("main"): Function((), func)}, types))
        return caught.value.message

    assert message(Function((), constant(1), attrs={"a": object()})) == (
        "attribute a of a function holds a object, which has no JSON form"
    )
    assert message(GlobalVar("f")) == "function @f is not defined in the module"
    assert message(Var("x", ty=GlobalTypeVar("T"))) == "data type T is not defined in the module"
    deep: Type = scalar_type("int8")
    for _ in range(100):
        deep = TupleType((deep,))
    assert message(Var("x", ty=deep)) == "a type is nested more than 100 deep, so it has no JSON form"


# ---------------------------------------------------------------------------------------------- damaged JSON


def _small() -> dict[str, Any]:
    x = Var("x", ty=tensor_type((fresh("n"),)))
    module = Module({GlobalVar("main"): Function((x,), Let(Var("y"), Call(RELU, (x,), Attrs()), constant([1, 2])))})
    found: dict[str, Any] = json.loads(save_json(module))
    return found


def _put(path: str, value: Any) -> str:
    """The small module with one entry replaced."""
    root: Any = _small()
    at = root
    *steps, last = path.split("/")
    for step in steps:
        at = at[int(step) if step.isdigit() else step]
    at[int(last) if last.isdigit() else last] = value
    return json.dumps(root)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "m: not JSON: Expecting value at line 1, column 2"),
        ("[1]", 'm: this is no module: it does not begin with {"legato": "module"'),
        ('{"legato": "module", "version": 2}', "m: version 2 cannot be read, only version 1"),
        ('{"legato": "module", "version": "' + "2" * 1000 + '"}', 'm: version "222'),
        ('{"legato": "module", "version": 1, "dims": [NaN]}', "m: NaN is not JSON"),
        ('{"legato": "module", "legato": "module"}', "m: an object has 'legato' twice"),
        ("[" * 100_000, "m: the JSON is nested too deeply"),
        ("[" + "1" * 401 + "]", "m: a number has more than 400 characters"),
        (_put("more", 1), "m: unknown field 'more'"),
        (_put("dims/0", ["var", "n", 5, 1]), "m: dims[0]: expected a range that is not empty, got [5, 1]"),
        (_put("dims/0", ["+", 0, 0]), "m: dims[0]: expected the number of a dim before this, got 0"),
        (_put("dims/0", ["int", 1.5]), "m: dims[0]: expected an integer, got 1.5"),
        (_put("types/0", ["tensor", [0], "int7"]), 'm: types[0]: expected a dtype, got "int7"'),
        (_put("types/0", ["tensor", [0]]), 'm: types[0]: expected a list of 2, got [[0]]'),
        (_put("types/0", ["tensor", [0] * 65, "int8"]), "m: types[0]: expected at most 64 dims, got [0, 0"),
        (_put("types/0", ["data", 0]), "m: types[0]: expected the number of a data type before this, got 0"),
        (_put("arrays/0", ["int64", [3], "AAAA"]), "m: arrays[0]: int64[3] has 24 bytes, got 3"),
        (_put("arrays/0", ["int64", [2], "?"]), "m: arrays[0]: the data of the array is not base64"),
        (_put("arrays/0", ["bool", [1], "Ag=="]), "m: arrays[0]: an array of bool has a byte that is neither 0 nor 1"),
        (_put("arrays/0", ["int64", [2], {"tensor": "t"}]),
         "m: arrays[0]: 't' lies in a side file: pass tensors=, or load the file that names it"),
        (_put("nodes/0/name", "nn.rleu"), "m: nodes[0]: unknown operator 'nn.rleu'"),
        (_put("nodes/2/op", 2), "m: nodes[2]: expected the number of a node before this, got 2"),
        (_put("nodes/2/attrs", {"axis": 1, "foo": 2}), "m: nodes[2]: nn.relu has no attribute 'foo'"),
        (_put("nodes/2/node", "calls"), "m: nodes[2]: expected a node, got "),
        (_put("nodes/2/args", [1, 2, 3]), "m: nodes[2]: expected the number of a node before this, got 2"),
        (_put("nodes/0/ty", 0), "m: nodes[0]: unknown field 'ty'"),
        (_put("nodes/1/ty", -1), "m: nodes[1]: expected the number of a type before this, got -1"),
        (_put("functions/0/body", 0), "m: functions[0]: expected a function, got 0"),
        (_put("functions/0", {"global": 0, "program": "kernel"}),
         "m: functions[0]: expected a function that is not defined yet, got 0"),
        (_put("attrs", []), "m: attrs: expected an object, got []"),
        (_put("constants", {"a": 7}), "m: constants: expected the number of an array before this, got 7"),
    ],
)  # fmt: skip
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        load_json(text, ops=OPS, name="m")
    assert caught.value.message.startswith(message)
    assert len(caught.value.message) < 250


def test_types_that_grow() -> None:
    doubled = [["tuple", []], *(["tuple", [i, i]] for i in range(40))]
    assert _refusal(_put("types", doubled)) == "m: types[16]: a type has more than 65536 parts"
    deep = [["tuple", []], *(["tuple", [i]] for i in range(200))]
    assert _refusal(_put("types", deep)) == "m: types[100]: a type is nested more than 100 deep"
    dims = [["var", "n", 0, None], *(["+", i, i] for i in range(40))]
    assert _refusal(_put("dims", dims)) == "m: dims[14]: a dim has more than 16384 parts"


def test_nesting_that_cannot_be_shown() -> None:
    nested = "[" * 98 + '{"x": ' + "[" * 800 + "]" * 800 + "}" + "]" * 98
    with pytest.raises(ParseError):
        load_json(_put("attrs", {"a": "here"}).replace('"here"', nested), ops=OPS)


def test_a_name_twice_among_many() -> None:
    names = ", ".join(f'"{i}": 0' for i in range(100_000))
    assert _refusal(f'{{{names}, "99999": 0}}') == "m: an object has '99999' twice"


def _refusal(text: str) -> str:
    with pytest.raises(ParseError) as caught:
        load_json(text, ops=OPS, name="m")
    return caught.value.message


_BYTES = [*map(chr, range(32, 127)), "\n", "\x00", "é"]


@examples(15)
@given(modules(), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2), st.sampled_from(["", *_BYTES])), min_size=1,
                           max_size=2))  # fmt: skip
@example(Module({}), [(1.0, 2, "")])
def test_damaged_json_is_refused_or_well_formed(module: Module, edits: list[tuple[float, int, str]]) -> None:
    text = save_json(module)
    for place, removed, inserted in edits:
        at = int(place * len(text))
        text = f"{text[:at]}{inserted}{text[at + removed :]}"
    with suppress(CompileError):
        verify(load_json(text, ops=OPS))


@examples(12)
@given(modules(), st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 1 << 30)), min_size=1, max_size=3))
def test_changed_entries_are_refused_or_well_formed(module: Module, swaps: list[tuple[int, int]]) -> None:
    root = json.loads(save_json(module))
    for there, here in swaps:  # one part becomes a copy of another
        slots = list(_slots(root))
        holder, key = slots[there % len(slots)]
        other, index = slots[here % len(slots)]
        holder[key] = copy.deepcopy(other[index])
    with suppress(CompileError):
        again = load_json(json.dumps(root), ops=OPS)
        verify(again)
        assert save_json(load_json(save_json(again), ops=OPS)) == save_json(again)
        str(again)


def _slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value that holds a value: the list or object, and the index or name."""
    entries = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, inner in entries:
        yield value, key
        yield from _slots(inner)
