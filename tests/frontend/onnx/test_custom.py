"""Converters of a caller's own: what they may be, what they give, and what is said of those that do not fit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import legato
from legato import te
from legato.base.errors import ImportModelError, TypeCheckError, UnsupportedError
from legato.frontend.onnx import check, from_onnx, importer
from legato.frontend.onnx.emitter import Emitter
from legato.interp import evaluate
from legato.ir.expr import Expr
from tests.frontend.onnx.peer import legato_outputs, model, value

NAME = "their.domain::Own"
X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("their.domain", 1)]


def own(outputs: int = 1, stated: Any = None, **attributes: Any) -> onnx.ModelProto:
    """Own of Tanh(x), and Neg behind it."""
    made = [f"m{n}" for n in range(outputs)]
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        helper.make_node("Own", ["t"], made, domain="their.domain", name="own", **attributes),
        helper.make_node("Neg", ["m0"], ["y"]),
    ]
    proto = model(nodes, [value("x", ("n", 4))], ["y", *made[1:]], opset_imports=OPSETS)
    if stated is not None:
        proto.graph.value_info.append(helper.make_tensor_value_info("m0", *stated))
    return proto


def softmax(x: Any) -> Any:
    """Of rows, in four stages, two of them reductions."""
    k = te.reduce_axis((0, x.shape[1]))
    top = te.compute((x.shape[0],), lambda i: te.max(x[i, k], axis=k))
    e = te.compute(x.shape, lambda i, j: te.exp(x[i, j] - top[i]))
    total = te.compute((x.shape[0],), lambda i: te.sum(e[i, k], axis=k))
    return te.compute(x.shape, lambda i, j: e[i, j] / total[i])


def gram(x: Any, least: float) -> Any:
    """The products of all rows, at least `least`: what is behind a contraction becomes its epilogue."""
    k = te.reduce_axis((0, x.shape[1]))
    products = te.compute((x.shape[0], x.shape[0]), lambda i, j: te.sum(x[i, k] * x[j, k], axis=k))
    return te.compute(products.shape, lambda i, j: te.max(products[i, j], te.const(least, x.dtype)))


def ends(xs: Any) -> Any:
    """The first and the last columns of tensors."""
    a, b = xs
    return te.compute((a.shape[0],), lambda i: a[i, 0]), te.compute((b.shape[0],), lambda i: b[i, b.shape[1] - 1])


def test_tensor_expressions() -> None:
    t = np.tanh(X)
    e = np.exp(t - t.max(axis=1, keepdims=True))
    cases: list[tuple[Callable[..., Any], list[Any]]] = [
        (lambda b, x: b.call_te(softmax, x), [-e / e.sum(axis=1, keepdims=True)]),
        (lambda b, x: b.call_te(gram, x, least=-0.25), [-np.maximum(t @ t.T, -0.25)]),
        (lambda b, x: b.call_te(ends, [x, b.multiply(x, 2.0)]), [-t[:, 0], 2 * t[:, 3]]),
    ]
    for convert, wanted in cases:
        proto = own(len(wanted))
        for found, w in zip(legato_outputs(proto, {"x": X}, custom={NAME: convert}), wanted, strict=True):
            np.testing.assert_allclose(found, w, rtol=1e-5, atol=1e-6)
        assert legato.verify(proto, [X], custom={NAME: convert})
        assert legato.compile(proto, custom={NAME: convert}).stats["host_operators"] == 0


def test_attributes_and_lists() -> None:
    seen: dict[str, Any] = {}

    def convert(b: Emitter, x: Expr, /, **rest: Any) -> list[Expr | None]:
        seen.update(rest)
        return [x, None]

    main = from_onnx(own(1, b=2.0, x=[1, 2], mode="fast"), custom={NAME: convert})
    np.testing.assert_array_equal(evaluate(main, [X]), -np.tanh(X))
    assert seen == {"b": 2.0, "x": (1, 2), "mode": "fast"}


def same(b: Emitter, x: Expr) -> Expr:
    return x


@pytest.mark.parametrize(
    ("custom", "text"),
    [
        ({NAME: 3}, f"custom[{NAME!r}] is 3, wanted a function"),
        ({NAME: int}, f"custom[{NAME!r}] is <class 'int'>, wanted a function"),
        ({NAME: same, 3: same}, "custom names the operator 3"),
        ({NAME: same, "Gonk": same}, "custom['Gonk']: the model has no such operator"),
        ({NAME: same, "ai.onnx::tanh": same}, "custom['ai.onnx::tanh']: the model has no such operator"),
        ({"Tanh": same, "ai.onnx::Tanh": abs, NAME: same}, "custom['ai.onnx::Tanh']: this operator has two converters"),
    ],
)
def test_names_and_functions(custom: dict[Any, Any], text: str) -> None:
    with pytest.raises(ImportModelError) as caught:
        from_onnx(own(), custom=custom)
    assert caught.value.message == text


@pytest.mark.parametrize("name", ["their.domain.Own", "their.domain::own", "Own", "theirdomain::Own"])
def test_names_that_are_nearly_right(name: str) -> None:
    with pytest.raises(ImportModelError) as caught:
        from_onnx(own(), custom={name: same})
    assert caught.value.hint == f"did you mean custom={{{NAME!r}: …}}?"


def test_operators_that_the_model_does_not_use() -> None:
    """One dictionary serves several models, as far as its names mean something."""
    from_onnx(own(), custom={NAME: same, "Relu": same, "If": same, "com.microsoft::Gelu": same})


@pytest.mark.parametrize(
    ("proto", "convert", "text"),
    [
        (own(2), same, "the converter of Own gives 1 of 2 outputs"),
        (own(k=1), same, "the converter of Own takes no attributes, the node has k"),
        (own(x=1), lambda b, x, **_: x,
         "the converter of Own calls the builder or an input x, as an attribute is called"),
        (own(stated=(TensorProto.DOUBLE, ["n", 4])), same, "'m0' is declared as DOUBLE, but is float32"),
        (own(stated=(TensorProto.FLOAT, ["n"])), same,
         "'m0' is declared with the shape (?), but is Tensor[(n, 4), float32]"),
        (own(stated=(TensorProto.FLOAT, [3, 8])), same,
         "'m0' is declared with the shape (3, 8), but is Tensor[(n, 4), float32]"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_file(proto: onnx.ModelProto, convert: Callable[..., Any], text: str) -> None:
    with pytest.raises(ImportModelError) as caught:
        from_onnx(proto, custom={NAME: convert})
    assert (caught.value.message, str(caught.value.span)) == (text, "own")


def test_extents_that_the_caller_has_changed() -> None:
    """What the file says of extents further on is of its own inputs."""
    nodes = [helper.make_node("Own", ["x"], ["m"], domain="their.domain"), helper.make_node("Neg", ["m"], ["y"])]
    proto = model(nodes, [value("x", (2, 4))], opset_imports=OPSETS)
    proto.graph.value_info.append(helper.make_tensor_value_info("m", TensorProto.FLOAT, [2, 4]))
    exe = legato.compile(from_onnx(proto, custom={NAME: same}, shapes={"x": (9, 4)}))
    assert [str(tensor) for tensor in exe.outputs] == ["y: float32[9, 4]"]


def test_tensor_expressions_that_are_none() -> None:
    with pytest.raises(TypeCheckError, match="number gives 3, wanted tensors"):
        from_onnx(own(), custom={NAME: lambda b, x: b.call_te(number, x)})
    with pytest.raises(TypeCheckError, match="an access of t is not shown to be inside"):
        from_onnx(own(), custom={NAME: lambda b, x: b.call_te(beyond, b.let("t", x))})


def number(x: Any) -> int:
    return 3


def beyond(x: Any) -> Any:
    return te.compute(x.shape, lambda i, j: x[i + 1, j])


@pytest.mark.parametrize("kind", [ZeroDivisionError, RecursionError])
def test_errors_of_converters_are_theirs(kind: type[Exception]) -> None:
    def convert(b: Emitter, x: Expr) -> Expr:
        raise kind

    with pytest.raises(kind) as caught:
        from_onnx(own(), custom={NAME: convert})
    assert caught.value.__notes__ == ["in the converter of Own, for the node own"]


def test_python_s_stack_is_no_bug_of_a_converter(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ours takes more of than there is, is refused; with more, it passes, as the hint says."""
    usual, limit = importer.find, sys.getrecursionlimit()

    def down(n: int) -> int:
        return 1 + down(n - 1) if n else 0

    def deep(b: Emitter, x: Expr) -> Expr:
        assert down(limit) == limit
        return b.negative(x)

    monkeypatch.setattr(importer, "find", lambda domain, op, opset: deep if op == "Neg" else usual(domain, op, opset))
    custom = {NAME: lambda b, x: x}
    with pytest.raises(UnsupportedError, match="the conversion of Neg takes more of Python's stack than") as caught:
        from_onnx(own(), custom=custom)
    assert caught.value.hint == "sys.setrecursionlimit(…) allows more; or make it of parts that nest less"
    sys.setrecursionlimit(3 * limit)
    try:
        from_onnx(own(), custom=custom)
    finally:
        sys.setrecursionlimit(limit)


def test_refusals_name_what_custom_takes() -> None:
    with pytest.raises(UnsupportedError) as caught:
        from_onnx(own())
    assert caught.value.message == f"the model: one node cannot be compiled ({NAME})"
    way = f'a converter of your own for an operator: from_onnx(…, custom={{"{NAME}": function}}) (docs/operators.md)'
    assert caught.value.hint == way
    nodes = [helper.make_node("Own", ["x"], [f"y{n}"], domain=f"d{n}") for n in range(4)]
    proto = model(nodes, [value("x", (2,))], [f"y{n}" for n in range(4)])
    assert "; ".join(u.key for u in check(proto).unsupported) == "d0::Own; d1::Own; d2::Own; d3::Own"
    with pytest.raises(UnsupportedError, match='"d0::Own": function, "d1::Own": function, "d2::Own": function, …'):
        from_onnx(proto)
