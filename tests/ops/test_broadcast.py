"""Broadcasting of dims of which it is known only when the program runs whether they are 1."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import legato
from legato.base.errors import RunError
from legato.interp import evaluate
from legato.ir.expr import Function
from legato.ir.module import Module

END = 2**31 - 1
FIRST = "strided_slice(%x, begin=[0], end=[1], axes=[1])"
LAST = f"strided_slice(%x, begin=[-1], end=[{END}], axes=[1])"
BODIES = [
    f"%x - {FIRST}",
    f"%x / {LAST}",
    f"{LAST} * %x",
    f"{FIRST} - {LAST}",
    f"where(%x > {FIRST}, %x, {LAST})",
    f"broadcast_to({FIRST}, shape=[n, m])",
    f"nn.batch_matmul(reshape({FIRST}, newshape=[n, -1, 1]), reshape(%x, newshape=[n, m, 1]))",
    f"nn.softmax(%x - {LAST}, axis=1) + {FIRST}",
]
SIZES = [(0, 3), (1, 1), (1, 0), (3, 1), (3, 4), (2, 0), (5, 9)]


def program(body: str) -> Module:
    return legato.parse(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(n, m), float32]) {{ {body} }}')


@pytest.mark.parametrize("body", BODIES)
def test_decided_when_it_runs(body: str) -> None:
    module = program(body)
    exe = legato.compile(module)
    for size in SIZES:
        x = np.random.default_rng(1).random(size).astype("float32") + 1
        with np.errstate(all="ignore"):
            try:
                expected = np.asarray(evaluate(module, [x]))
            except RunError:
                with pytest.raises(RunError):
                    exe(x)
                continue
        np.testing.assert_allclose(np.asarray(exe(x)), expected, rtol=1e-5, atol=1e-6)


def test_a_slice_of_itself_asks_for_nothing() -> None:
    for body in BODIES[:3]:
        main = program(body)["main"]
        assert isinstance(main, Function)
        assert "constraints" not in main.attrs
        assert str(main.body.ty) == "Tensor[(n, m), float32]"


PAIRS = {
    "x + y": ("%x + %y", np.add),
    "y < x": ("%y < %x", lambda x, y: y < x),
    "power": ("power(%x, %y)", np.power),
    "where": ("where(%x > %y, %y, 1f)", lambda x, y: np.where(x > y, y, np.float32(1))),
    "in turn": ("exp(%x - %y) * %x + %y", lambda x, y: np.exp(x - y) * x + y),
    "sum": ("sum(%x * %y, axis=[0])", lambda x, y: (x * y).sum(0)),
    "softmax": ("nn.softmax(%x - %y, axis=0)", None),
    "to y": ("broadcast_to(%x, shape=[2, m, 4])", lambda x, y: np.broadcast_to(x, (2, len(y), 4))),
    "a literal": ("concatenate((%x + ones(shape=[3, 1]), %y))", lambda x, y: np.concatenate((x + np.ones((3, 1)), y))),
    "matmul": (
        "matmul(reshape(%x, newshape=[n, 2, 2]), reshape(%y, newshape=[m, 2, 2]))",
        lambda x, y: x.reshape(-1, 2, 2) @ y.reshape(-1, 2, 2),
    ),
    "large matmul": (
        "matmul(broadcast_to(reshape(%x, newshape=[n, 1, 4]), shape=[n, 24, 4]), reshape(%y, newshape=[m, 4, 1]))",
        lambda x, y: np.broadcast_to(x[:, None], (len(x), 24, 4)) @ y[:, :, None],
    ),
    "einsum": ('einsum((%x, %y), equation="ij,ik->jk")', None),
    "four": ("%x + %y + (%y * %x) + %x", lambda x, y: x + y + y * x + x),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_two_dims_of_which_one_may_be_one(name: str) -> None:
    body, peer = PAIRS[name]
    x_and_y = "%x: Tensor[(n, 4), float32], %y: Tensor[(m, 4), float32]"
    module = legato.parse(f'#[version = "0.0.5"]\ndef @main({x_and_y}) {{ {body} }}')
    exe = legato.compile(module)
    for n, m in product((0, 1, 2, 3, 5), repeat=2):
        x, y = (np.random.default_rng(n + 9 * m).random((k, 4)).astype("float32") for k in (n, m))
        try:
            expected = np.asarray(evaluate(module, [x, y]))
        except RunError:
            with pytest.raises(RunError, match="the sizes do not fit"):
                exe(x, y)
            with pytest.raises(ValueError, match=r"shape|dimension"):
                (peer or np.add)(x, y)
            continue
        np.testing.assert_allclose(np.asarray(exe(x, y)), expected, rtol=1e-5, atol=1e-6)
        if peer is not None:
            np.testing.assert_allclose(expected, peer(x, y), rtol=1e-5, atol=1e-6)


def test_dims_that_cannot_be_one_are_equal() -> None:
    module = legato.parse("""#[version = "0.0.5"]
    def @main[n: ShapeVar(2, 9), m: ShapeVar(2, 9)](%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) { %x + %y }
    """)
    main = module["main"]
    assert isinstance(main, Function)
    assert str(main.body.ty) == "Tensor[(n,), float32]"


def test_what_many_dims_broadcast_to_is_as_long_as_they_are() -> None:
    """In any order, and whatever has been joined before: each dim is once in the shape, and there is one text of it."""
    params = ", ".join(f"%x{n}: Tensor[(?,), float32]" for n in range(40))
    sums = " + ".join(f"%x{n}" for n in range(40))
    module = legato.parse(f'#[version = "0.0.5"]\ndef @main({params}) {{ ({sums}) * (%x7 - %x9) + %x0 }}')
    main = module["main"]
    assert isinstance(main, Function)
    assert len(str(main.body.ty)) < 40 * 40
    args = [np.full(5 if n % 3 else 1, n, "float32") for n in range(40)]
    assert evaluate(module, args).tolist() == [780 * -2.0] * 5
