"""The builder: nodes typed at birth, operators by name, symbolic values."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import legato
import legato.ops
from legato.arith.broadcast import broadcast
from legato.arith.expr import const, fresh
from legato.base.errors import RunError, TypeCheckError
from legato.base.span import Span
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Constant, Expr, Function, GlobalVar, Let, Var
from legato.ir.module import Module
from legato.ir.types import FuncType, TensorType, TupleType, scalar_type, tensor_type


def shape(e: Expr) -> tuple[str, ...]:
    """The dims of a tensor as text."""
    assert isinstance(e.ty, TensorType)
    return tuple(map(str, e.ty.shape))


def test_nodes_are_typed_at_birth() -> None:
    b, n = Builder(), fresh("n")
    x = b.var("x", (n, 3, 8, 8))
    y = b.nn.relu(b.nn.conv2d(x, np.zeros((16, 3, 3, 3), np.float32), padding=(1, 1)))
    assert shape(y) == ("n", "16", "8", "8")
    func = b.function([x], y)
    assert str(func.ty) == "fn [n: ShapeVar](Tensor[(n, 3, 8, 8), float32]) -> Tensor[(n, 16, 8, 8), float32]"
    module = Module.from_expr(func)
    assert infer(module) is module


def test_python_numbers_take_the_dtype_beside_them() -> None:
    b = Builder()
    for dtype in ("float16", "int64", "uint8", "float32"):
        call = b.add(b.var("x", (2,), dtype), 1)
        assert call.ty == tensor_type((2,), dtype)
    assert b.multiply(2, b.var("x", (2,), "float64")).ty == tensor_type((2,), "float64")


def test_a_number_that_the_dtype_cannot_hold() -> None:
    b = Builder()
    with pytest.raises(TypeCheckError) as caught:
        b.multiply(b.var("x", (2,), "int32"), 0.5)
    assert str(caught.value) == dedent("""\
        type error: 0.5 beside a tensor of int32
          hint: use cast, or a constant of a dtype of its own""")
    with pytest.raises(TypeCheckError, match="300 beside a tensor of uint8"):
        b.add(b.var("x", (2,), "uint8"), 300)


def test_arithmetic_on_expressions() -> None:
    x = Builder().var("x", (2, 3))
    assert shape((x + 1) * x - 2 / -x) == ("2", "3")
    assert (x < 0).ty == tensor_type((2, 3), "bool")


def test_variadic_arguments_become_a_tuple() -> None:
    b = Builder()
    x, y = b.var("x", (2, 3)), b.var("y", (4, 3))
    assert (
        shape(b.concatenate(x, y))
        == shape(b.concatenate((x, y)))
        == shape(b.concatenate(b.tuple_([x, y])))
        == ("6", "3")
    )
    assert shape(b.concatenate(x)) == ("2", "3")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda b, x: b.rellu(x), "type error: no operator is called 'rellu'"),
        (
            lambda b, x: b.sum(x, axes=1),
            "type error: sum has no attribute 'axes'\n  hint: its attributes are axis, keepdims, exclude",
        ),
        (lambda b, x: b.exp(x, axis=1), "type error: exp has no attributes\n  got axis"),
        (lambda b, x: b.exp(x, x), "type error: exp: got 2 arguments, wanted 1: data"),
        (lambda b, x: b.cast(x), "type error: cast needs the attribute dtype"),
    ],
)  # fmt: skip
def test_errors(make: object, message: str) -> None:
    b = Builder()
    with pytest.raises(TypeCheckError) as caught:
        make(b, b.var("x", (2, 3)))  # type: ignore[operator]
    assert str(caught.value).startswith(message)


def test_spans() -> None:
    b, span = Builder(), Span("model", 3, 1)
    x = b.var("x", (2,))
    with b.at(span):
        y = b.exp(x)
    assert y.span is span
    assert b.exp(x).span is None


def test_values_of_small_integer_tensors() -> None:
    b, n = Builder(), fresh("n")
    x = b.var("x", (n, 12, 64))
    s = b.shape_of(x, dtype="int64")
    assert b.value_of(s) == (n, const(12), const(64))
    batch = b.strided_slice(s, begin=(0,), end=(1,))
    target = b.concatenate((batch, np.array([-1], np.int64)))
    assert b.value_of(target) == (n, const(-1))
    assert b.value_of(b.multiply(batch, 2)) == (n * 2,)
    assert b.value_of(b.divide(b.multiply(batch, 6), 2)) == (n * 3,)
    assert b.value_of(b.mod(b.add(batch, 5), 1)) == (const(0),)
    assert b.value_of(b.squeeze(b.cast(batch, dtype="int32"), axis=0)) == (n,)
    assert b.value_of(b.get(b.split(s, indices_or_sections=3), 1)) == (const(12),)
    assert b.value_of(b.where(b.equal(target, -1), b.ones_like(target), target)) is None  # n may be anything
    assert b.value_of(b.where(b.equal(s, s), s, b.negative(s))) == (n, const(12), const(64))
    assert b.value_of(b.prod(b.strided_slice(s, begin=(1,), end=(3,)))) == (const(768),)
    assert b.value_of(x) is None
    assert b.value_of(b.let("t", target)) == (n, const(-1))


def test_a_value_that_would_wrap_is_not_known() -> None:
    b = Builder()
    assert b.value_of(b.add(b.constant(np.array([100], np.int8)), b.constant(np.array([27], np.int8)))) == (const(127),)
    assert b.value_of(b.add(b.constant(np.array([100], np.int8)), b.constant(np.array([28], np.int8)))) is None


def test_lets_branches_and_functions() -> None:
    b = Builder()

    def body(x: Expr) -> Expr:
        y = b.let("y", b.exp(x))
        return b.if_(b.less(b.sum(y), 1.0), y, lambda: b.negative(b.let("z", b.sqrt(y))))

    func = b.function([b.var("x", (3,))], body)
    assert isinstance(func.body, Let)
    assert str(func.ty) == "fn (Tensor[(3,), float32]) -> Tensor[(3,), float32]"
    module = Module.from_expr(func)
    assert infer(module) is module


def test_an_unannotated_weight_is_inferred_with_the_function() -> None:
    b = Builder()
    x, w = b.var("x", (2, 4)), b.var("w")
    y = b.nn.dense(x, w, units=8)
    assert y.ty is None
    func = b.function([x, w], y)
    assert str(func.ty) == "fn (Tensor[(2, 4), float32], Tensor[(8, 4), float32]) -> Tensor[(2, 8), float32]"


def test_calls_of_functions() -> None:
    b, n = Builder(), fresh("n")
    ty = FuncType((tensor_type((n,)),), tensor_type((n + n,)), (n,))
    f = GlobalVar("f", ty=ty)
    call = b.apply(f, [b.var("x", (3,))])
    assert call.ty == tensor_type((6,))
    assert call.type_args == (const(3),)
    with pytest.raises(TypeCheckError, match="argument 1 of @f: the ranks differ, 2 and 1"):
        b.apply(f, [b.var("x", (3, 3))])


def test_a_call_that_leaves_a_type_parameter_open() -> None:
    b, n, k = Builder(), fresh("n"), fresh("k")
    f = GlobalVar("f", ty=FuncType((tensor_type((n,)),), tensor_type((n,)), (k, n)))
    x = b.var("x", (3,))
    call = b.apply(f, [x])
    assert call.ty is None
    assert call.type_args == ()
    with pytest.raises(TypeCheckError, match="call of @f: dim k cannot be inferred"):
        b.function([x], call)


def test_constraints_of_an_inferred_function_are_its_own() -> None:
    b, n, m = Builder(), fresh("n"), fresh("m")
    x, y, z, w = b.var("x", (n,)), b.var("y", (m,)), b.var("z"), b.var("w", (4,))
    func = b.function([x, y, z], b.tuple_([b.add(x, y), z]))
    assert len(func.attrs["constraints"]) == 1
    assert "constraints" not in b.function([w], b.exp(w)).attrs


def test_constraints_of_the_builder() -> None:
    b, n, m = Builder(), fresh("n"), fresh("m")
    x, y = b.var("x", (n,)), b.var("y", (m,))
    func = b.function([x, y], b.add(x, y))
    (constraint,) = func.attrs["constraints"]
    assert (constraint.a, constraint.b) == (broadcast(n, m), broadcast(m, n))
    module = Module.from_expr(func)
    assert infer(module) is module


def test_cells_casts_and_shapes() -> None:
    b, n, m = Builder(), fresh("n"), fresh("m")
    x = b.var("x", (n,))
    cell = b.ref(x)
    assert b.read(cell).ty == x.ty
    assert b.write(cell, b.exp(x)).ty == TupleType(())
    assert b.match_cast(x, tensor_type((m,))).ty == tensor_type((m,))
    with pytest.raises(TypeCheckError, match="match_cast: the ranks differ, 1 and 2"):
        b.match_cast(x, tensor_type((m, 2)))
    assert str(b.shape([n, 3]).ty)


def test_a_builder_used_for_a_long_chain() -> None:
    b = Builder()
    x: Expr = b.var("x", (2,))
    start = x
    for _ in range(20_000):
        x = b.exp(x)
    assert isinstance(start, Var)
    func = b.function([start], x)
    assert isinstance(func, Function)
    assert func.ty is not None


def test_constants() -> None:
    b = Builder()
    assert b.constant(1.5).ty == scalar_type("float32")
    assert isinstance(b.operands([np.float64(2)])[0], Constant)
    assert b.operands([np.float64(2)])[0].ty == scalar_type("float64")


def test_what_a_function_demands_is_kept_whatever_becomes_of_the_node() -> None:
    """That of a node which nothing uses, too, in both ways to run; a call that is refused demands nothing."""
    b, n, m, k = Builder(), fresh("n"), fresh("m"), fresh("k")
    x, y, z = b.var("x", (n, 2)), b.var("y", (m, 2)), b.var("z", (k, 3))
    with pytest.raises(TypeCheckError):
        b.add(x, z)
    b.matmul(x, b.transpose(b.add(x, y)))
    func = b.function([x, y, z], b.tuple_([b.exp(x), b.exp(y)]))
    (constraint,) = func.attrs["constraints"]
    assert (constraint.a, constraint.b) == (broadcast(n, m), broadcast(m, n))
    module = Module.from_expr(func)
    assert infer(module) is module
    exe = legato.compile(module)
    for rows in (1, 2, 3):
        args = [np.ones(s, np.float32) for s in ((2, 2), (rows, 2), (5, 3))]
        for run in (exe, lambda *xs: evaluate(module, xs)):
            if rows == 3:
                with pytest.raises(RunError):
                    run(*args)
            else:
                assert np.asarray(run(*args)[1]).shape == (rows, 2)
