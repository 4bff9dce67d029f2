"""Tests of accesses: of all in a bounds-checked build, else of what is not proven in kernels that somebody wrote."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from legato.arith.expr import Const
from legato.base.errors import InternalError
from legato.lower.facts import KernelFacts
from legato.lower.hosts.program import HostProgram, Place
from legato.runtime.violation import AccessInfo
from legato.tir.accesses import Access
from legato.tir.bounds import AccessTests, checked
from legato.tir.launch import LaunchKind, launch_kind
from legato.tir.stmt import Func

__all__ = ["with_tests"]


def with_tests(program: HostProgram, *, every: bool) -> None:
    """Puts tests into the functions of `program`: of all accesses, or of those that are not proven to be inside, in
    kernels that somebody wrote. For the former, all functions are programs: none of its kernels was found as code."""
    if every and program.found:
        raise InternalError(f"kernels that were found compiled cannot be tested: {', '.join(program.found)}")
    names = program.kernels if every else [name for name, w in program.written.items() if w.unproven]
    if not names:
        return
    tests = AccessTests(len(program.checks))
    kernels = {name: program.kernels[name] for name in names}
    functions = {**kernels, **program.functions}
    for func in program.functions.values():
        _constants(program, func)
    for name, func in kernels.items():
        written = program.written.get(name)
        wanted = None if every or written is None else partial(_is_unproven, written.unproven)
        program.kernels[name] = checked(func, tests, functions, wanted=wanted, is_ours=written is None)
        program.facts[name] = _facts(program.facts[name], program.kernels[name])
    nothing = None if every else _none
    complete = {name: f for name, f in kernels.items() if every and name not in program.written}
    program.functions = {
        n: checked(f, tests, functions, wanted=nothing, complete=complete, shared=program.plans[n].shared)
        for n, f in program.functions.items()
    }
    program.tests = tuple(AccessInfo(t.message, t.is_ours) for t in tests.found)


def _is_unproven(places: frozenset[Place], access: Access) -> bool:
    return (access.buffer, access.indices, access.is_store) in places


def _none(access: Access) -> bool:
    return False


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
