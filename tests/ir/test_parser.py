"""What text means, and what is said of text that means nothing."""

from __future__ import annotations

import numpy as np
import pytest

from legato.arith.expr import Var as DimVar
from legato.arith.expr import const, floordiv, floormod
from legato.base.errors import ParseError
from legato.ir.equal import alpha_equal
from legato.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    Match,
    MatchCast,
    RefCreate,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from legato.ir.module import Module
from legato.ir.parser import parse, parse_expr, parse_type
from legato.ir.types import FuncType, RefType, ShapeType, TensorType, TupleType, TypeCall, TypeVar, scalar_type
from tests.ir.programs import BY_NAME, OPS, TYPES, Attrs, op

ADD, SUB, MUL, DIV = (BY_NAME[n] for n in ("add", "subtract", "multiply", "divide"))
LESS, EQUAL = BY_NAME["less"], BY_NAME["equal"]
_LISTS = "type List[A] { Cons(A, List[A]), Nil }\n"


def _expr(text: str) -> Expr:
    return parse_expr(text, ops=OPS, module=Module({}, TYPES))


def _module(text: str) -> Module:
    return parse(f'#[version = "0.0.5"]\n{text}', ops=OPS)


def _main(text: str) -> Function:
    found = _module(text)["main"]
    assert isinstance(found, Function)
    return found


def _scalar(text: str) -> Constant:
    found = _expr(text)
    assert isinstance(found, Constant)
    return found


# ---------------------------------------------------------------------------------------------- Relay's own samples


def test_references() -> None:
    func = _main("""def @main(%x: float32) {
        %0 = ref(%x);
        ref_write(%0, 1f);
        ref_read(%0)
    }""")
    assert isinstance(func.body, Let)
    assert func.body.var.name == "_"
    write, read = func.body.value, func.body.body
    assert write.children()[0] is read.children()[0]
    assert isinstance(read.children()[0], RefCreate)


def test_length_of_a_list() -> None:
    module = _module("""
        def @length[A](%xs: List[A]) -> Tensor[(), int32] {
          match (%xs) {
            Cons(_, %rest) => 1 + @length(%rest),
            Nil => 0,
          }
        }
        type List[A] { Cons(A, List[A]), Nil, }""")
    length = module["length"]
    assert isinstance(length, Function)
    assert isinstance(length.body, Match)
    assert length.body.complete
    assert isinstance(length.params[0].ty, TypeCall)
    assert length.ret_type == scalar_type("int32")
    assert length.type_params == length.params[0].ty.args


def test_a_partitioned_function() -> None:
    func = _main("""def @main(%x0 : Tensor[(16, 7), float16], %c: Tensor[(16, 7), float16]) {
      let %f = fn(%y_0_i0: Tensor[(16, 7), float16], Inline=1, Compiler="cutlass", global_symbol="main_0", Primitive=1)
          -> Tensor[(16, 7), float16] {
        %4 = fn (%FunctionVar_0_0: Tensor[(16, 7), float16], PartitionedFromPattern="nn.dense_add_") {
          %5 = nn.relu(%FunctionVar_0_0, axis=1);  add(%5, %c) };
        %4(%y_0_i0) };
      %1 = %f(%x0);
      (%1, %1)
    }""")
    assert isinstance(func.body, Let)
    inner = func.body.value
    assert isinstance(inner, Function)
    assert dict(inner.attrs) == {"Inline": 1, "Compiler": "cutlass", "global_symbol": "main_0", "Primitive": 1}


def test_an_extern_type_may_be_followed_by_anything() -> None:
    module = _module("extern type Storage\ndef @main(%x: Storage) { %x }")
    assert [t.extern for t in module.types.values()] == [True]
    assert "main" in module


def test_devices_are_dropped() -> None:
    func = _main("def @main(%x {virtual_device=meta[VirtualDevice][0]}: int8) { %x }")
    assert func.params[0].ty == scalar_type("int8")


def test_comments_nest() -> None:
    assert _scalar("/* a /* b */ c */ 1 // 2\n").data == 1


# ---------------------------------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "value", "dtype"),
    [
        ("1", 1, "int32"), ("2147483648", 2147483648, "int64"), ("-2147483648", -2147483648, "int32"),
        ("2i64", 2, "int64"), ("-42i", -42, "int32"),
        ("3i16", 3, "int16"), ("200u8", 200, "uint8"), ("--10", 10, "int32"),
        ("1f", 1, "float32"), ("1.5e-3f64", 1.5e-3, "float64"), ("-inff", float("-inf"), "float32"),
        ("True", True, "bool"),
    ],
)  # fmt: skip
def test_literals(text: str, value: float, dtype: str) -> None:
    found = _scalar(text)
    assert found.data == np.array(value, dtype)
    assert found.data.dtype == dtype


def test_operators_bind_as_in_relay() -> None:
    free = "free_var %a; free_var %b; free_var %c; "
    tree = _expr(free + "%a - %b - %c * %a / %b < %c + -1 == %a")
    assert isinstance(tree, Call)

    def show(e: Expr) -> str:
        if isinstance(e, Call):
            assert isinstance(e.op, type(ADD))
            return f"{e.op.name}({', '.join(map(show, e.args))})"
        return e.name if isinstance(e, Var) else str(e.data) if isinstance(e, Constant) else "?"

    assert show(tree) == ("equal(less(subtract(subtract(a, b), divide(multiply(c, a), b)), add(c, -1)), a)")


def test_calls_and_projections() -> None:
    found = _expr("free_var %f; %f(1, 2)(3).0.1")
    assert isinstance(found, TupleGetItem)
    assert found.index == 1
    outer = found.value.children()[0]
    assert isinstance(outer, Call)
    assert isinstance(outer.op, Call)


def test_tuples() -> None:
    assert [len(_expr(t).children()) for t in ("()", "(1,)", "(1, 2)", "(1, 2,)")] == [0, 1, 2, 2]
    assert isinstance(_expr("((1))"), Constant)


def test_attributes_take_the_form_of_their_fields() -> None:
    call = _expr('free_var %x; nn.relu(%x, axis=-2, epsilon=1, keep=True, name="a\\n\\"", padding=[1, (2, None)], '
                 "out_dtype=float16)")  # fmt: skip
    assert isinstance(call, Call)
    attrs = call.attrs
    assert isinstance(attrs, Attrs)
    assert (attrs.axis, attrs.epsilon, attrs.keep, attrs.name) == (-2, 1.0, True, 'a\n"')
    assert isinstance(attrs.epsilon, float)
    assert attrs.padding == (1, (2, None))
    assert str(attrs.out_dtype) == "float16"


def test_a_variadic_operator_packs_its_arguments() -> None:
    call = _expr("free_var %a; free_var %b; concatenate(%a, %b, axis=0)")
    assert isinstance(call, Call)
    assert isinstance(call.args[0], Tuple)


def test_graph_bindings_share() -> None:
    pair = _expr("%0 = ref(1); (%0, %0)")
    assert pair.children()[0] is pair.children()[1]


def test_the_same_entry_is_the_same_constant() -> None:
    text = """(meta[relay.Constant][0], meta[relay.Constant][0], meta[relay.Constant][1])
    #[metadata]
    {"relay.Constant": [{"dtype": "int8", "shape": [2], "data": [1, -1]},
                        {"dtype": "bfloat16", "shape": [1], "bits": "803f"}]}"""
    a, b, c = _expr(text).children()
    assert a is b
    assert isinstance(a, Constant)
    assert isinstance(c, Constant)
    assert a.data.tolist() == [1, -1]
    assert float(c.data[0]) == 1.0
    assert not a.data.flags.writeable


def test_let_scopes() -> None:
    shadow = _main("def @main(%x) { let %x = add(%x, %x); %x }")
    assert isinstance(shadow.body, Let)
    assert isinstance(shadow.body.value, Call)
    assert shadow.body.value.args[0] == shadow.params[0]
    assert shadow.body.body == shadow.body.var
    loop = _main("def @main(%f) { let %f = fn (%x) { %f(%x) }; %f }")
    assert isinstance(loop.body, Let)
    assert isinstance(loop.body.value, Function)
    assert isinstance(loop.body.value.body, Call)
    assert loop.body.value.body.op == loop.body.var


def test_none_may_be_a_constructor() -> None:
    module = _module("""type Option[A] { Some(A), None }
        def @main(%x: Option[int8]) { match (%x) { Some(%v) => (%v, "None"), None => (1i8, None) } }""")
    assert alpha_equal(parse(str(module), ops=OPS), module)


def test_else_if() -> None:
    found = _expr("if (True) { 1 } else if (False) { 2 } else { 3 }")
    assert isinstance(found, If)
    assert isinstance(found.orelse, If)


def test_constructors() -> None:
    nil = _expr("List.Nil")
    assert isinstance(nil, Call)
    assert alpha_equal(_expr("List.Nil()"), nil)
    assert _expr("&List.Nil") is nil.op
    assert _expr("&Cons") is BY_NAME["Cons"]
    assert alpha_equal(_expr('"let"(1)'), Call(BY_NAME["let"], (constant(1),)))


# ---------------------------------------------------------------------------------------------- types and dims


def test_dims() -> None:
    func = _main("""def @main[n: ShapeVar(1, 512)](%x: Tensor[(n, 4*m + 1, n//2, m % 3, ?), float32]) {
        shape[m, min(n, m)]
    }""")
    assert isinstance(func.params[0].ty, TensorType)
    n, m, any_ = func.type_params
    assert isinstance(n, DimVar)
    assert isinstance(m, DimVar)
    assert isinstance(any_, DimVar)
    assert (n.name, n.lo, n.hi) == ("n", 1, 512)
    assert (m.name, m.lo, m.hi) == ("m", 0, None)
    assert func.params[0].ty.shape == (n, 4 * m + 1, floordiv(n, const(2)), floormod(m, const(3)), any_)
    assert isinstance(func.body, Shape)
    assert func.body.dims[0] is m


def test_dims_in_types_of_functions() -> None:
    text = "fn (Tensor[(m,), int8]) -> Tensor[(k,), int8], fn [m: ShapeVar](Tensor[(m,), int8]) -> Tensor[(k,), int8]"
    func = _main(f"def @main(%f: ({text}), %x: Tensor[(m, k), int8]) {{ %x }}")
    pair, x = (p.ty for p in func.params)
    assert isinstance(pair, TupleType)
    assert isinstance(x, TensorType)
    plain, poly = pair.fields
    assert isinstance(plain, FuncType)
    assert isinstance(poly, FuncType)
    assert func.type_params == x.shape
    assert (*plain.params, plain.ret) == tuple(TensorType((d,), x.dtype) for d in x.shape)
    assert poly.ret == plain.ret
    assert poly.params != plain.params, "its m is its own"


def test_every_question_mark_is_a_dim_of_its_own() -> None:
    func = _main("def @main(%x: Tensor[(?, ?), int8]) { %x }")
    assert isinstance(func.params[0].ty, TensorType)
    a, b = func.params[0].ty.shape
    assert a is not b
    assert func.type_params == (a, b)


def test_match_cast_introduces_dims() -> None:
    func = _main("def @main(%x) { let %y = match_cast(%x, Tensor[(k, k), int8]); shape[k] }")
    assert isinstance(func.body, Let)
    assert isinstance(func.body.value, MatchCast)
    target = func.body.value.target
    assert isinstance(target, TensorType)
    assert isinstance(func.body.body, Shape)
    assert func.body.body.dims == target.shape[:1]
    assert func.type_params == ()


def test_types() -> None:
    a = parse_type("fn [A, n: ShapeVar](A, Tensor[(n), int8]) -> ref(A)")
    assert isinstance(a, FuncType)
    assert isinstance(a.ret, RefType)
    assert isinstance(a.type_params[0], TypeVar)
    assert parse_type("((int8), (int8,), ())") == TupleType(
        (scalar_type("int8"), TupleType((scalar_type("int8"),)), TupleType(()))
    )
    assert parse_type("Shape") == ShapeType()


# ---------------------------------------------------------------------------------------------- errors


def _error(text: str) -> str:
    with pytest.raises(ParseError) as caught:
        _expr(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.0", "invalid number `1.0`: a float literal needs a suffix\n  at <text>:1:1\n  | 1.0\n  | ^^^\n"
                "  hint: write 1.0f for float32, 1.0f64 for float64"),
        ("add(%x, 1)", "unknown variable `%x`\n  at <text>:1:5\n  | add(%x, 1)\n  |     ^^"),
        ("free_var %input;\nadd(%inptu, 1)", "unknown variable `%inptu`\n  at <text>:2:5\n  | add(%inptu, 1)\n"
         "  |     ^^^^^^\n  hint: did you mean `%input`?"),
        ("%3", "`%3` is not bound here\n  at <text>:1:1\n  | %3\n  | ^^\n"
               "  hint: a graph binding `%3 = …;` comes before its use"),
        ("nn.rleu(1)", "unknown operator or constructor `nn.rleu`\n  at <text>:1:1\n  | nn.rleu(1)\n  | ^^^^^^^\n"
                       "  hint: did you mean `nn.relu`?"),
        ("nn.relu(1, 2)", "nn.relu: got 2 arguments, wanted 1: x\n  at <text>:1:1\n  | nn.relu(1, 2)\n  | ^^^^^^^"),
        ("nn.relu(1, foo=2)", "nn.relu has no attribute 'foo'\n  at <text>:1:1\n  | nn.relu(1, foo=2)\n  | ^^^^^^^\n"
                              "  hint: its attributes are axis, epsilon, keep, name, padding, out, out_dtype"),
        ("negative(1, a=2)", "negative has no attributes; got a\n  at <text>:1:1\n  | negative(1, a=2)\n  | ^^^^^^^^"),
        ("nn.relu(1, axis=1, axis=2)", "attribute `axis` is given twice\n  at <text>:1:20\n"
         "  | nn.relu(1, axis=1, axis=2)\n  |                    ^^^^"),
        ("nn.relu(axis=1, 1)", "an argument must come before the attributes\n  at <text>:1:17\n"
         "  | nn.relu(axis=1, 1)\n  |                 ^"),
        ("nn.relu(1, name=abc)", "unknown value `abc`\n  at <text>:1:17\n  | nn.relu(1, name=abc)\n"
         '  |                 ^^^\n  hint: a string is written in quotes: "abc"'),
        ("-add(1, 2)", "- stands before numbers only\n  at <text>:1:1\n  | -add(1, 2)\n  | ^\n"
                       "  hint: negative(x) negates an expression"),
        ("300u8", "300u8 does not fit uint8\n  at <text>:1:1\n  | 300u8\n  | ^^^^^"),
        ("1e39f", "1e39f does not fit float32\n  at <text>:1:1\n  | 1e39f\n  | ^^^^^"),
        ("1e999f64", "1e999f64 does not fit float64\n  at <text>:1:1\n  | 1e999f64\n  | ^^^^^^^^"),
        ("(1, 2", "expected `,` or `)`, got the end of the text\n  at <text>:1:6\n  | (1, 2\n  |      ^"),
        ("1 2", "expected the end of the text, got `2`\n  at <text>:1:3\n  | 1 2\n  |   ^"),
        ("if (True) { 1 }", "expected `else`, got the end of the text\n  at <text>:1:16\n  | if (True) { 1 }\n"
         "  |                ^\n  hint: both branches are written: if (…) { … } else { … }"),
        ("1 and 2", "expected the end of the text, got `and`\n  at <text>:1:3\n  | 1 and 2\n  |   ^^^\n"
                    "  hint: write logical_and(a, b)"),
        ("{ 1; }", "a block ends with its result, not with `;`\n  at <text>:1:6\n  | { 1; }\n  |      ^\n"
                   "  hint: write () for the unit value"),
        ("%x = 1; %x", "expected `let %x = …`\n  at <text>:1:1\n  | %x = 1; %x\n  | ^^\n"
                       "  hint: only %0, %1, … are bound without let"),
        ("let %0 = 1; 2", "`%0` names a graph binding, not a variable\n  at <text>:1:5\n  | let %0 = 1; 2\n  |     ^^\n"
                          '  hint: variables have a letter in their name, or quotes: %"0"'),
        ("fn (%x, %x) { 1 }", "two parameters are called `%x`\n  at <text>:1:9\n  | fn (%x, %x) { 1 }\n"
                              "  |         ^^"),
        ("Nil", "several data types have a constructor `Nil`\n  at <text>:1:1\n  | Nil\n  | ^^^\n"
                "  hint: put the type's name before it: Type.Constructor"),
        ("meta[relay.Constant][0]", "meta[…] needs a #[metadata] section, and the text has none\n"
         "  at <text>:1:1\n  | meta[relay.Constant][0]\n  | ^^^^"),
        ('meta[Conv2DAttrs][0]\n#[metadata]\n{}', "the metadata section has no Conv2DAttrs\n  at <text>:1:6\n"
         "  | meta[Conv2DAttrs][0]\n  |      ^^^^^^^^^^^"),
        ("let %x: Foo = 1; 2", "unknown type `Foo`\n  at <text>:1:9\n  | let %x: Foo = 1; 2\n  |         ^^^\n"
         "  hint: types are Tensor[(…), dtype], a dtype (a scalar), (…), fn (…) -> T, ref(T), Shape[(…)] and the "
         "module's data types"),
        ("let %x: Tensor[(2,), float33] = 1; 2", "unknown dtype `float33`\n  at <text>:1:22\n"
         "  | let %x: Tensor[(2,), float33] = 1; 2\n  |                      ^^^^^^^\n"
         "  hint: one of bool, float16, float32, float64, bfloat16, int8, int16, int32, int64, uint8, uint16, uint32, "
         "uint64, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu, float6_e2m3fn, "
         "float6_e3m2fn, float4_e2m1fn, int4, uint4, int2, uint2, string"),
        ("shape[1i32]", "expected a dim, got a scalar of dtype int32\n  at <text>:1:7\n  | shape[1i32]\n"
         "  |       ^^^^\n  hint: dims are plain integers, names and + - * // % min max over them"),
        ("fn [n: ShapeVar(5, 1)](%x) { %x }", "the range of n is empty: 5 > 1\n  at <text>:1:21\n"
         "  | fn [n: ShapeVar(5, 1)](%x) { %x }\n  |                     ^"),
        ("let %x: Tensor[(" + "1, " * 65 + "), bool] = 1; 2", "a tensor has 65 dims, more than the limit of 64\n"
         "  at <text>:1:16\n  | let %x: Tensor[(" + "1, " * 65 + "), bool] = 1; 2\n  |                ^"),
        ("1" * 401, "this number has more than 400 characters\n  at <text>:1:1\n"
         "  | " + "1" * 401 + "\n  | " + "^" * 401),
        ("let %x: " + "(" * 101, "types, patterns and attributes may be nested 100 deep, not more\n  at <text>:1:109\n"
         "  | let %x: " + "(" * 101 + "\n  | " + " " * 108 + "^"),
    ],
)  # fmt: skip
def test_errors(text: str, message: str) -> None:
    assert _error(text) == f"parse error: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('#[version = "0.0.4"]', 'unknown version 0.0.4\n  at m.relay:1:1\n  | #[version = "0.0.4"]\n'
         "  | ^^^^^^^^^^^^^^^^^^^^\n  hint: only version 0.0.5 can be read"),
        ('#[version = "0.0.5"]\ndef @f() { @g() }', "unknown function `@g`\n  at m.relay:2:12\n  | def @f() { @g() }\n"
         "  |            ^^\n  hint: defined are @f"),
        ('#[version = "0.0.5"]\ndef @f() { 1 } def @f() { 1 }', "function `@f` is defined twice\n  at m.relay:2:20\n"
         "  | def @f() { 1 } def @f() { 1 }\n  |                    ^^"),
        ('#[version = "0.0.5"]\ntype T { A } type T { B }', "type `T` is defined twice\n  at m.relay:2:19\n"
         "  | type T { A } type T { B }\n  |                   ^"),
        ('#[version = "0.0.5"]\n42', "expected a definition (def, type, extern type, kernel, host, attributes, "
         "constant), got `42`\n  at m.relay:2:1\n  | 42\n  | ^^"),
        ('#[version = "0.0.5"]\nconstant @a = meta[relay.Constant][0]\n#[metadata]\n{"relay.Constant": [}',
         "the metadata section is not JSON: Expecting value\n  at m.relay:4:21\n"
         '  | {"relay.Constant": [}\n  |                     ^'),
    ],
)  # fmt: skip
def test_errors_in_modules(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text, source="m.relay", ops=OPS)
    assert str(caught.value) == f"parse error: {message}"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("3", "expected an object with dtype, shape and data"),
        ('{"shape": [], "data": [1]}', '"dtype" is missing'),
        ('{"dtype": "int7", "shape": [], "data": [1]}', "unknown dtype 'int7'"),
        ('{"dtype": "int8", "shape": [-1], "data": [1]}', '"shape" is not a list of at most 64 sizes'),
        ('{"dtype": "int8", "shape": [1099511627776], "data": [1]}',
         "shape (1099511627776,) has 1099511627776 elements, got 1"),
        ('{"dtype": "int8", "shape": [0, 4611686018427387904, 4611686018427387904], "data": []}',
         "shape (0, 4611686018427387904, 4611686018427387904) is too large"),
        ('{"dtype": "int8", "shape": [1], "data": [300]}', '"data" has an element that does not fit int8'),
        ('{"dtype": "int8", "shape": [1], "data": [1.5]}', '"data" is not a list of int8 elements'),
        ('{"dtype": "bool", "shape": [1], "data": [1]}', '"data" is not a list of bool elements'),
        ('{"dtype": "int16", "shape": [1], "bits": "00"}', '"bits" is not the hexadecimal text of int16 elements'),
        ('{"dtype": "int16", "shape": [1], "bits": "zz"}', '"bits" is not hexadecimal'),
        ('{"dtype": "bool", "shape": [1], "bits": "02"}', '"bits" of bool has a byte that is neither 0 nor 1'),
        ('{"dtype": "int16", "shape": [1], "tensor": "t"}',
         "'t' lies in a side file: read the text with load_text, or pass constants="),
    ],
)  # fmt: skip
def test_errors_in_metadata(entry: str, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        _expr(f'meta[relay.Constant][0]\n#[metadata]\n{{"relay.Constant": [{entry}]}}')
    assert caught.value.message == f"meta[relay.Constant][0]: {reason}"
    assert caught.value.span is not None
    assert caught.value.span.line == 2


@pytest.mark.parametrize("opened", ["(", "{", "add(", "ref(", "if (", "fn () { ", "match (", "[", "let %x = ", "-"])
def test_hostile_nesting_is_an_error_not_a_crash(opened: str) -> None:
    with pytest.raises(ParseError):
        _expr(opened * 20_000)


def test_too_many_parameters() -> None:
    text = "fn (" + ", ".join(f"%x{i}" for i in range(65_537)) + ") { 1 }"
    assert _error(text).startswith("parse error: a function has more than 65536 parameters\n  at <text>:1:5")


def test_deeply_nested_metadata() -> None:
    text = "meta[relay.Constant][0]\n#[metadata]\n" + "[" * 100_000
    assert "the metadata section is nested too deeply" in _error(text)


def test_deep_text_is_read() -> None:
    depth = 20_000
    found = parse_expr("ref(" * depth + "1" + ")" * depth, ops=())
    for _ in range(depth):
        assert isinstance(found, RefCreate)
        found = found.value
    assert isinstance(found, Constant)


def test_operators_may_be_a_mapping() -> None:
    mine = op("mine", "x")
    call = parse_expr("mine(1)", ops={"mine": mine})
    assert isinstance(call, Call)
    assert call.op is mine


def test_sugar_needs_its_operator() -> None:
    with pytest.raises(ParseError) as caught:
        parse_expr("1 + 2", ops=())
    assert caught.value.message == "`+` means operator add, which is not known here"
