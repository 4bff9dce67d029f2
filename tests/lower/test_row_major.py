"""Without the assignment of buffer layouts, everything lies in row-major order, and is still right."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legato.base.errors import RunError
from legato.base.precision import Precision
from legato.base.target import Target, host
from legato.compare.exact import interpret
from legato.driver import CompileOptions, compile_module
from legato.ir.module import Module
from legato.testing import mobilenet, resnet
from legato.tir.buffer import Buffer
from legato.transform._constants import with_constants
from tests.graphs import BATCHES, Program, called, compare, programs
from tests.guarded import call_guarded
from tests.lower.programs import lowered
from tests.lower.test_random import MACHINES
from tests.programs.settings import examples

OPTIONS = CompileOptions(host(), assign_layouts=False)


def orders(mod: Module, *, assign_layouts: bool) -> set[bool]:
    """Whether what kernels of `mod` read and write is in row-major order."""
    kernels = lowered(mod, assign_layouts=assign_layouts).kernels.values()
    buffers = [p for kernel in kernels for p in kernel.params if isinstance(p, Buffer)]
    return {b.layout.order == tuple(range(b.rank)) and not any(b.layout.pad) for b in buffers}


@examples(30)
@given(programs(), st.sampled_from(MACHINES), st.sampled_from((Precision.DEFAULT, Precision.EXACT, Precision.FAST)))
def test_compiled_is_interpreted(program: Program, target: Target, precision: Precision) -> None:
    program = called(program)
    options = CompileOptions(target, precision=precision, assign_layouts=False)
    exe = compile_module(program.module, options).executable
    assert exe.stats["host_operators"] == 0
    for batch in BATCHES if program.dim else BATCHES[:1]:
        args = program.arguments(batch)
        try:
            result = call_guarded(exe, args)
        except RunError as error:
            if "an extent of the result" not in str(error):
                raise
            continue  # a window larger than what it slides over
        compare(result, program, args)


def test_a_residual_network() -> None:
    """ResNet-18 of small images: convolutions of strides, residuals, pooling; on any number of threads the same."""
    mod, params = resnet.get_workload(num_layers=18, image_shape=(3, 32, 32), num_classes=10)
    check(mod, params, (1, 3, 32, 32))


def test_a_network_of_depthwise_convolutions() -> None:
    mod, params = mobilenet.get_workload(image_shape=(3, 32, 32), num_classes=10)
    check(mod, params, (1, 3, 32, 32))


def check(mod: Module, params: dict[str, np.ndarray], shape: tuple[int, ...]) -> None:
    """The network is as interpreted, and row-major only where that is wanted."""
    net = with_constants(mod, params)
    assert orders(net, assign_layouts=False) == {True}
    assert orders(net, assign_layouts=True) == {True, False}
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    exe = compile_module(net, OPTIONS).executable
    (want,) = interpret(net, [x], float64=True)
    found = [exe.with_threads(threads)(x) for threads in (1, 2, 3)]
    np.testing.assert_allclose(found[0], want, rtol=1e-4, atol=1e-6)
    assert all(np.array_equal(found[0], other) for other in found[1:])
