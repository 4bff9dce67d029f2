"""Operators in the interpreter: as total as in compiled programs, and refused for the same reasons, never NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.arith.expr import Const
from legato.base.errors import RunError
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Call, Function, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType, Type, tensor_type

ONE = "%x: Tensor[(n,), float32]"
IMAGE = "%x: Tensor[(1, 4, n, n), float32]"
KERNEL = "%w: Tensor[(4, 4, 3, 3), float32]"
REFUSED = {  # parameters, body, the extent n
    "split": (ONE, "split(%x, indices_or_sections=2)", 3),
    "split_at": (ONE, "split(%x, indices_or_sections=[n - 2])", 1),
    "one_hot": ("%x: Tensor[(n,), int32]", "one_hot(%x, 1f, 0f, depth=n - 3, dtype=float32)", 2),
    "max_pool": (IMAGE, "nn.max_pool2d(%x, pool_size=[3, 3])", 1),
    "conv2d": (f"{IMAGE}, {KERNEL}", "nn.conv2d(%x, %w)", 1),
    "conv2d_transpose": (f"{IMAGE}, {KERNEL}", "nn.conv2d_transpose(%x, %w, channels=4, padding=[2, 2])", 1),
    "resize2d": (IMAGE, 'image.resize2d(%x, size=[n - 2, 4], layout="NCHW")', 1),
    "pad": (ONE, "nn.pad(%x, 0f, pad_width=[[-2, 1]])", 0),
    "full": (ONE, "full(1f, shape=[n - 2, 3])", 1),
    "zeros": (ONE, 'zeros(shape=[n - 2], dtype="float32")', 1),
    "tile": (ONE, "tile(ones(shape=[4]), reps=[n - 3])", 2),
    "broadcast_to": (ONE, "broadcast_to(1f, shape=[n - 3])", 2),
    "space_to_depth": (IMAGE, "nn.space_to_depth(%x, block_size=2)", 3),
    "depth_to_space": ("%x: Tensor[(1, n, 2, 2), float32]", "nn.depth_to_space(%x, block_size=2)", 6),
    "reshape": (ONE, "reshape(%x, newshape=[n // 2, 2])", 3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_compiled(name: str) -> None:
    params, body, n = REFUSED[name]
    module = legato.parse(f'#[version = "0.0.5"]\ndef @main({params}) {{ {body} }}')
    main = module["main"]
    assert isinstance(main, Function)
    args = [_ones(p.ty, n) for p in main.params]
    with pytest.raises(RunError):
        legato.compile(module, threads=1)(*args)
    with pytest.raises(RunError):
        evaluate(module, args)


def _ones(ty: Type | None, n: int) -> np.ndarray[Any, Any]:
    assert isinstance(ty, TensorType)
    return np.ones([int(d.value) if isinstance(d, Const) else n for d in ty.shape], ty.dtype.numpy)


def test_an_empty_result_has_the_extents_of_its_type() -> None:
    """What is left for -1 beside a dim that happens to be 0 is what it is beside others."""
    module = legato.parse("""#[version = "0.0.5"]
    def @main(%x: Tensor[(n, 3, 4), float32]) { reshape(%x, newshape=[n, -1]) }
    """)
    empty = np.ones((0, 3, 4), np.float32)
    assert evaluate(module, [empty]).shape == legato.compile(module, threads=1)(empty).shape == (0, 12)


def test_a_reference_that_fails_is_named() -> None:
    def reference(x: Any) -> Any:
        raise ValueError("no such thing")

    op = Op("mine", ("x",), lambda relation, x: x, reference)
    x = Var("x", ty=tensor_type((2,), "float32"))
    module = infer(Module.from_expr(Function((x,), Call(op, (x,)))))
    with pytest.raises(RunError, match=r"^mine: its reference failed: no such thing$"):
        evaluate(module, [np.ones(2, np.float32)])
