"""Random programs, compiled: they mean what the interpreter says, and the number of threads does not show.

The default run tries a few dozen; `make fuzz` tries thousands (LEGATO_FUZZ sets how many).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.evaluate import evaluate
from legato.arith.expr import Var
from legato.base.errors import RunError
from legato.base.target import TARGETS, Target, host, missing_features
from legato.driver import CompileOptions, compile_module, lower_module
from legato.ir.equal import alpha_equal
from legato.ir.parser import parse
from legato.ir.printer import show_with_tensors
from legato.lower.hosts.program import HostProgram
from legato.ops import table
from legato.tir import interp as tir_interp
from legato.tir.buffer import Buffer
from legato.tir.verify import verify_all
from legato.transform.pass_ import Observer, run
from tests.graphs import BATCHES, Program, called, compare, leaves, programs
from tests.programs.settings import examples

LEVELS = [t for t in (host(), TARGETS["x86-64-v3"], TARGETS["x86-64-v2"]) if not missing_features(t)]


@examples(60)
@given(programs(), st.sampled_from(LEVELS), st.integers(0, 2))
def test_compiled_is_interpreted(program: Program, target: Target, calls: int) -> None:
    for _ in range(calls):
        program = called(program)
    exe = compile_module(program.module, CompileOptions(target)).executable
    assert exe.stats["host_operators"] == 0
    bound = 0
    for batch in BATCHES if program.dim else BATCHES[:1]:
        args = program.arguments(batch)
        try:
            result = exe(*args)
        except RunError as error:
            if "an extent of the result" not in str(error):
                raise
            continue  # a window larger than what it slides over
        compare(result, program, args)
        bound = max(bound, exe.peak_memory(n=batch))
        assert exe._free[-1].peak <= bound
        for threads in (1, 4):
            other = exe.with_threads(threads)(*args)
            for a, b in zip(leaves(result), leaves(other), strict=True):
                assert a.tobytes() == b.tobytes()


def lowered(program: Program, target: Target) -> HostProgram:
    """The kernels and host functions that `program` becomes."""
    options = CompileOptions(target)
    return lower_module(run(program.module, options.passes), options, Observer())[1]


def interpreted(loops: HostProgram, args: Sequence[Any], dims: Mapping[Var, int], *, backwards: bool) -> list[Any]:
    """The outputs of @main, its host function and kernels run by `tir.interp`."""
    main = loops.functions["main"]
    results = [b for b in main.params if isinstance(b, Buffer)][len(args) :]
    outputs = [np.zeros([int(evaluate(d, dims)) for d in b.shape], b.dtype.numpy) for b in results]
    constants = {name: node.data for name, node in loops.constants.items()}
    functions = {**loops.kernels, **loops.functions}
    words = [*args, *(dims[v] for v in main.params if isinstance(v, Var)), *outputs]
    assert tir_interp.run(main, words, functions=functions, constants=constants, backwards=backwards) == 0
    return outputs


@examples(30)
@given(programs(steps=8, limit=100), st.sampled_from(LEVELS), st.booleans())
def test_loop_programs_mean_the_same(program: Program, target: Target, backwards: bool) -> None:
    loops = lowered(program, target)
    verify_all({**loops.kernels, **loops.functions}, final=True)
    args = program.arguments()
    dims = {program.dim: BATCHES[0]} if program.dim else {}
    compare(tuple(interpreted(loops, args, dims, backwards=backwards)), program, args)


@examples(15)
@given(programs(steps=12, limit=512))
def test_text_of_lowered_programs(program: Program) -> None:
    options = CompileOptions(host(), keep=frozenset({"lower", "tir"}))
    observer = Observer(keep=options.keep)
    lower_module(run(program.module, options.passes), options, observer)
    for module in observer.kept.values():
        text, tensors = show_with_tensors(module)
        assert alpha_equal(parse(text, ops=table(), constants=tensors), module)
