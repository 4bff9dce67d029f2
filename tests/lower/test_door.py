"""Calls whose arguments do not fit are refused before anything runs: they name what does not fit, and write nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import InternalError, RunError
from legato.runtime.fill import feeds

Arrays = dict[str, np.ndarray]

# What the inputs are, what is computed beside exp(%x), and sizes that fit.
PROGRAMS = [
    ("%x: Tensor[(n, 4), float32], %y: Tensor[(n,), float32]", "sum(%y)", {"n": 3}),
    ("%x: Tensor[(n, 4), float32], %y: Tensor[(2 * n + 1,), float32]", "sum(%y)", {"n": 3}),
    ("%x: Tensor[(n, 4), float32], %y: Tensor[(m, 4), float32]", "add(%x, %y)", {"n": 3, "m": 3}),
    ("%x: Tensor[(n, 4), float32], %y: Tensor[(m,), float32]", "reshape(%x, newshape=[m, 2])", {"n": 3, "m": 6}),
    ("%x: Tensor[(n, m), float32], %y: Tensor[(m, k), float32]",
     "split(matmul(%x, %y), indices_or_sections=2).0", {"n": 2, "m": 3, "k": 4}),
    ("%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]",
     "strided_slice(%y, begin=[n], end=[m], axes=[0])", {"n": 2, "m": 3}),
    ("%x: Tensor[(n, 1, m), float32], %y: Tensor[(m,), float32]",
     "nn.max_pool1d(%x, pool_size=[3])", {"n": 2, "m": 4}),
    ("%z: (Tensor[(n,), float32], Tensor[(n, 3), float32]), %x: Tensor[(), float32]", "%z.1 + %x", {"n": 3}),
]  # fmt: skip
BINDERS = ("", "[n: ShapeVar(2, 4)]")


def other_shapes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Shapes that differ from `shape` in an extent, or in their rank."""
    for axis, extent in enumerate(shape):
        yield from (
            (*shape[:axis], n, *shape[axis + 1 :]) for n in {0, 1, extent - 1, extent + 1, 2 * extent} - {extent}
        )
    yield (*shape, 1)
    yield shape[1:] if shape else (1, 1)


def other_inputs(inputs: Arrays) -> Iterator[Arrays]:
    """`inputs` with one of them of another shape or dtype."""
    for name, array in inputs.items():
        yield from ({**inputs, name: np.ones(shape, array.dtype)} for shape in other_shapes(array.shape))
        yield {**inputs, name: array.astype(np.float64)}


def refusal(exe: Any, inputs: Arrays, out: Arrays) -> str | None:
    """What the call is refused with; None if it runs. Refused calls leave `out` and inputs as they are."""
    before = {name: array.tobytes() for name, array in (*inputs.items(), *out.items())}
    try:
        exe.run(inputs, out=out)
        return None
    except InternalError:
        raise
    except RunError as error:
        message = str(error)
    assert {name: array.tobytes() for name, array in (*inputs.items(), *out.items())} == before
    return message


@pytest.mark.parametrize("binder", BINDERS)
@pytest.mark.parametrize(("params", "body", "dims"), PROGRAMS)
def test_arguments_that_do_not_fit(params: str, body: str, dims: dict[str, int], binder: str) -> None:
    module = legato.parse(f'#[version = "0.0.5"]\ndef @main{binder}({params}) {{ (exp(%x), {body}) }}')
    exe = legato.compile(module, threads=1)
    inputs = feeds(exe.program.functions["main"], None, dims=dims)
    fitting = exe.run(inputs)
    count = 0
    for given in other_inputs(inputs):
        out = {name: np.full_like(value, 7) for name, value in fitting.items()}
        message = refusal(exe, given, out)
        if message is None or message.startswith("out "):
            continue
        count += 1
        assert 'input "' in message, message
        assert "got:" in message, message
        assert "wanted:" in message, message
        assert "dimension" in message or "wrong dtype" in message, message
    assert count > 4


def test_results_that_do_not_fit_their_arrays() -> None:
    params, body, dims = PROGRAMS[0]
    exe = legato.compile(legato.parse(f'#[version = "0.0.5"]\ndef @main({params}) {{ (exp(%x), {body}) }}'), threads=1)
    inputs = feeds(exe.program.functions["main"], None, dims=dims)
    right = {name: np.full_like(value, 7) for name, value in exe.run(inputs).items()}
    odd = np.frombuffer(bytearray(49), np.uint8)[1:].view(np.float32).reshape(3, 4)
    shared = np.full((6, 4), 7, np.float32)
    wrong: list[Arrays] = [
        {"output0": np.zeros((4, 4), np.float32)}, {"output0": np.zeros((3, 4))}, {"output0": shared[::2]},
        {"output0": odd}, {"output0": right["output0"][:, ::-1]}, {"output0": inputs["x"]},
    ]  # fmt: skip
    for changed in wrong:
        message = refusal(exe, inputs, {**right, **changed})
        assert message is not None
        assert 'out "output0"' in message
    assert refusal(exe, inputs, right) is None
