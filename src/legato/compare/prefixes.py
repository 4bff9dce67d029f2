"""The first binding of a program that goes wrong, and the smallest program around it that shows it.

A program in A-normal form is cut behind its k-th binding: what is left returns all that later bindings need. A wrong
value stays among those or spoils what it flows into, so the first wrong prefix is found by bisection. It is made
smaller by replacing bindings before it by parameters, whose values the interpreter knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, InternalError, RunError
from legato.base.node import post_order
from legato.compare.exact import interpret
from legato.ir.expr import Call, Expr, Function, Tuple, Var
from legato.ir.let import Binding, chain, lets
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType, Type
from legato.ir.visit import free_vars
from legato.lower.hosts.cells import leaf_types
from legato.runtime.leaves import flat

__all__ = ["FirstWrong", "IsWrong", "first_wrong"]

Array = np.ndarray[Any, Any]
Values = dict[int, list[Array]]  # the leaves of what a node computes, by its id
# Whether what becomes of a program computes something else on some inputs, whose exact outputs, and those in the
# program's precision, are known.
IsWrong = Callable[[Module, Sequence[Array], Sequence[Array], Sequence[Array]], bool]
_PLACES: Final = 4  # of a binding that are named


@dataclass(frozen=True, slots=True)
class FirstWrong:
    """The binding `node`; `what` it computes: its operators, and where it comes from; a program that shows it."""

    node: str
    what: str
    program: Module
    inputs: Sequence[Array]


def first_wrong(
    mod: Module, inputs: Sequence[Array], is_wrong: IsWrong, packed: Mapping[str, object] | None = None
) -> FirstWrong | None:
    """The first binding of @main of `mod`, in A-normal form, that is wrong on `inputs`; None where no prefix is."""
    return _Prefixes(mod, inputs, is_wrong, packed).search()


def _is_data(ty: Type | None) -> bool:
    """Whether values of the type are arrays, or tuples of them: what compiled programs take and return."""
    return isinstance(ty, TensorType) or (isinstance(ty, TupleType) and all(map(_is_data, ty.fields)))


class _Prefixes:
    def __init__(
        self, mod: Module, inputs: Sequence[Array], is_wrong: IsWrong, packed: Mapping[str, object] | None
    ) -> None:
        main = mod["main"]
        assert isinstance(main, Function)
        self.mod, self.main, self.inputs, self.is_wrong, self.packed = mod, main, inputs, is_wrong, packed
        self.bindings, self.result = chain(main.body)
        self.exact, self.native = self._values(float64=True), self._values(float64=False)

    def _values(self, *, float64: bool) -> Values:
        """What the interpreter computes for each binding."""
        wanted = {id(value) for _, value in self.bindings}
        found: Values = {}

        def observe(node: Expr, value: Any) -> None:
            if id(node) in wanted and _is_data(node.ty):
                found[id(node)] = list(flat(value))

        interpret(self.mod, self.inputs, float64=float64, observe=observe, packed=self.packed)
        return found

    def search(self) -> FirstWrong | None:
        """The first wrong binding, by bisection over prefixes of so many bindings."""
        good, bad = 0, len(self.bindings)
        if not self.bindings or not self._is_bad(bad):
            return None
        while bad - good > 1:
            middle = (good + bad) // 2
            if self._is_bad(middle):
                bad = middle
            else:
                good = middle
        var, value = self.bindings[bad - 1]
        program, inputs = self._smaller(bad)
        return FirstWrong(var.name, _what(value), program, inputs)

    def _smaller(self, count: int) -> tuple[Module, Sequence[Array]]:
        """The program of the last 1, 2, 4, … of `count` bindings that is wrong; else the prefix."""
        size = 1
        while size < count:
            part, inputs = self._part(count - size, count)
            if part is not None and self._fails(part, inputs):
                return part, inputs
            size *= 2
        return self._prefix(count)[0], self.inputs

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
        exact = [leaf for _, e in live for leaf in self.exact[id(e)]]
        native = [leaf for _, e in live for leaf in self.native[id(e)]]
        return self.is_wrong(program, self.inputs, exact, native)

    def _part(self, start: int, count: int) -> tuple[Module | None, list[Array]]:
        """The program of the bindings from `start` on, which returns the last one's value, as a function of the
        variables that they use, and their values."""
        var, _ = self.bindings[count - 1]
        body = lets(self.bindings[start:count], var)
        used = free_vars(body)
        known = dict(zip(self.main.params, self._arguments(), strict=True))
        known |= {v: self.native[id(e)] for v, e in self.bindings[:start] if id(e) in self.native}
        names = {v.name for v in used}
        if len(names) != len(used) or not all(v in known for v in used):
            return None, []
        return self._with_main(used, body), [leaf for v in used for leaf in known[v]]

    def _arguments(self) -> list[list[Array]]:
        leaves = iter(self.inputs)
        return [[next(leaves) for _ in leaf_types(p.ty)] for p in self.main.params]

    def _fails(self, program: Module, inputs: Sequence[Array]) -> bool:
        """Whether a part is wrong on `inputs`; one that cannot be compiled, or typed, shows nothing."""
        try:
            exact, native = (interpret(program, inputs, float64=w, packed=self.packed) for w in (True, False))
            return self.is_wrong(program, inputs, exact, native)
        except (CompileError, InternalError, RunError):
            return False


def _what(value: Expr) -> str:
    """The operators of a binding's value, and where in the model they stand: the last few places."""
    inner = [*post_order([value])]
    calls = [node.op.name for node in inner if isinstance(node, Call) and isinstance(node.op, Op)]
    spans = [str(node.span) for node in inner if isinstance(node, Call) and node.span is not None]
    places = [*dict.fromkeys(spans or [str(node.span) for node in inner if node.span is not None][-1:])]
    named, at = ", ".join(dict.fromkeys(calls)), ", ".join(places[-_PLACES:])
    at = f"…, {at}" if len(places) > _PLACES else at
    return f"{named} at {at}" if named and at else named or at
