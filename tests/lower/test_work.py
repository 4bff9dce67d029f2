"""The work of compiled kernels, against what the operators' own records say."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.arith.evaluate import evaluate
from legato.infer.infer import infer
from legato.interp import evaluate as evaluate_program
from legato.ir import expr as ir
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.runtime.executable import Executable
from tests.machines import LEVELS
from tests.programs.settings import examples

TARGETS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


def program(params: str, result: str, body: str) -> str:
    return f'#[version = "0.0.5"]\ndef @main({params}) -> Tensor[{result}, float32] {{ {body} }}'


def tensors(**shapes: object) -> str:
    return ", ".join(f"%{name}: Tensor[{shape}, float32]" for name, shape in shapes.items())


def flops(exe: Executable, **dims: int) -> int:
    """Of all kernels, each once; symbolic dims have the same names in all of them."""
    return sum(k.work({name: dims[name] for name in k.dims}).flops for k in exe.kernels)


def recorded(text: str) -> int:
    """What the record of the one operator says."""
    main = infer(legato.parse(text))["main"]
    assert isinstance(main, ir.Function)
    call = main.body
    assert isinstance(call, ir.Call)
    assert isinstance(call.op, Op)
    if call.op.cost is None:
        assert isinstance(call.ty, TensorType)
        return prod(int(evaluate(d, {})) for d in call.ty.shape)
    cost = call.op.cost([a.ty for a in call.args], call.ty, *call.op.tail(call.attrs))  # type: ignore[arg-type]
    return int(evaluate(cost.flops, {}))


def computing(text: str, target: str, *shapes: tuple[int, ...]) -> Executable:
    """The program, compiled; where this machine runs it, it computes what it means: less work would be less."""
    exe = legato.compile(legato.parse(text), target=target)
    agrees(exe, text, *shapes)
    return exe


def agrees(exe: Executable, text: str, *shapes: tuple[int, ...]) -> None:
    """On integers, whose sums and products are exact."""
    if exe.target not in {t.name for t in LEVELS}:
        return
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    np.testing.assert_allclose(exe(*arrays), evaluate_program(legato.parse(text), arrays), rtol=1e-5)


@examples(12, fuzz=False)
@given(m=st.integers(1, 40), blocks=st.integers(1, 5), k=st.integers(1, 600), target=st.sampled_from(TARGETS))
def test_dense(m: int, blocks: int, k: int, target: str) -> None:
    n = 16 * blocks  # no lane is left over
    text = program(tensors(x=(m, k), w=(n, k)), str((m, n)), "nn.dense(%x, %w)")
    want, got = recorded(text), flops(computing(text, target, (m, k), (n, k)))
    # Long sums are formed in parts, which are joined exactly where there is one row, or in several lanes.
    assert want - m * n <= got <= want + (k // 2 + 64) * m * n


@examples(12, fuzz=False)
@given(
    size=st.integers(7, 20),
    channels=st.sampled_from([3, 16, 40]),
    filters=st.sampled_from([16, 48]),
    kernel=st.sampled_from([1, 2, 5]),
    stride=st.sampled_from([1, 2]),
    target=st.sampled_from(TARGETS),
)
def test_convolution(size: int, channels: int, filters: int, kernel: int, stride: int, target: str) -> None:
    out = (size - kernel) // stride + 1
    shapes = (1, channels, size, size), (filters, channels, kernel, kernel)
    text = program(
        tensors(x=shapes[0], w=shapes[1]),
        str((1, filters, out, out)),
        f"nn.conv2d(%x, %w, strides=[{stride}, {stride}], padding=[0, 0, 0, 0])",
    )
    want, got = recorded(text), flops(computing(text, target, *shapes))
    # Rows of few pixels are computed in vectors that reach beyond them.
    assert want * 0.95 <= got <= want * 2 + 64 * filters * out * out


@examples(12, fuzz=False)
@given(shape=st.tuples(st.integers(1, 9), st.integers(1, 70)), target=st.sampled_from(TARGETS))
def test_elementwise(shape: tuple[int, int], target: str) -> None:
    text = program(tensors(x=shape, y=shape), str(shape), "add(%x, %y)")
    exe = computing(text, target, shape, shape)
    assert flops(exe) == recorded(text)
    (kernel,) = exe.kernels
    assert [(b[2], b[3]) for b in kernel.work({}).buffers] == [(4 * shape[0] * shape[1], 0)] * 2 + [
        (0, 4 * shape[0] * shape[1])
    ]
    assert kernel.operators == ("add",)


@examples(20, fuzz=False)
@given(n=st.integers(1, 100), target=st.sampled_from(TARGETS))
def test_symbolic_dims(n: int, target: str) -> None:
    text = program("%x: Tensor[(n, m), float32], %y: Tensor[(n, m), float32]", "(n, m)", "exp(add(%x, %y))")
    exe = symbolic(text, target)
    agrees(exe, text, (n, 7), (n, 7))
    (kernel,) = exe.kernels
    work = kernel.work(dict.fromkeys(kernel.dims, 0) | {"n": n, "m": 7})
    assert (work.count("flops"), work.calls) == (7 * n, {"exp": 7 * n})
    assert work.bytes == 3 * 4 * 7 * n


@cache
def symbolic(text: str, target: str) -> Executable:
    return legato.compile(legato.parse(text), target=target)
