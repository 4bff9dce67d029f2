"""The bounds-checked build: every access of every kernel and host function is tested when the program runs."""

from __future__ import annotations

from dataclasses import replace

from legato.arith.expr import Const
from legato.base.errors import InternalError
from legato.lower.facts import KernelFacts
from legato.lower.hosts.program import HostProgram
from legato.runtime.violation import AccessInfo
from legato.tir.bounds import AccessTests, checked
from legato.tir.launch import LaunchKind, launch_kind
from legato.tir.stmt import Func

__all__ = ["test_all"]


def test_all(program: HostProgram) -> None:
    """Puts tests into all functions of `program`, which are programs: none of its kernels was found as code."""
    if program.found:
        raise InternalError(f"kernels that were found compiled cannot be tested: {', '.join(program.found)}")
    functions = {**program.kernels, **program.functions}
    tests = AccessTests(len(program.checks))
    for func in program.functions.values():
        _constants(program, func)
    program.kernels = {name: checked(f, tests, functions) for name, f in program.kernels.items()}
    program.functions = {name: checked(f, tests, functions) for name, f in program.functions.items()}
    program.facts = {name: _facts(facts, program.kernels[name]) for name, facts in program.facts.items()}
    program.tests = tuple(AccessInfo(t.message, t.is_ours) for t in tests.found)


def _facts(facts: KernelFacts, tested: Func) -> KernelFacts:
    """The facts of a kernel with tests: a thread that leaves it would be waited for at barriers, so it runs alone."""
    kind = launch_kind(tested)
    return replace(facts, launch=LaunchKind.ALONE if kind is LaunchKind.GANG else kind)


def _constants(program: HostProgram, func: Func) -> None:
    """InternalError unless the constants of a function are as large as it takes them to be."""
    for buffer, name in func.constants:
        elements, size = buffer.elements(), program.constants[name].data.nbytes
        if not isinstance(elements, Const) or int(elements.value) * buffer.dtype.bytes > size:
            raise InternalError(f"{func.name} takes the constant {name} of {size} bytes to be {buffer}")
