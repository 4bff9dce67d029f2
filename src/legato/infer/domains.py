"""Domains: the devices of a value, with one leaf for each tensor in it, which are unified as types are.

    Tensor → Leaf     a tuple, function, reference → a branch of those of its parts     List[T] → a branch of that of T

A leaf that a value of another structure meets (a value whose type is a variable) stands for all tensors in that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from legato.base.dataclass import dataclass
from legato.base.device import Device
from legato.ir.types import FuncType, RefType, ShapeType, TensorType, TupleType, Type, TypeCall, TypeVar

__all__ = ["Branch", "Domain", "Leaf", "domain", "leaves", "unify"]


class Leaf:
    """The device of a tensor: that of the leaf above, if there is one (union-find, Tarjan 1975); None if it is open.

    A `word` is a scalar that the host hands on by value: it may be read everywhere, and is equal to nothing.
    """

    __slots__ = ("_above", "device", "word")

    def __init__(self, device: Device | None = None, *, word: bool = False) -> None:
        self._above: Leaf = self
        self.device, self.word = device, word

    def root(self) -> Leaf:
        """The leaf that stands for all which are equal to this one."""
        leaf = self
        while leaf._above is not leaf:
            leaf._above = leaf._above._above
            leaf = leaf._above
        return leaf

    def join(self, other: Leaf) -> tuple[Device, Device] | None:
        """Makes both equal; their devices if that cannot be."""
        a, b = self.root(), other.root()
        if a is b or a.word or b.word:
            return None
        if a.device is not None and b.device is not None and a.device != b.device:
            return a.device, b.device
        b.device = b.device or a.device
        a._above = b
        return None


@dataclass(frozen=True, eq=False, slots=True)
class Branch:
    """The domains of the parts of a value: `kind` is "tuple", "function" (parameters, then the result), "ref", "data"
    (one for each type argument) or "shape"."""

    kind: str
    parts: tuple[Domain, ...] = ()


Domain = Leaf | Branch
Env = Mapping[TypeVar, Domain]


def domain(ty: Type | None, env: Env, leaf: Callable[[], Leaf] = Leaf, *, words: bool = False) -> Domain:
    """A new domain for a value of type `ty`; `env` has those of type variables. Are scalars `words`?"""

    def of(parts: Iterable[Type]) -> tuple[Domain, ...]:
        return tuple(domain(part, env, leaf, words=words) for part in parts)

    match ty:
        case TupleType(fields):
            return Branch("tuple", of(fields))
        case FuncType(params, ret):
            return Branch("function", of((*params, ret)))
        case RefType():
            return Branch("ref", of(ty.children()))
        case TypeCall():
            return Branch("data", of(ty.args))
        case ShapeType():
            return Branch("shape")
        case TypeVar() if ty in env:
            return env[ty]
        case TensorType() if words and not ty.rank:
            return Leaf(word=True)
        case TensorType() | TypeVar() | None:
            return leaf()
        case _:
            return Branch("data")


def leaves(*domains: Domain) -> Iterator[Leaf]:
    """The leaves of domains, left to right."""
    stack = list(reversed(domains))
    while stack:
        top = stack.pop()
        if isinstance(top, Leaf):
            yield top
        else:
            stack += reversed(top.parts)


def unify(a: Domain, b: Domain) -> Iterator[tuple[Device, Device]]:
    """Makes two domains equal; yields the devices where that cannot be."""
    stack = [(a, b)]
    while stack:
        a, b = stack.pop()
        if isinstance(a, Branch) and isinstance(b, Branch) and (a.kind, len(a.parts)) == (b.kind, len(b.parts)):
            stack += reversed(list(zip(a.parts, b.parts, strict=True)))
        elif isinstance(a, Leaf) and isinstance(b, Leaf):
            conflict = a.join(b)
            if conflict is not None:
                yield conflict
        else:
            yield from collapse(leaves(a, b))


def collapse(parts: Iterable[Leaf]) -> Iterator[tuple[Device, Device]]:
    """Makes all leaves equal; yields the devices where that cannot be."""
    first: Leaf | None = None
    for leaf in parts:
        if leaf.word:
            continue
        if first is not None and (conflict := first.join(leaf)) is not None:
            yield conflict
        first = first or leaf
