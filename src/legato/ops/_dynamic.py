"""`dyn.X`: operator X whose attributes, some of them, are tensors of integers that the program computes.

dyn.tile(data, reps) is tile(data, reps=[…]) with the elements of `reps`, of which it must be known how many there are.
Where the elements are known, too, both have one type; elsewhere the extents that depend on them are new dims. What X
refuses for the numbers, as literals, is an error of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from legato.arith.expr import Const, ge
from legato.arith.prove import prove
from legato.base.dataclass import dataclass
from legato.base.errors import RunError, TypeCheckError
from legato.ir.attrs import make_attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, Type
from legato.ops._computed import as_dims
from legato.ops._rules import INT, known_dim, require_dtype, tensor
from legato.ops._tensors import Array

if TYPE_CHECKING:
    from legato.infer.builder import Builder

__all__ = ["Dynamic", "Numbers", "evaluated", "fresh_dims", "known_count", "known_numbers", "one"]

Numbers = Mapping[str, tuple[Any, ...]]  # by argument: the elements, row by row


def known_count(rel: Relation, ty: Type, what: str, rank: int = 1) -> int:
    """The number of elements of a tensor of integers, which says a rank and so has to be known. Its own rank is at most
    `rank`."""
    found = tensor(rel, ty, what)
    require_dtype(rel, found, INT, what)
    if found.rank > rank:
        raise rel.fail(f"the {what} has rank {found.rank}, wanted {rank} at most")
    for d in found.shape:
        known_dim(d)
    if not found.is_static:
        hint = "give a tensor of known shape, or say what it is by match_cast"
        raise rel.fail(f"how many elements {what} has is not known: the rank of the result depends on it", hint=hint)
    return int(np.prod(found.static_shape(), dtype=np.int64))


def fresh_dims(rel: Relation, name: str, count: int) -> tuple[Dim, ...]:
    """New dims."""
    return tuple(rel.fresh(f"{name}{n}") for n in range(count))


def known_numbers(b: Builder, x: Expr) -> tuple[int, ...] | None:
    """The elements of a small tensor of integers where they are known as numbers."""
    value = b.value_of(x)
    literals = [int(d.value) for d in value or () if isinstance(d, Const)]
    return tuple(literals) if value is not None and len(literals) == len(value) else None


def evaluated(op: Op, args: Sequence[Array], attrs: Any) -> Any:
    """What `op` gives; RunError where its relation refuses."""
    from legato.interp.operators import apply_operator  # only references need it

    return apply_operator({}, 0, op, args, attrs, None, {})


@dataclass(frozen=True, slots=True)
class Dynamic:
    """How an operator is made of `op`.

    args:    its arguments in order: those of `op`, and attributes of it.
    attrs:   its own attributes, which `op` has, too; None if there are none.
    numbers: (numbers by argument, the operator's own attributes) → attributes of `op`; elements as they lie by default.
    shape:   (relation, types by argument, own attributes) → the type of the result where not all numbers are known;
             None: that of `op` for new dims, of which `op` demands nothing.
    expand:  (builder, arguments by name, own attributes) → the call by other operators; None: of `op`, for dims.
    extents: the numbers are extents, which may be dims.
    rank:    of the tensors of numbers, at most.
    """

    op: Op
    args: tuple[str, ...]
    attrs: type | None = None
    numbers: Callable[[Numbers, Any], Mapping[str, Any]] | None = None
    shape: Callable[..., Type | None] | None = None
    expand: Callable[..., Expr] | None = None
    extents: bool = True
    rank: int = 1

    def record(self, name: str, samples: tuple[Sample, ...], doc: str) -> Op:
        """The operator."""
        return Op(
            name=name,
            args=self.args,
            attrs=self.attrs,
            type_rel=self._relation,
            reference=self._reference,
            expand=self._expand,
            on_host=self._computed,
            strings=self.op.strings,
            samples=samples,
            doc=doc,
        )

    @property
    def _computed(self) -> tuple[str, ...]:
        return tuple(a for a in self.args if a not in self.op.args)

    def attributes(self, given: Numbers, own: Any) -> Any:
        """The attributes of `op` for numbers; TypeCheckError where there are none such."""
        found: Mapping[str, Any] = given if self.numbers is None else self.numbers(given, own)
        return make_attrs(self.op, {**(own or {}), **found})

    def _relation(self, rel: Relation, *given: Any) -> Type | None:
        types, own = self._split(given)
        counts = {a: known_count(rel, types[a], a, self.rank) for a in self._computed}
        data = [types[a] for a in self.op.args]
        known = {a: rel.value(self.args.index(a)) for a in self._computed}
        numbers = {a: self._usable(value) for a, value in known.items() if value is not None}
        complete = {a: found for a, found in numbers.items() if found is not None}
        if len(complete) < len(counts):
            if self.shape is not None:
                return self.shape(rel, types, own)
            complete = {a: fresh_dims(rel, a, n) for a, n in counts.items()}
        try:
            attrs = self.attributes(complete, own)
        except TypeCheckError as error:
            raise rel.fail(error.message) from None
        return self.op.type_rel(rel, *data, attrs)

    def _usable(self, value: Sequence[Any]) -> tuple[Any, ...] | None:
        """Known numbers as attributes: literals, and dims where they are certain to be extents."""
        found = tuple(int(d.value) if isinstance(d, Const) else d for d in value)
        is_usable = all(isinstance(d, int) or (self.extents and d is not None and prove(ge(d, 0))) for d in found)
        return found if is_usable else None

    def _split(self, given: Sequence[Any]) -> tuple[dict[str, Any], Any]:
        count = len(self.args)
        return dict(zip(self.args, given[:count], strict=True)), given[count] if self.attrs is not None else None

    def _reference(self, *given: Any) -> Any:
        arrays, own = self._split(given)
        try:
            attrs = self.attributes({a: tuple(arrays[a].ravel().tolist()) for a in self._computed}, own)
        except TypeCheckError as error:
            raise RunError(error.message) from None
        return evaluated(self.op, [arrays[a] for a in self.op.args], attrs)

    def _expand(self, b: Builder, *given: Any) -> Expr:
        args, own = self._split(given)
        known = {a: known_numbers(b, args[a]) for a in self._computed}
        numbers: Numbers = {a: found for a, found in known.items() if found is not None}
        if len(numbers) < len(known):
            if self.expand is not None:
                return self.expand(b, args, own)
            numbers = {a: as_dims(b, args[a], a) for a in self._computed}
        return b.call_op(self.op, [args[a] for a in self.op.args], self.attributes(numbers, own))


def one(numbers: Sequence[Any], what: str) -> Any:
    """The one element of a tensor; TypeCheckError if there are others."""
    if len(numbers) != 1:
        raise TypeCheckError(f"{what} has {len(numbers)} elements, wanted one")
    return numbers[0]
