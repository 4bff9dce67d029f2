"""Graph functions written as scripts: compiled = interpreted = NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError, RunError
from legato.interp import evaluate
from legato.interp.values import Data
from legato.ir.module import Module
from legato.script import parse


def graph(body: str, *, head: str = "") -> Module:
    """@main of x (n × 4) and y (4), whose statements are `body`."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return parse(
        f'{head}@R.function\ndef main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4,), "float32")):\n{lines}'
    )


def softmax(v: Any) -> Any:
    e = np.exp(v - v.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


OPERATORS: list[tuple[str, Any]] = [
    ("R.add(x, y)", lambda x, y: x + y), ("x - y * 2.0", lambda x, y: x - y * 2), ("-x / y", lambda x, y: -x / y),
    ("R.maximum(x, R.const(0.5))", lambda x, y: np.maximum(x, 0.5)), ("x @ R.permute_dims(x)", lambda x, y: x @ x.T),
    ("R.matmul(x, y)", lambda x, y: x @ y), ("R.linear(x, R.expand_dims(y, 0))", lambda x, y: (x @ y)[:, None]),
    ("R.sum(x, axis=[0])", lambda x, y: x.sum(0)),
    ("R.mean(x, axis=-1, keepdims=True)", lambda x, y: x.mean(-1, keepdims=True)),
    ("R.max(R.abs(x), axis=1)", lambda x, y: np.abs(x).max(1)), ("R.variance(x, axis=1)", lambda x, y: x.var(1)),
    ("R.std(x, axis=1)", lambda x, y: x.std(1)), ("R.prod(x, axis=1)", lambda x, y: x.prod(1)),
    ("R.argmax(x, axis=1)", lambda x, y: x.argmax(1)), ("R.cumsum(x, axis=1)", lambda x, y: x.cumsum(1)),
    ("R.nn.softmax(x)", lambda x, y: softmax(x)), ("R.nn.log_softmax(x, axis=-1)", lambda x, y: np.log(softmax(x))),
    ("R.nn.gelu_tanh(x)", lambda x, y: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    ("R.nn.silu(x)", lambda x, y: x / (1 + np.exp(-x))),
    ("R.nn.leakyrelu(x, 0.1)", lambda x, y: np.where(x > 0, x, 0.1 * x)),
    ("R.nn.rms_norm(x, y, axes=-1, epsilon=1e-6)",
     lambda x, y: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * y),
    ("R.nn.layer_norm(x, y, y, axes=[-1])",
     lambda x, y: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * y + y),
    ("R.reshape(x, (-1,))", lambda x, y: x.reshape(-1)),
    ("R.reshape(x, R.shape([n * 2, 2]))", lambda x, y: x.reshape(-1, 2)),
    ("R.flatten(x)", lambda x, y: x.reshape(-1)),
    ("R.broadcast_to(y, (n, 4))", lambda x, y: np.broadcast_to(y, x.shape)),
    ("R.concat((x, R.ones((n, 1), 'float32')), axis=1)", lambda x, y: np.c_[x, np.ones(len(x))]),
    ("R.stack((y, y), axis=1)", lambda x, y: np.stack([y, y], 1)), ("R.split(x, 2, axis=1)[1]", lambda x, y: x[:, 2:]),
    ("R.strided_slice(x, axes=[1], begin=[1], end=[4], strides=[2])", lambda x, y: x[:, 1:4:2]),
    ("R.take(y, R.const([3, 0]), axis=0)", lambda x, y: y[[3, 0]]), ("R.flip(x, axis=1)", lambda x, y: x[:, ::-1]),
    ("R.repeat(y, 2, axis=0)", lambda x, y: y.repeat(2)), ("R.tile(y, (2,))", lambda x, y: np.tile(y, 2)),
    ("R.squeeze(R.expand_dims(x, [0, 2]), [0])", lambda x, y: x[:, None]),
    ("R.clip(x, -1, 1)", lambda x, y: x.clip(-1, 1)),
    ("R.astype(x, 'float64')", lambda x, y: x.astype(np.float64)),
    ("x.astype('int32')", lambda x, y: x.astype(np.int32)),
    ("R.where(R.greater(x, y), x, y)", np.maximum), ("R.arange(1, 7, 2)", lambda x, y: np.arange(1, 7, 2)),
    ("R.full((2, n), R.const(3.0))", lambda x, y: np.full((2, len(x)), 3.0)), ("R.zeros_like(x)", lambda x, y: x * 0),
    ("R.triu(x, 1)", lambda x, y: np.triu(x, 1)), ("R.tril(x)", lambda x, y: np.tril(x)),
    ("R.topk(x, 2)[0]", lambda x, y: -np.sort(-x, 1)[:, :2]),
    ("R.sort(x, descending=True)", lambda x, y: -np.sort(-x, 1)),
    ("R.one_hot(R.const([1, 0]), 1.0, 0.0, 3)", lambda x, y: np.eye(3)[[1, 0]]),
    ("R.nn.pad(x, (1, 0, 0, 2))", lambda x, y: np.pad(x, ((1, 0), (0, 2)))),
    ("R.einsum((x, y), subscripts='ij,j->i')", lambda x, y: x @ y), ("R.op.nn.dense(x, x)", lambda x, y: x @ x.T),
    ("R.op.sum(x, axis=(0, 1))", lambda x, y: x.sum()), ("R.square(x)", lambda x, y: x * x),
    ("R.ewise_fma(x, y, x)", lambda x, y: x * y + x), ("R.log_add_exp(x, y)", lambda x, y: np.logaddexp(x, y)),
    ("R.log_add_exp(R.const([R.inf, -R.inf, R.inf, 0.0]), R.const([R.inf, -R.inf, -R.inf, R.inf]))",
     lambda x, y: np.array([np.inf, -np.inf, np.inf, np.inf])),
    ("R.outer(y, y)", lambda x, y: np.outer(y, y)), ("R.size(x)", lambda x, y: np.int64(x.size)),
    ("R.eye(3, n, 1)", lambda x, y: np.eye(3, len(x), 1)), ("R.eye_like(x, -1)", lambda x, y: np.eye(*x.shape, -1)),
    ("R.full_like(x, 2)", lambda x, y: np.full_like(x, 2)),
    ("R.full_like(x, R.const(2), 'int32')", lambda x, y: np.full_like(x, 2, np.int32)),
    ("R.meshgrid((y, R.arange(n), y))[1]", lambda x, y: np.meshgrid(y, range(len(x)), y, indexing="ij")[1]),
    ("R.meshgrid((y, R.arange(n)), indexing='xy')[0]", lambda x, y: np.meshgrid(y, range(len(x)))[0]),
    ("R.gather_nd(x, R.const([[2, 1], [0, 3]]))", lambda x, y: x[[2, 0], [1, 3]]),
    ("R.gather_nd(x, R.const([[1], [0], [3]]), 1)", lambda x, y: x[[0, 1, 2], [1, 0, 3]]),
    ("R.scatter_nd(x, R.const([[2], [0]]), R.stack((y, y)), 'add')", lambda x, y: x + np.stack([y, y * 0, y])),
    ("R.scatter_elements(x, R.const([[1, 0, 2, 2]]), R.expand_dims(y, 0), 0, 'max')",
     lambda x, y: _put(x, [1, 0, 2, 2], y)),
    ("R.index_tensor(x, (R.const([[0], [2]]), R.const([1, 3])))", lambda x, y: x[[[0], [2]], [1, 3]]),
    ("R.index_put(x, (R.const([2, 0]), R.const([[1], [3]])), R.const([5.0, 6.0]))",
     lambda x, y: _stored(x, ([2, 0], [[1], [3]]), [5, 6])),
    ("R.index_put(x, (R.const([2, 2]),), y, True)", lambda x, y: x + [[0], [0], [2]] * y),
    ("R.slice_scatter(x, R.expand_dims(y, 0), -2, 2, 1)", lambda x, y: _stored(x, 1, y)),
    ("R.slice_scatter(x, R.ones((n, 2), 'float32'), 0, 9, 2, axis=1)",
     lambda x, y: _stored(x, np.s_[:, ::2], 1)),
    ("R.dynamic_strided_slice(x, R.const([0, 3]), R.const([2, 0]), R.const([1, -2]))", lambda x, y: x[:2, 3:0:-2]),
    ("R.reverse_sequence(x, R.const([1, 4, 0]))", lambda x, y: np.stack([x[0], x[1, ::-1], x[2]])),
    ("R.reverse_sequence(x, R.const([2, 3, 1, 0]), 0, -1)",
     lambda x, y: np.stack([x[[1, 0, 2], 0], x[::-1, 1], x[:, 2], x[:, 3]], 1)),
    ("R.unique(R.sign(x))", lambda x, y: np.unique(np.sign(x))),
    ("R.unique(R.const([3, 1, 3]), False, True, True, True)[3]", lambda x, y: np.array([2, 1])),
    ("R.unique(R.const([3, 1, 3]), return_inverse=True, axis=0)[1]", lambda x, y: np.array([1, 0, 1])),
    ("R.median(x)", lambda x, y: np.sort(x, None)[5]),
    ("R.median(x, keepdims=True)", lambda x, y: [[np.sort(x, None)[5]]]),
    ("R.median(x, [0])[0]", lambda x, y: np.median(x, 0)), ("R.median(x, -1)[1]", lambda x, y: x.argsort(1)[:, 1]),
    ("R.median(x, 1, keepdims=True)[0]", lambda x, y: np.sort(x, 1)[:, 1:2]),
    ("R.shape_to_tensor(R.shape_of(x))", lambda x, y: np.array(x.shape)),
    ("R.vision.all_class_non_max_suppression(R.ones((1, 2, 4), 'float32'), R.ones((1, 1, 2), 'float32'),"
     " R.const(1), R.const(0.5), R.const(0.0))[1]", lambda x, y: np.array([1])),
    ("R.bucketize(x, R.sort(y))", lambda x, y: np.searchsorted(np.sort(y), x)),
    ("R.bucketize(x, R.const([0.0, 1.0]), True, True)", lambda x, y: np.searchsorted([0, 1], x, "right")),
    ("R.collapse_sum_to(x, (1, 4))", lambda x, y: x.sum(0, keepdims=True)),
    ("R.collapse_sum_like(x, y)", lambda x, y: x.sum(0)), ("R.collapse_sum_to(x, (n, 4))", lambda x, y: x),
    ("R.quantize(x, R.const([0.1, 0.2, 0.01, 1.0]), R.const([0, 1, 2, 3], 'int8'), out_dtype='uint8')",
     lambda x, y: np.clip(np.round(x / np.float32([0.1, 0.2, 0.01, 1])) + np.arange(4), 0, 255)),
    ("R.dequantize(R.const([1, -5, 7], 'int8'), R.const(0.5), R.const(3, 'int8'))",
     lambda x, y: np.array([-1, -4, 2])),
    ("R.nn.relu6(x * 9.0)", lambda x, y: np.clip(x * 9, 0, 6)), ("R.nn.batch_flatten(x)", lambda x, y: x),
    ("R.nn.pixel_shuffle(R.reshape(x, (n, 4, 1, 1)), 2)", lambda x, y: x.reshape(-1, 1, 2, 2)),
    ("R.nn.cross_entropy_with_logits(x, R.abs(x))", lambda x, y: -(x * abs(x)).sum() / len(x)),
    ("R.nn.nll_loss(x, R.const([3, -100, 1]))", lambda x, y: -(x[0, 3] + x[2, 1]) / 2),
    ("R.nn.nll_loss(x, R.const([3, 0, 1]), y, 'sum')",
     lambda x, y: -(x[0, 3] * y[3] + x[1, 0] * y[0] + x[2, 1] * y[1])),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), OPERATORS, ids=[t for t, _ in OPERATORS])
def test_operators(text: str, wanted: Any) -> None:
    mod = graph(f"n = T.int64()\nz = {text}\nreturn z")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((3, 4), np.float32), rng.standard_normal(4, np.float32)
    given = np.asarray(wanted(x, y))
    found = np.asarray(evaluate(mod, [x, y]))
    assert found.shape == given.shape
    np.testing.assert_allclose(found, given, rtol=2e-5, atol=2e-5)


def _stored(x: Any, place: Any, values: Any) -> Any:
    found = x.copy()
    found[place] = values
    return found


def _put(x: Any, rows: list[int], y: Any) -> Any:
    found = x.copy()
    np.maximum.at(found, (rows, range(4)), y)
    return found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("R.nn.group_norm(x, y, y, 2, 1, [0])", r"group_norm over axes \[0\]"),
        ("R.nn.instance_norm(x, y, y, 0, [0])", r"instance_norm over axes \[0\]"),
        ("R.outer(x, y)", "outer is of two vectors"), ("R.eye_like(y)", "eye_like of a tensor of rank 1, wanted 2"),
        ("R.collapse_sum_to(y, (3, 4))", "data of rank 1 cannot be summed to rank 2"),
        ("R.dequantize(x, 1.0, 0.0, out_dtype='int8')", "dequantize to int8"),
        ("R.quantize(x, R.const(1.0), R.const(0), out_dtype='float16')", "quantisation to float16"),
        ("R.median(x, [0, 1])", "median over the axes"), ("R.unique(x, axis=1)", "unique along axis 1"),
        ("R.reverse_sequence(x, R.const([1]), 0, -2)", "the sequences and the batch have the same axis"),
        ("R.slice_scatter(x, y, 0, 1, 1, axis=2)", "axis 2 of a tensor of rank 2"),
        ("R.index_put(y, (R.const([0]), R.const([0])), y)", "2 index tensors for a tensor of rank 1"),
        ("R.meshgrid((x,))", "meshgrid is of vectors"), ("R.gather_nd(x, R.const(1))", "indices of rank 0"),
    ],
)  # fmt: skip
def test_compositions_refuse_what_they_are_not_made_for(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        graph(f"return {text}")


BODIES: list[tuple[str, str, Any]] = [
    ("a block with two results", """
with R.dataflow():
    a = R.nn.relu(x)
    b = R.add(a, y)
    R.output(a, b)
c = R.multiply(a, b)
return (b, c)
""", lambda x, y: (np.maximum(x, 0) + y, np.maximum(x, 0) * (np.maximum(x, 0) + y))),
    ("a choice", """
if R.greater(R.sum(x), R.const(0.0)):
    a = R.add(x, y)
    b = x
else:
    a = x
    b = R.negative(x)
return R.subtract(a, b)
""", lambda x, y: x * 0 + y if x.sum() > 0 else 2 * x),
    ("a choice that returns", """
if R.greater(R.sum(x), R.const(0.0)):
    return R.add(x, y)
else:
    return x
""", lambda x, y: x + y if x.sum() > 0 else x),
    ("a function inside", """
@R.function
def twice(a: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
    n = T.int64()
    return R.add(R.add(a, a), y)
return twice(twice(x))
""", lambda x, y: 4 * x + 3 * y),
    ("recursion", """
@R.function
def halve(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    if R.greater(R.max(a), R.const(1.0)):
        b = R.multiply(a, R.const(0.5))
        r = halve(b)
    else:
        r = a
    return r
return R.add(x, halve(R.multiply(y, y)))
""", lambda x, y: x + _halved(y * y)),
    ("match_cast", """
m = T.int64()
z = R.match_cast(R.op.argwhere(R.greater(x, R.const(0.0))), R.Tensor((m, 2), "int32"))
return R.sum(R.astype(z, "float32")) + R.sum(R.ones((m,), "float32"))
""", lambda x, y: np.argwhere(x > 0).sum() + len(np.argwhere(x > 0))),
    ("a shape out of numbers", """
m, k = T.int64(), T.int64()
s = R.tensor_to_shape(R.take(R.shape_to_tensor(R.shape_of(x)), R.const([1, 0]), axis=0))
t = R.match_cast(s, R.Shape([m, k]))
return R.reshape(x, t) + R.ones((m, k), "float32")
""", lambda x, y: x.reshape(4, -1) + 1),
    ("tuples", """
t = (x, y)
a, b = t
u = R.tuple(a, R.add(b, t[1]))
return u[0] + u[1]
""", lambda x, y: x + 2 * y),
    ("annotations", """
n = T.int64()
a: R.Tensor((n, 4), "float32") = R.add(x, y)
return a
""", lambda x, y: x + y),
]  # fmt: skip


def _halved(v: Any) -> Any:
    while v.max() > 1:
        v = v * 0.5
    return v


@pytest.mark.parametrize(("body", "wanted"), [b[1:] for b in BODIES], ids=[b[0] for b in BODIES])
def test_statements(body: str, wanted: Any) -> None:
    mod = graph(body)
    exe = legato.compile(mod)
    rng = np.random.default_rng(0)
    for n in (1, 3, 6):
        x, y = rng.standard_normal((n, 4), np.float32), rng.standard_normal(4, np.float32)
        given = wanted(x, y)
        for found in (evaluate(mod, [x, y]), exe(x, y)):
            _agree(found, given)


def _agree(found: Any, given: Any) -> None:
    if isinstance(given, tuple):
        for f, g in zip(found, given, strict=True):
            _agree(f, g)
    else:
        assert not isinstance(found, Data)
        np.testing.assert_allclose(np.asarray(found), given, rtol=2e-5, atol=2e-5)


def test_a_cast_that_does_not_hold_tells_both_shapes() -> None:
    mod = graph('z = R.match_cast(x, R.Tensor((2, 4), "float32"))\nreturn z')
    exe = legato.compile(mod)
    for run in (exe, lambda *a: evaluate(mod, [*a])):
        with pytest.raises(RunError, match=r"3.*2|2.*3"):
            run(np.zeros((3, 4), np.float32), np.zeros(4, np.float32))


def test_functions_of_a_module_call_each_other() -> None:
    mod = parse("""
@I.ir_module
class Calls:
    @R.function(private=True)
    def double(a: R.Tensor(("m", "k"), "float32")) -> R.Tensor(("m", "k"), "float32"):
        return R.add(a, a)

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        cls = Calls
        with R.dataflow():
            y = cls.double(x)
            z = cls.double(y)
            R.output(z)
        return z
""")
    x = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(np.asarray(legato.compile(mod)(x)), 4 * x)
    np.testing.assert_array_equal(np.asarray(evaluate(mod, [x])), 4 * x)


def test_a_shape_that_is_given_is_the_one_of_its_type() -> None:
    module = parse(
        '@R.function\ndef main(x: R.Tensor(("n", "m"), "float32"), '
        's: R.Tuple(R.Shape(["n", 4]), R.Shape(["m * 2"]))):\n'
        "    return (R.exp(x), s)\n"
    )
    exe = legato.compile(module)
    x = np.ones((2, 3), np.float32)
    for extents, fault in (
        ((2, 4, 6), None),
        ((3, 4, 6), r'"s\.0": wrong value'),
        ((2, 5, 6), r'"s\.1": wrong value'),
        ((2, 4, 5), r'"s\.2": wrong value'),
    ):
        given = [np.array(e) for e in extents]
        if fault is None:
            assert [int(v) for v in exe(x, *given)[1][0]] == [2, 4]
            continue
        with pytest.raises(RunError, match=fault):
            exe(x, *given)
        with pytest.raises(RunError, match="wanted"):
            evaluate(module, [x, (tuple(given[:2]), tuple(given[2:]))])
