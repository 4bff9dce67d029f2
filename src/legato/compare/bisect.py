"""Who is to blame for a wrong result: the importer, a pass, or the code of one binding.

Passes are checked by the interpreter: what a module computes after each must be what it computed before. Below the
passes, prefixes of the program are compiled: the first k bindings of @main, returning whatever of them is needed
later. A wrong value stays among those or spoils what it flows into, so the first bad prefix is found by bisection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from legato.base.errors import CompileError
from legato.compare.exact import flat, interpret
from legato.compare.report import Culprit, judge, nearness
from legato.driver import CompileOptions, compile_module
from legato.ir.expr import Expr, Function, Tuple, Var
from legato.ir.let import Binding, chain, lets
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType, Type
from legato.ir.visit import free_vars
from legato.lower.hosts.cells import leaf_types
from legato.lower.signature import input_types
from legato.transform.pass_ import Observer, run

__all__ = ["blame"]

Array = np.ndarray[Any, Any]
Values = dict[int, list[Array]]  # the leaves of what a node computes, by its id


def blame(
    mod: Module, inputs: Sequence[Array], options: CompileOptions, theirs: Sequence[Array] | None = None
) -> Culprit:
    """The first stage, and in the code the first binding of @main, that makes the typed `mod` wrong on `inputs`.

    theirs: another implementation's outputs; where the module itself is far from those,
    nothing later is looked at.
    """
    value = partial(interpret, packed=options.packed)
    exact = value(mod, inputs, float64=True)
    native = value(mod, inputs, float64=False)
    if theirs is not None and not all(nearness(n, t)[1] for n, t in zip(native, theirs, strict=True)):
        return _culprit("import", "", mod, inputs)
    before, changes = mod, list[tuple[str, Module, Module]]()
    for p in options.pipeline:
        after = run(before, [p], Observer())
        if after is not before and not _agree(_narrow(value(after, inputs, float64=True), native), exact, native):
            return _culprit(p.name, "", before, inputs)
        if after is not before:
            changes.append((p.name, before, after))
        before = after
    found = _Code(before, inputs, replace(options, passes=())).blame()
    return found if found.node else _rounds_otherwise(changes, inputs, native, options) or found


def _rounds_otherwise(
    changes: Sequence[tuple[str, Module, Module]],
    inputs: Sequence[Array],
    native: Sequence[Array],
    options: CompileOptions,
) -> Culprit | None:
    """The first pass that changes no exact value, but what rounding makes of it: it is seen in the own precision."""
    for name, before, after in changes:
        got = interpret(after, inputs, float64=False, packed=options.packed)
        if not all(nearness(a, b)[1] for a, b in zip(got, native, strict=True)):
            return _culprit(name, "", before, inputs)
    return None


def _agree(got: Sequence[Array], exact: Sequence[Array], native: Sequence[Array]) -> bool:
    return all(judge("", g, e, n).holds for g, e, n in zip(got, exact, native, strict=True))


def _narrow(values: Sequence[Array], like: Sequence[Array]) -> list[Array]:
    """The values in the dtypes of `like`."""
    with np.errstate(all="ignore"):
        return [v.astype(x.dtype) for v, x in zip(values, like, strict=True)]


def _culprit(stage: str, node: str, program: Module, inputs: Sequence[Array]) -> Culprit:
    main = program["main"]
    assert isinstance(main, Function)
    names = [name for name, _ in input_types(main)]
    return Culprit(stage, node, str(program), program, dict(zip(names, inputs, strict=True)))


def _is_data(ty: Type | None) -> bool:
    """Whether values of the type are arrays, or tuples of them: what compiled programs take and return."""
    return isinstance(ty, TensorType) or (isinstance(ty, TupleType) and all(map(_is_data, ty.fields)))


class _Code:
    """Bisection over the bindings of @main of a module that has been through all passes."""

    def __init__(self, mod: Module, inputs: Sequence[Array], options: CompileOptions) -> None:
        main = mod["main"]
        assert isinstance(main, Function)
        self.mod, self.main, self.inputs, self.options = mod, main, inputs, options
        self.bindings, self.result = chain(main.body)
        self.exact, self.native = self._values(float64=True), self._values(float64=False)

    def _values(self, *, float64: bool) -> Values:
        """What the interpreter computes for each binding."""
        wanted = {id(value) for _, value in self.bindings}
        found: Values = {}

        def observe(node: Expr, value: Any) -> None:
            if id(node) in wanted and _is_data(node.ty):
                found[id(node)] = list(flat(value))

        interpret(self.mod, self.inputs, float64=float64, observe=observe, packed=self.options.packed)
        return found

    def blame(self) -> Culprit:
        """The first bad binding, with the smallest program around it that is still wrong."""
        good, bad = 0, len(self.bindings)  # prefixes of that many bindings
        while bad - good > 1:
            middle = (good + bad) // 2
            if self._is_bad(middle):
                bad = middle
            else:
                good = middle
        if not self.bindings or not self._is_bad(bad):
            return _culprit("code", "", self.mod, self.inputs)
        var, value = self.bindings[bad - 1]
        alone, inputs = self._alone(var, value)
        if alone is not None and _fails(alone, inputs, replace(self.options, passes=())):
            return _culprit("code", var.name, alone, inputs)
        return _culprit("code", var.name, self._prefix(bad)[0], self.inputs)

    def _live(self, count: int) -> list[Binding]:
        """The bindings among the first `count` that what follows needs."""
        needed = set(free_vars(lets(self.bindings[count:], self.result)))
        return [(v, e) for v, e in self.bindings[:count] if v in needed and id(e) in self.exact]

    def _prefix(self, count: int) -> tuple[Module, list[Binding]]:
        """The program that returns what is live after `count` bindings."""
        live = self._live(count)
        types = tuple(v.ty for v, _ in live if v.ty is not None)
        body = lets(self.bindings[:count], Tuple(tuple(v for v, _ in live), ty=TupleType(types)))
        return self._with_main(self.main.params, body), live

    def _with_main(self, params: tuple[Var, ...], body: Expr) -> Module:
        attrs = {k: v for k, v in self.main.attrs.items() if k not in ("output_names", "constraints")}
        func = Function(params, body, body.ty, self.main.type_params, attrs)
        return self.mod.with_function(self.mod.var("main"), func)

    def _is_bad(self, count: int) -> bool:
        program, live = self._prefix(count)
        got = _run(program, self.inputs, self.options)
        exact = [leaf for _, e in live for leaf in self.exact[id(e)]]
        native = [leaf for _, e in live for leaf in self.native[id(e)]]
        return not _agree(got, exact, native)

    def _alone(self, var: Var, value: Expr) -> tuple[Module | None, list[Array]]:
        """A program of one binding's value, as a function of the variables that it uses, and their values."""
        used = free_vars(value)
        known = dict(zip(self.main.params, self._arguments(), strict=True))
        known |= {v: self.native[id(e)] for v, e in self.bindings if id(e) in self.native}
        names = {v.name for v in used}
        if len(names) != len(used) or not all(v in known for v in used):
            return None, []
        inputs = [leaf for v in used for leaf in known[v]]
        return self._with_main(used, lets([(var, value)], var)), inputs

    def _arguments(self) -> list[list[Array]]:
        leaves = iter(self.inputs)
        return [[next(leaves) for _ in leaf_types(p.ty)] for p in self.main.params]


def _run(program: Module, inputs: Sequence[Array], options: CompileOptions) -> list[Array]:
    return list(flat(compile_module(program, options).executable(*inputs)))


def _fails(program: Module, inputs: Sequence[Array], options: CompileOptions) -> bool:
    """Whether the program, compiled, is wrong on `inputs`; a program that cannot be compiled shows nothing."""
    try:
        got = _run(program, inputs, options)
    except CompileError:
        return False
    exact, native = (interpret(program, inputs, float64=w, packed=options.packed) for w in (True, False))
    return not _agree(got, exact, native)
