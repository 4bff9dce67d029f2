"""What text looks like."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from legato.arith.expr import const, floordiv, fresh
from legato.base.errors import CompileError
from legato.base.span import Span
from legato.ir._names import TYPE_WORDS
from legato.ir.call_tir import call_tir
from legato.ir.clauses import Clause, PatternConstructor, PatternVar, PatternWildcard
from legato.ir.constraint import Constraint
from legato.ir.equal import alpha_equal
from legato.ir.expr import (
    Call,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from legato.ir.module import Module
from legato.ir.parser import parse, parse_expr
from legato.ir.printer import show, show_type
from legato.ir.types import (
    UNIT,
    FuncType,
    HoleType,
    Kind,
    RefType,
    ShapeType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    scalar_type,
    tensor_type,
)
from tests.ir.programs import BY_NAME, CONS, LIST, NIL, OPS, TYPES, Attrs

ADD, RELU = BY_NAME["add"], BY_NAME["nn.relu"]


@pytest.mark.parametrize("word", sorted(TYPE_WORDS))
def test_every_word_can_name_an_attribute_without_quotes(word: str) -> None:
    attrs = {word: 1, "last": (True, "x")}
    inner = Function((), constant(2), attrs=attrs)
    module = Module({GlobalVar("main"): Function((Var("x"),), inner, attrs=attrs)}, attrs=attrs)
    text = str(module)
    assert text.count(f"{word}=1, last=") == 3
    assert '"' not in text.replace('"0.0.5"', "").replace('"x"', "")
    assert alpha_equal(parse(text, ops=OPS), module)
    assert alpha_equal(parse(text.replace(f"{word}=1", f'"{word}"=1'), ops=OPS), module), "quotes are read"


def test_names_that_are_numbers_are_quoted_as_attributes() -> None:
    assert str(Function((), constant(2), attrs={"inff": 1, "a b": 2})).startswith('fn ("inff"=1, "a b"=2) {')


def test_names_of_type_parameters_end_with_what_binds_them() -> None:
    a, n = TypeVar("A"), fresh("n")
    poly = FuncType((a, tensor_type((n,))), a, (a, n))
    params = (Var("f", ty=poly), Var("g", ty=poly), Var("x", ty=tensor_type((n,))))
    text = "fn [A, n: ShapeVar](A, Tensor[(n,), float32]) -> A"
    x, y = Var("x", ty=a), Var("y", ty=a)
    closures = Tuple((Function((x,), x, type_params=(a,)), Function((y,), y, type_params=(a,))))
    for func, wanted in (
        (Function(params, constant(2)), f"fn [n: ShapeVar](%f: {text}, %g: {text}, %x: Tensor[(n,), float32]) {{"),
        (Function(params, constant(2), type_params=(a, n)), f"fn [A, n: ShapeVar](%f: {text}, %g: {text}, %x: "),
        (Function((), closures), "fn () {\n  %0 = fn [A](%x: A) {\n    %x\n  };\n  %1 = fn [A](%y: A) {"),
        (Function((Var("f", ty=poly), Var("z", ty=a)), closures, type_params=(a,)), f"fn [A](%f: {text}, %z: A) {{"),
    ):
        assert str(func).startswith(wanted)
        again = parse_expr(str(func), ops=OPS)
        assert alpha_equal(again, func)
        assert str(again) == str(func), "one variable bound twice is two when read back, and called the same"


def test_module() -> None:
    n = fresh("n", 1, 512)
    x = Var("x", ty=tensor_type((n, 4 * n + 1)))
    shared = Call(ADD, (x, constant(np.array([0.5, 2], "float32"))))
    y = Var("x")
    body = Let(y, shared, If(constant(True), Call(RELU, (y,), Attrs(axis=2)), Tuple((shared, y))))
    module = Module.from_expr(Function((x,), body, attrs={"Primitive": 1, "Composite": 'a"b'}))
    assert (
        str(module)
        == """\
#[version = "0.0.5"]

def @main[n: ShapeVar(1, 512)](%x: Tensor[(n, 4 * n + 1), float32], Primitive=1, Composite="a\\"b") {
  %0 = add(%x, meta[relay.Constant][0]);
  let %x_1 = %0;
  if (True) {
    nn.relu(%x_1, axis=2)
  } else {
    (%0, %x_1)
  }
}

#[metadata]
{"relay.Constant": [
  {"dtype": "float32", "shape": [2], "data": [0.5, 2.0]}
]}
"""
    )


def test_match_and_data_types() -> None:
    xs, rest = Var("xs"), Var("rest")
    length = GlobalVar("length")
    clauses = (
        Clause(PatternConstructor(CONS, (PatternWildcard(), PatternVar(rest))),
               Call(ADD, (constant(1), Call(length, (rest,))))),
        Clause(PatternConstructor(NIL, ()), constant(0)),
    )  # fmt: skip
    a = TypeVar("A")
    func = Function((xs,), Match(xs, clauses), scalar_type("int32"), (a,))
    module = Module({length: func}, {LIST: TYPES[LIST]})
    assert (
        str(module)
        == """\
#[version = "0.0.5"]

type List[A] {
  Cons(A, List[A]),
  Nil,
}

def @length[A](%xs) -> int32 {
  match (%xs) {
    Cons(_, %rest) => {
      %0 = @length(%rest);
      add(1, %0)
    },
    Nil => 0,
  }
}
"""
    )


def test_extensions() -> None:
    n, k = fresh("n"), fresh("k", 0, 100)
    x = Var("x", ty=tensor_type((n,)))
    cast = MatchCast(x, tensor_type((k,)))
    lv = Var("lv")
    flow = Dataflow(((lv, Call(ADD, (cast, cast))),), (lv, Shape((n, floordiv(k, const(2))))))
    called = call_tir(GlobalVar("fused_add"), (x,), [tensor_type((n,))], [n, k * 2])
    func = Function((x,), Tuple((flow, called)), attrs={"constraints": (Constraint(k, n * 2, "add"),)})
    assert (
        show(func)
        == """\
fn [n: ShapeVar; k: ShapeVar(0, 100)](%x: Tensor[(n,), float32], constraints=[constraint[k, n * 2, "add"]]) {
  %1 = dataflow {
    %0 = match_cast(%x, Tensor[(k,), float32]);
    let %lv = add(%0, %0);
    output(%lv, shape[n, k // 2])
  };
  %2 = call_tir(@fused_add, (%x,), out=[Tensor[(n,), float32]], dims=[n, dim[k * 2]]);
  (%1, %2)
}"""
    )


def test_open_expressions_declare_what_is_free() -> None:
    n = fresh("batch size", None, 8)
    x = Var("input.1", ty=tensor_type((n,)))
    assert show(Call(ADD, (x, x))) == (
        'free_dim batch_size: ShapeVar(?, 8);\nfree_var %"input.1": Tensor[(batch_size,), float32];\n'
        'add(%"input.1", %"input.1")'
    )


def test_a_node_shared_by_branches_is_bound_before_them() -> None:
    x = Var("x")
    shared = Call(RELU, (x,), Attrs())
    text = show(Function((x,), If(x, Call(ADD, (shared, x)), shared)))
    assert text == ("fn (%x) {\n  %0 = nn.relu(%x);\n  if (%x) {\n    add(%0, %x)\n  } else {\n    %0\n  }\n}")


def test_references_in_order() -> None:
    cell = RefCreate(constant(1.0))
    write = RefWrite(cell, constant(2.0))
    assert show(Tuple((write, RefRead(cell)))) == (
        "%0 = ref(1f);\n%1 = ref_write(%0, 2f);\n%2 = ref_read(%0);\n(%1, %2)"
    )


def test_nested_let_and_function() -> None:
    x, y = Var("x"), Var("y")
    inner = Let(y, x, Call(Function((), y), ()))
    assert show(Function((x,), TupleGetItem(inner, 0))) == (
        "fn (%x) {\n  %1 = {\n    let %y = %x;\n    %0 = fn () {\n      %y\n    };\n    %0()\n  };\n  %1.0\n}"
    )


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.0, "float32", "1f"), (-0.0, "float32", "-0f"), (0.1, "float32", "0.1f"), (0.1, "float64", "0.1f64"),
        (1e-5, "float16", "1e-05f16"), (1e30, "float32", "1e+30f"), (float("inf"), "float32", "inff"),
        (float("-inf"), "float64", "-inff64"), (float("nan"), "float16", "nanf16"), (7, "int32", "7"),
        (-7, "int64", "-7i64"), (255, "uint8", "255u8"), (-128, "int8", "-128i8"), (True, "bool", "True"),
        ((1 << 64) - 1, "uint64", "18446744073709551615u64"), (1.5, ml_dtypes.bfloat16, "1.5bf16"),
    ],
)  # fmt: skip
def test_scalars(value: float, dtype: str, text: str) -> None:
    assert show(constant(np.array(value, dtype))) == text


def test_nan_with_a_payload_goes_to_the_metadata() -> None:
    odd = np.array(0x7FC00001, "uint32").view("float32")
    assert show(constant(odd)).endswith('{"dtype": "float32", "shape": [], "bits": "0100c07f"}\n]}\n')


def test_signalling_nans_are_written_without_a_warning() -> None:
    odd = np.array([0x7F81], "uint16").view(ml_dtypes.bfloat16)
    assert show(constant(odd)).endswith('{"dtype": "bfloat16", "shape": [1], "bits": "817f"}\n]}\n')


_A, _N = TypeVar("A"), fresh("n")


@pytest.mark.parametrize(
    ("ty", "text"),
    [
        (tensor_type((1, 2)), "Tensor[(1, 2), float32]"), (tensor_type((3,)), "Tensor[(3,), float32]"),
        (scalar_type("bool"), "bool"), (UNIT, "()"), (TupleType((scalar_type("int8"),)), "(int8,)"),
        (RefType(UNIT), "ref(())"), (TypeCall(LIST, (UNIT,)), "List[()]"), (HoleType(), "_"), (ShapeType(), "Shape"),
        (ShapeType((_N, const(2))), "Shape[(n, 2)]"),
        (FuncType((_A, tensor_type((_N,))), _A, (_A, _N)), "fn [A, n: ShapeVar](A, Tensor[(n,), float32]) -> A"),
        (TupleType((TypeVar("A"), TypeVar("A", Kind.BASE_TYPE), TypeVar("int8"))), "(A, A_1, int8_1)"),
    ],
)  # fmt: skip
def test_types(ty: Type, text: str) -> None:
    assert show_type(ty) == text
    assert str(ty) == text


def test_types_as_comments() -> None:
    x = Var("x", ty=tensor_type((2,)))
    call: Expr = Call(ADD, (x, x), ty=tensor_type((2,)))
    text = show(Function((x,), Call(ADD, (call, x))), types=True)
    assert "  %0 = add(%x, %x) /* ty=Tensor[(2,), float32] */;\n" in text


def test_comments() -> None:
    x = Var("x", ty=tensor_type((2,)), span=Span("m", 1, 1, 1, 2))
    call = Call(ADD, (x, x), ty=tensor_type((2,)), span=Span("/*a*/b", 3, 4, 3, 9))
    func = Function((x,), Tuple((call, call)))
    assert show(func, types=True, spans=True, annotate=lambda e: type(e).__name__) == (
        "fn (%x: Tensor[(2,), float32]) {\n"
        "  %0 = add(%x, %x) /* ty=Tensor[(2,), float32] span=/ *a* /b:3:4 Call */;\n"
        "  (%0, %0) /* Tuple */\n}"
    )
    assert alpha_equal(parse_expr(show(func, spans=True), ops=OPS), func)
    assert show(func, annotate=lambda e: "") == show(func)


def test_constants_in_the_text() -> None:
    wide = Function((), constant(np.arange(400, dtype="float64")))
    assert '"tensor": "constant_0"' in show(wide)
    assert alpha_equal(parse_expr(show(wide, inline=None), ops=()), wide)
    assert '"data": [1.0, 2.0]' in show(constant(np.array([1.0, 2.0])), inline=16)
    assert '"tensor": "constant_0"' in show(constant(np.array([1.0, 2.0])), inline=15)


def test_a_field_of_a_number_is_no_number_with_a_fraction() -> None:
    field = Function((), TupleGetItem(constant(0), 0))
    assert "(0).0" in show(field)
    assert alpha_equal(parse_expr(show(field), ops=()), field)


def test_without_metadata() -> None:
    assert show(constant(np.zeros(2, "int8")), metadata=False) == "meta[relay.Constant][0]"


def test_a_value_that_has_no_text() -> None:
    with pytest.raises(CompileError) as caught:
        show(Function((), constant(1), attrs={"what": object()}))
    assert str(caught.value) == "error: attribute what of a function holds a object, which has no text form"


def test_an_expression_is_its_text_and_repr_is_one_line() -> None:
    x = Var("x", ty=scalar_type("float32"))
    func = Function((x,), Call(RELU, (x,)))
    assert str(func) == "fn (%x: float32) {\n  nn.relu(%x)\n}"
    assert str(x) == "free_var %x: float32;\n%x"
    assert (repr(func), repr(x)) == ("<Function>", "<Var name='x': float32>")
    assert "meta[relay.Constant][0]" in str(Call(ADD, (x, constant(np.arange(10_000, dtype="float32")))))
