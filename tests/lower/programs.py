"""Modules brought to loops, and run as such by `tir.interp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legato.arith.evaluate import evaluate
from legato.arith.expr import Var
from legato.base.precision import Precision
from legato.base.target import Target, host
from legato.compare.exact import interpret
from legato.driver import CompileOptions, compile_module, lower_module
from legato.ir.module import Module
from legato.lower.hosts.program import HostProgram
from legato.tir import interp
from legato.tir.buffer import Buffer
from legato.tir.verify import verify_all
from legato.transform.pass_ import Observer, run

__all__ = ["interpreted", "lowered", "number_of_kernels"]

Array = np.ndarray[Any, Any]


def lowered(
    mod: Module, target: Target | None = None, precision: Precision = Precision.DEFAULT, **options: Any
) -> HostProgram:
    """The kernels and host functions that `mod` becomes, verified; by default for this machine."""
    settings = CompileOptions(target or host(), precision=precision, **options)
    loops = lower_module(run(mod, settings.passes), settings, Observer())[1]
    verify_all({**loops.kernels, **loops.functions}, final=True)
    return loops


def interpreted(loops: HostProgram, args: Sequence[Array], *, backwards: bool = False) -> list[Array]:
    """The outputs of @main, its host function and kernels run by `tir.interp`."""
    main = loops.functions["main"]
    buffers = [p for p in main.params if isinstance(p, Buffer)]
    sizes = {d: n for b, a in zip(buffers, args, strict=False) for d, n in zip(b.shape, a.shape, strict=True)}
    dims = {p: sizes[p] for p in main.params if isinstance(p, Var)}
    outputs = [
        np.full([int(evaluate(d, dims)) for d in b.shape], np.nan if b.dtype.is_float else 0, b.dtype.numpy)
        for b in buffers[len(args) :]
    ]
    constants = {name: node.data for name, node in loops.constants.items()}
    functions = {**loops.kernels, **loops.functions}
    words = [*args, *dims.values(), *outputs]
    assert interp.run(main, words, functions=functions, constants=constants, backwards=backwards) == 0
    return outputs


def number_of_kernels(mod: Module, *inputs: Array, target: Target | None = None) -> int:
    """How many kernels `mod` becomes: compiled, it is as interpreted, the same for any number of threads."""
    exe: Any = compile_module(mod, CompileOptions(target or host(), keep=frozenset({"lower"}))).executable
    (want,) = interpret(mod, inputs, float64=False)
    found = [exe.with_threads(threads)(*inputs) for threads in (1, 2, 3)]
    np.testing.assert_allclose(found[0], want, rtol=1e-5, atol=1e-5)
    assert all(np.array_equal(found[0], other) for other in found[1:])
    return str(exe.module_after("lower")).count("\nkernel ")
