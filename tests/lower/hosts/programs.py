"""Programs with objects, run by `tir.interp` and natively, against the interpreter; nothing is left of any run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import legato
from legato.arith.evaluate import evaluate as evaluate_dim
from legato.arith.expr import Var
from legato.base.target import host
from legato.driver import CompileOptions, lower_module
from legato.interp import evaluate
from legato.lower.hosts.program import HostProgram
from legato.runtime.binding import library
from legato.runtime.executable import Executable
from legato.tir import interp as tir_interp
from legato.tir.buffer import Buffer
from legato.tir.verify import verify_all
from legato.transform.pass_ import Observer, run
from tests.graphs import leaves

__all__ = ["agree", "leaked", "lowered"]

Array = np.ndarray[Any, Any]


def lowered(text: str) -> HostProgram:
    """The host functions and kernels that the program becomes."""
    options = CompileOptions(host())
    module = legato.parse(f'#[version = "0.0.5"]\n{text}')
    loops = lower_module(run(module, options.passes), options, Observer())[1]
    verify_all({**loops.kernels, **loops.functions}, final=True)
    return loops


def leaked(exe: Executable) -> int:
    """How many objects the calls of `exe` have forgotten so far."""
    return sum(int(library().lg_objects_leaked(workspace.handle)) for workspace in exe._free)


def agree(text: str, *calls: Sequence[Any]) -> Executable:
    """Compares every call with the interpreter, as loop program and compiled; the executable."""
    module = legato.parse(f'#[version = "0.0.5"]\n{text}')
    loops, exe = lowered(text), legato.compile(module)
    for args in calls:
        wanted = leaves(evaluate(module, args))
        for got in (_interpreted(loops, args, wanted), leaves(exe(*args))):
            for g, w in zip(got, wanted, strict=True):
                assert (g.shape, g.dtype) == (w.shape, w.dtype)
                np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
    assert leaked(exe) == 0
    return exe


def _interpreted(loops: HostProgram, args: Sequence[Array], wanted: Sequence[Array]) -> list[Array]:
    main = loops.functions["main"]
    buffers = [p for p in main.params if isinstance(p, Buffer)]
    sizes = {d: n for b, a in zip(buffers, args, strict=False) for d, n in zip(b.shape, a.shape, strict=True)}
    dims = {p: sizes[p] for p in main.params if isinstance(p, Var)}
    outputs = [np.zeros([int(evaluate_dim(d, dims)) for d in b.shape], b.dtype.numpy) for b in buffers[len(args) :]]
    constants = {name: node.data for name, node in loops.constants.items()}
    functions = {**loops.kernels, **loops.functions}
    assert tir_interp.run(main, [*args, *dims.values(), *outputs], functions=functions, constants=constants) == 0
    return outputs
