"""Random programs, compiled: they mean what the interpreter says, and the number of threads does not show.

The default run tries a few dozen; `make fuzz` tries thousands (LEGATO_FUZZ sets how many).
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from legato.base.errors import RunError
from legato.base.target import Target, host
from legato.driver import CompileOptions, compile_module, lower_module
from legato.ir.equal import alpha_equal
from legato.ir.parser import parse
from legato.ir.printer import show_with_tensors
from legato.ops import table
from legato.transform.pass_ import Observer, run
from tests.graphs import BATCHES, Program, called, compare, leaves, programs
from tests.guarded import call_guarded
from tests.lower.programs import interpreted, lowered
from tests.machines import LEVELS
from tests.programs.settings import examples

MACHINES = [host(), *(t for t in LEVELS if t.name != "x86-64-v4")]


@examples(60)
@given(programs(), st.sampled_from(MACHINES), st.integers(0, 2))
def test_compiled_is_interpreted(program: Program, target: Target, calls: int) -> None:
    for _ in range(calls):
        program = called(program)
    exe = compile_module(program.module, CompileOptions(target)).executable
    assert exe.stats["host_operators"] == 0
    bound = 0
    for batch in BATCHES if program.dim else BATCHES[:1]:
        args = program.arguments(batch)
        try:
            result = call_guarded(exe, args)
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


@examples(30)
@given(programs(steps=8, limit=100), st.sampled_from(MACHINES), st.booleans())
def test_loop_programs_mean_the_same(program: Program, target: Target, backwards: bool) -> None:
    args = program.arguments()
    compare(tuple(interpreted(lowered(program.module, target), args, backwards=backwards)), program, args)


@examples(15)
@given(programs(steps=12, limit=512))
def test_text_of_lowered_programs(program: Program) -> None:
    options = CompileOptions(host(), keep=frozenset({"lower", "tir"}))
    observer = Observer(keep=options.keep)
    lower_module(run(program.module, options.passes), options, observer)
    for module in observer.kept.values():
        text, tensors = show_with_tensors(module)
        assert alpha_equal(parse(text, ops=table(), constants=tensors), module)
