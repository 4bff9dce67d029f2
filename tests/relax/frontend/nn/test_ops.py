"""Operators compute what torch's do, of extents that are numbers and of one that is a dim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato import te
from legato.base.errors import CompileError, TypeCheckError, UnsupportedError
from legato.interp import evaluate
from legato.relax.frontend import nn
from legato.relax.frontend.nn import op
from legato.script import parse
from tests.relax.frontend.nn.traced import interpreted, program, values

torch = pytest.importorskip("torch")
F = torch.nn.functional

A, B, P = values(3, 4), values(3, 4), np.abs(values(3, 4)) + 0.5
C, NUMBERS = values(2, 6, 5), values(3, 4, dtype="int32")
Q, K, V = values(2, 3, 2, 4), values(2, 5, 2, 4), values(2, 5, 2, 4)
IMAGE, VOLUME, LINE = values(2, 4, 6, 5), values(1, 2, 4, 5, 3), values(2, 4, 7)
WHICH = np.array([2, 0, 1, 1], np.int32)
MASK = A > 0


def _attention(q: Any, k: Any, v: Any, **more: Any) -> Any:
    """Torch's has heads before positions."""
    found = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), **more)
    return found.transpose(1, 2)


def _rms(x: Any, w: Any) -> Any:
    return F.rms_norm(x, (x.shape[-1],), w, 1e-5)


def _nhwc(x: Any, w: Any, b: Any) -> Any:
    return F.conv2d(x.permute(0, 3, 1, 2), w, b).permute(0, 2, 3, 1)


Case = tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray[Any, Any], ...]]

CASES: dict[str, Case] = {
    "operators": (
        lambda a, b: (a + b, a - b, a * b, a / b, 1 + a, 2.0 - a, 3 * a, 1 / (a * a + 1), -a, a + 1, a - 1, a / 2),
        lambda a, b: (a + b, a - b, a * b, a / b, 1 + a, 2.0 - a, 3 * a, 1 / (a * a + 1), -a, a + 1, a - 1, a / 2),
        (A, B),
    ),
    "comparisons": (
        lambda a, b: (a < b, a <= b, a > 0, a >= b, op.equal(a, a), op.not_equal(a, b), a.maximum(b), a.minimum(b),
                      op.less(a, b), op.less_equal(a, b), op.greater(a, b), op.greater_equal(a, b)),
        lambda a, b: (a < b, a <= b, a > 0, a >= b, a == a, a != b, torch.maximum(a, b), torch.minimum(a, b),
                      a < b, a <= b, a > b, a >= b),
        (A, B),
    ),
    "functions": (
        lambda a, p: (op.exp(a), op.log(p), op.sqrt(p), op.sin(a), op.cos(a), op.tanh(a), op.sigmoid(a), op.floor(a),
                      op.negative(a), op.relu(a), op.silu(a), op.square(a), op.relu6(a * 5), op.gelu(a),
                      op.gelu(a, "tanh"), op.softplus(a * 30), op.softplus(a, beta=2.0, threshold=1.0)),
        lambda a, p: (a.exp(), p.log(), p.sqrt(), a.sin(), a.cos(), a.tanh(), a.sigmoid(), a.floor(),
                      -a, F.relu(a), F.silu(a), a * a, F.relu6(a * 5), F.gelu(a),
                      F.gelu(a, approximate="tanh"), F.softplus(a * 30), F.softplus(a, beta=2.0, threshold=1.0)),
        (A, P),
    ),
    "choices": (
        lambda a, b, m: (op.where(m, a, b), op.where(m.astype("int32"), a, 0.0), op.maximum(a, 0), op.minimum(a, b)),
        lambda a, b, m: (torch.where(m, a, b), torch.where(m, a, 0.0), a.clamp(min=0), torch.minimum(a, b)),
        (A, B, MASK),
    ),
    "casts": (
        lambda a, i: (a.astype("int32"), op.astype(i, "float32"), i.astype("bool"), i * 2, op.pad(i, [1, 0, 0, 1])),
        lambda a, i: (a.to(torch.int32), i.float(), i.bool(), i * 2, F.pad(i, [0, 1, 1, 0])),
        (A, NUMBERS),
    ),
    "shapes": (
        lambda c: (c.reshape(-1, 5), op.reshape(c, (c.shape[0], 30)), c.permute_dims(2, 0, 1), c.permute_dims(),
                   op.permute_dims(c, [1, 0, 2]), op.permute(c, [0, 2, 1]), op.unsqueeze(c, 1), op.unsqueeze(c, -1),
                   op.squeeze(op.unsqueeze(c, 3)), op.concat([c, c * 2], 1), c.repeat(2, 1), op.repeat(c, 3),
                   op.broadcast_to(op.unsqueeze(c, 0), [4, *c.shape]), *op.split(c, 3, 1), *op.split(c, [1, 4], axis=2),
                   *op.chunk(c, 2, 1), op.pad(c, [0, 0, 1, 2, 0, 1], value=3.0)),
        lambda c: (c.reshape(-1, 5), c.reshape(c.shape[0], 30), c.permute(2, 0, 1), c.permute(2, 1, 0),
                   c.permute(1, 0, 2), c.permute(0, 2, 1), c[:, None], c[..., None],
                   c, torch.cat([c, c * 2], 1), c.repeat_interleave(2, 1), c.repeat_interleave(3),
                   c[None].expand(4, *c.shape), *c.split(2, 1), c[..., :1], c[..., 1:4], c[..., 4:],
                   *c.chunk(2, 1), F.pad(c, [0, 1, 1, 2, 0, 0], value=3.0)),
        (C,),
    ),
    "triangles": (
        lambda c: (op.triu(c), op.triu(c, 1), op.tril(c, -1), op.tril(c)),
        lambda c: (c.triu(), c.triu(1), c.tril(-1), c.tril()),
        (C,),
    ),
    "rows": (
        lambda a, i: (op.take(a, i, 1), op.take(a, i, axis=0)), lambda a, i: (a[:, i.long()], a[i.long()]), (A, WHICH),
    ),
    "made": (
        lambda a: (op.zeros((2, 3)), op.ones([2], "int32"), op.full([2, 2], 1.5), op.full((2,), 7, "int64"),
                   op.full([1], op.sum(a)), op.arange(5), op.arange(1, 9, 2, "int32"), op.empty([0, 2])),
        lambda a: (torch.zeros(2, 3), torch.ones(2, dtype=torch.int32), torch.full((2, 2), 1.5), torch.full((2,), 7),
                   a.sum()[None], torch.arange(5.0), torch.arange(1, 9, 2, dtype=torch.int32), torch.zeros(0, 2)),
        (A,),
    ),
    "ordered": (
        lambda c: (op.sort(c, 1), op.sort(c, descending=True), op.argsort(c, 1, dtype="int64"), *op.topk(c, 2),
                   op.topk(c, 2, 1, "values", largest=False), op.topk(c, 1, ret_type="indices")),
        lambda c: (c.sort(1)[0], c.sort(descending=True)[0], c.argsort(1), c.topk(2)[0], c.topk(2)[1].int(),
                   c.topk(2, 1, largest=False)[0], c.topk(1)[1].int()),
        (C,),
    ),
    "sums": (
        lambda c: (op.sum(c), op.sum(c, 1), op.sum(c, [0, 2], True), op.max(c, -1), op.min(c, 0, True), op.mean(c, 2),
                   op.cumsum(c, 1), op.cumsum(c), op.cumsum(c, 1, exclusive=True)),
        lambda c: (c.sum(), c.sum(1), c.sum((0, 2), True), c.amax(-1), c.amin(0, True), c.mean(2),
                   c.cumsum(1), c.flatten().cumsum(0), c.cumsum(1) - c),
        (C,),
    ),
    "products": (
        lambda c, a: (op.matmul(c, op.permute_dims(c, [0, 2, 1])), op.softmax(c, 1), op.prelu(c, a)),
        lambda c, a: (c @ c.transpose(1, 2), c.softmax(1), F.prelu(c, a)),
        (C, values(6)),
    ),
    "norms": (
        lambda c, w, b: (op.layer_norm(c, 5, w, b), op.layer_norm(c, [6, 5]), op.layer_norm(c, [5], eps=0.1),
                         op.layer_norm(c, list(c.shape)), op.rms_norm(c, w, -1), op.rms_norm(c, w, [2], 1e-5)),
        lambda c, w, b: (F.layer_norm(c, (5,), w, b), F.layer_norm(c, (6, 5)), F.layer_norm(c, (5,), eps=0.1),
                         F.layer_norm(c, c.shape), _rms(c, w), _rms(c, w)),
        (C, values(5), values(5)),
    ),
    "groups": (
        lambda x, w, b: (op.group_norm(x, 2, w, b), op.group_norm(x, 4, None, None, axes=[2, 3])),
        lambda x, w, b: (F.group_norm(x, 2, w, b), F.group_norm(x, 4)),
        (IMAGE, values(4), values(4)),
    ),
    "lines": (
        lambda x, w, b: (op.conv1d(x, w, b, padding=1), op.conv1d(x, w, None, 2), op.conv1d(x, w, padding="same")),
        lambda x, w, b: (F.conv1d(x, w, b, padding=1), F.conv1d(x, w, None, 2), F.conv1d(x, w, padding="same")),
        (LINE, values(6, 4, 3), values(6)),
    ),
    "images": (
        lambda x, w, b, g: (op.conv2d(x, w, b, (2, 1), 1), op.conv2d(x, w, b, padding="valid"),
                            op.conv2d(x, g, groups=2, dilation=(1, 2), padding="same")),
        lambda x, w, b, g: (F.conv2d(x, w, b, (2, 1), 1), F.conv2d(x, w, b),
                            F.conv2d(x, g, groups=2, dilation=(1, 2), padding="same")),
        (IMAGE, values(6, 4, 3, 2), values(6), values(2, 2, 3, 2)),
    ),
    "channels last": (
        lambda x, w, b: op.conv2d(x, w, b, data_layout="NHWC"), _nhwc,
        (values(2, 6, 5, 4), values(6, 4, 3, 2), values(6)),
    ),
    "volumes": (
        lambda x, w, b: op.conv3d(x, w, b, padding=1), lambda x, w, b: F.conv3d(x, w, b, padding=1),
        (VOLUME, values(3, 2, 3, 3, 2), values(3)),
    ),
    "transposes": (
        lambda x, w, b: op.conv1d_transpose(x, w, b, 2, 1, 1), lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1),
        (LINE, values(4, 3, 3), values(3)),
    ),
    "transposed images": (
        lambda x, w, b: op.conv2d_transpose(x, w, b, 2, 1), lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1),
        (IMAGE, values(4, 3, 3, 3), values(3)),
    ),
    "attention": (
        lambda q, k, v, m: (
            op.scaled_dot_product_attention(q, k, v), op.scaled_dot_product_attention(q, k, v, scale=0.3),
            op.scaled_dot_product_attention(q, k, v, is_causal=True), op.scaled_dot_product_attention(q, k, v, m),
            op.scaled_dot_product_attention(q, k, v, m > -1),
        ),
        lambda q, k, v, m: (
            _attention(q, k, v), _attention(q, k, v, scale=0.3), _attention(q, k, v, is_causal=True),
            _attention(q, k, v, attn_mask=m), _attention(q, k, v, attn_mask=m > -1),
        ),
        (Q, K, V, values(2, 1, 3, 5)),
    ),
    "sizes": (
        lambda x: (op.interpolate(x, (9, 10)), op.interpolate(x, 8, mode="bilinear"),
                   op.interpolate(x, scale_factor=2.0, mode="bicubic"),
                   op.interpolate(x, [9, 5], mode="bilinear", align_corners=True)),
        lambda x: (F.interpolate(x, (9, 10)), F.interpolate(x, (8, 8), mode="bilinear"),
                   F.interpolate(x, scale_factor=2.0, mode="bicubic"),
                   F.interpolate(x, (9, 5), mode="bilinear", align_corners=True)),
        (IMAGE,),
    ),
}  # fmt: skip


def _agree(found: Any, wanted: Any) -> None:
    one = not isinstance(wanted, tuple)
    pairs = zip([found] if one else found, [wanted] if one else wanted, strict=True)
    for number, (a, b) in enumerate(pairs):
        where = f"result {number}"
        assert str(a.dtype) == str(b.dtype).removeprefix("torch."), where
        np.testing.assert_allclose(a, b.numpy(), rtol=2e-5, atol=2e-5, err_msg=where)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_that_of_torch(name: str, symbolic: bool) -> None:
    ours, torchs, arrays = CASES[name]
    _agree(interpreted(ours, *arrays, symbolic=symbolic), torchs(*map(torch.from_numpy, arrays)))


def test_compiled_operators_are_the_interpreted_ones() -> None:
    def everything(a: nn.Tensor, p: nn.Tensor, c: nn.Tensor) -> Any:
        return (
            *CASES["functions"][0](a, p),
            *CASES["ordered"][0](c),
            op.scaled_dot_product_attention(*[op.unsqueeze(c, 2)] * 3),
        )

    mod = program(everything, [["n", 4], ["n", 4], ["m", 6, 5]], ["float32"] * 3)
    for found, wanted in zip(legato.compile(mod)(A, P, C), evaluate(mod, [A, P, C]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_timesteps() -> None:
    t = np.array([0, 1, 5], np.float32)
    even, odd = interpreted(lambda t: (op.get_timestep_embedding(t, 8), op.get_timestep_embedding(t, 7, True, 0, 2)), t)
    angles = t[:, None] * np.exp(-np.log(10000) * np.arange(4) / 3)
    np.testing.assert_allclose(even, np.concatenate([np.sin(angles), np.cos(angles)], 1), rtol=1e-4, atol=1e-5)
    angles = 2 * t[:, None] * np.exp(-np.log(10000) * np.arange(3) / 3)
    wanted = np.concatenate([np.cos(angles), np.sin(angles), np.zeros((3, 1))], 1)
    np.testing.assert_allclose(odd, wanted, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------- programs of one's own


PROGRAMS = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def scaled(x: T.handle, y: T.handle, k: T.int64):
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        for i in range(n):
            Y[i] = X[i] * T.cast(k, "float32")

    @T.prim_func
    def doubled(x: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        for i in range(n):
            X[i] = X[i] * T.float32(2.0)
""")
SCALED, DOUBLED = (PROGRAMS[name] for name in ("scaled", "doubled"))


def test_tensor_programs_are_called() -> None:
    def own(x: nn.Tensor) -> Any:
        out = nn.Tensor.placeholder(x.shape, "float32", "out")
        tripled = op.tensor_ir_op(SCALED, "scaled", [x, 3, x.shape[0]], out)
        summed = op.tensor_expr_op(
            lambda a, b, k: te.compute(a.shape, lambda i: a[i] + b[i] * k), "summed", [x, tripled, 2]
        )
        return tripled, summed, op.tensor_ir_inplace_op(DOUBLED, "doubled", x, 0, out), x

    x = np.arange(4, dtype=np.float32)
    mod = program(own, [["n"]], ["float32"])
    for found in (evaluate(mod, [x]), legato.compile(mod)(x)):
        for a, b in zip(found, (3 * x, 7 * x, 2 * x, x), strict=True):
            np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------------- errors


WRONG: list[tuple[Callable[..., Any], type[CompileError], str]] = [
    (lambda x: x + op.zeros([5]), TypeCheckError, "add"),
    (lambda x: op.matmul(x, x), TypeCheckError, "matmul"),
    (lambda x: op.reshape(x, [7, "k / 2"]), TypeCheckError, "no dim"),
    (lambda x: op.reshape(x, [5]), TypeCheckError, "reshape"),
    (lambda x: op.concat([x, op.zeros([3, 5])], 0), TypeCheckError, "concat"),
    (lambda x: x.astype("int32") * 2.5, TypeCheckError, "2.5 beside a tensor of int32"),
    (lambda x: x if x > 0 else -x, TypeCheckError, "known when the program runs"),
    (lambda x: op.gelu(x, "fast"), TypeCheckError, "approximate='fast'"),
    (lambda x: op.layer_norm(x, 5), TypeCheckError, r"layer_norm over \[5\]"),
    (lambda x: op.group_norm(op.unsqueeze(x, 2), 1, None, None, axes=[1]), UnsupportedError, r"axes \[1\]"),
    (lambda x: op.rms_norm(x, op.ones([3]), 0), UnsupportedError, "over axes 0"),
    (lambda x: op.topk(x, 1, ret_type="all"), TypeCheckError, "ret_type='all'"),
    (lambda x: op.full([2], 1.5, "int32"), TypeCheckError, "1.5"),
    (lambda x: op.conv1d(op.unsqueeze(x, 0), op.ones([1, 3, 3]), None, 2, "same"), TypeCheckError, "padding='same'"),
    (lambda x: op.interpolate(x, 2), UnsupportedError, "of rank 4"),
    (lambda x: op.extern("f", [x, "s"], x), TypeCheckError, "f of 's'"),
    (lambda x: op.extern("f", [x], 3), TypeCheckError, "f gives 3"),
    (lambda x: op.extern("", [x], x), TypeCheckError, "has a name"),
    (lambda x: op.print_(x), CompileError, "nn.op.print_ in a method without effects"),
    (lambda x: op.debug_func("f", x), CompileError, "nn.op.debug_func of f in a method without effects"),
    (lambda x: op.ccl_allreduce(x), UnsupportedError, "one machine"),
    (lambda x: op.tensor_ir_op(SCALED, "f", [3, x], x), TypeCheckError, "tensors come first"),
    (lambda x: op.tensor_ir_op(SCALED, "f", [x, 3], None), TypeCheckError, "f gives None"),
    (lambda x: op.tensor_ir_op(SCALED, "f", [x, 3], x), TypeCheckError, "rank 1"),
    (lambda x: op.tensor_ir_op(print, "f", [x], x), TypeCheckError, "no tensor program"),
    (lambda x: op.tensor_ir_inplace_op(DOUBLED, "f", x, [0, 1], x), TypeCheckError, "1 results for 2"),
    (lambda x: op.tensor_expr_op(lambda a: 1, "f", [x]), TypeCheckError, "f gives 1"),
    (lambda x: op.zeros(3), TypeCheckError, "a shape is a list of dims, got 3"),
    (lambda x: op.zeros(["q"]), TypeCheckError, "dim q is not bound here"),
    (lambda x: op.pad(x, [1, 0, 0]), TypeCheckError, "an even number"),
    (lambda x: op.pad(x.astype("int32"), [0, 0, 0, 1], value=1.5), TypeCheckError, "1.5 beside"),
    (lambda x: op.get_timestep_embedding(op.sum(x, 0), 2), TypeCheckError, "of 2 numbers, shifted by 1"),
    (lambda x: op.interpolate(op.reshape(x, [1, 1, 3, 4]), scale_factor=(1, 2, 3)), TypeCheckError, "for 2 axes"),
    (lambda x: None, TypeCheckError, "gives None, which is no tensor"),
    (lambda x: x.shape, TypeCheckError, "which is no tensor"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_calls(case: int) -> None:
    act, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        program(lambda x: act(x), [[3, 4]], ["float32"])


def test_operators_are_found_in_the_module_above() -> None:
    assert all(getattr(nn, name) is getattr(op, name) for name in op.__all__)
    with pytest.raises(AttributeError, match="no fused"):
        _ = nn.fused


def test_operators_outside_of_a_method() -> None:
    with pytest.raises(CompileError, match="an operator outside of a method that is exported"):
        op.relu(nn.Tensor.placeholder([2], "float32"))
