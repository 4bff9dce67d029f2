"""Types of values, where the original program says them: dims that are learned, equalities that are checked.

The original says `let %y: Tensor[(d, 4), float32] = …`. Where the value is of type Tensor[(n, 4), float32] by now, d is
n from here on. Where d is known, and nobody can tell that it is n, a cast checks it, as the program did.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from legato.arith.expr import Const, fresh
from legato.arith.expr import Var as DimVar
from legato.arith.prove import provably_different, prove_equal
from legato.infer.replace import replace_vars
from legato.ir.dim_values import dim_pairs, dim_values
from legato.ir.expr import MatchCast, Var
from legato.ir.types import Dim, TupleType, Type, map_dims
from legato.transform._partial.code import Bind, Block
from legato.transform._partial.scope import Activation
from legato.transform._partial.values import Fields, Keys, Unknown, Value
from legato.transform._types import has_function

__all__ = ["Conform"]


class Conform:
    """Makes values fit types. `late` dims are those that equalities wait for: a node or a cast has to bring them."""

    def __init__(self, late: Collection[DimVar], keys: Keys) -> None:
        self._late = late
        self._keys = keys

    def __call__(self, value: Value, ty: Type | None, env: Activation, block: Block) -> Value:
        """`value` where the original program states type `ty`."""
        if ty is None or value.ty is None:
            return value
        if isinstance(value, Fields) and isinstance(ty, TupleType):
            pairs = zip(value.fields, ty.fields, strict=True)
            fields = [self(v, t, env, block) for v, t in pairs]
            same = all(a is b for a, b in zip(fields, value.fields, strict=True))
            return value if same else Fields(fields, self._keys)
        self.learn(value.ty, ty, env)
        wanted = env.type(ty)
        if value.ty == wanted or has_function(wanted) or _is_same(value.ty, wanted):
            return value
        return self.cast(value, wanted, block)

    def cast(self, value: Value, ty: Type, block: Block) -> Value:
        """`value`, checked to have type `ty`.

        A cast that is certain to fail is one of a tensor whose dims nobody knows: inference would refuse it.
        """
        if value.ty is not None and any(provably_different(a, b) for a, b in dim_pairs(value.ty, ty)):
            value = self._checked(value, map_dims(value.ty, lambda d: fresh("d", 0)), block)
        return self._checked(value, ty, block)

    def _checked(self, value: Value, ty: Type, block: Block) -> Value:
        var = Var("cast", ty=ty)
        block.entries.append(Bind(var, MatchCast(value.atom, ty, ty=ty)))
        return Unknown(var)

    def learn(self, got: Type, ty: Type, env: Activation) -> None:
        """The dims that a value of type `got` brings where the original program says `ty`."""
        new = env.new_dims(ty)
        if new:
            for d, found in self._values(got, ty, env, new).items():
                if d not in self._late and _is_within(found, d):
                    env.dims[d] = found

    def _values(self, got: Type, ty: Type, env: Activation, new: Sequence[DimVar]) -> dict[DimVar, Dim]:
        """The values of the `new` dims of `ty` in a value of type `got`, as far as they can be told."""
        wanted, stands = _opened(ty, env, new)
        found = dim_values(got, wanted, list(stands.values()))
        return {d: found[v] for d, v in stands.items() if v in found}

    def join(
        self, ty: Type | None, values: Sequence[Value], env: Activation, blocks: Sequence[Block]
    ) -> tuple[Type | None, list[Value]]:
        """The type of a choice where the original program says `ty` and the branches, of these blocks, give `values`;
        and what they give then.

        As in inference, a dim of which the branches agree is theirs, another is a new one. What a branch gives is cast
        where the original's type is not its own, and where it is one number in this branch and another in that.
        """
        types = [v.ty for v in values]
        if ty is None or any(t is None for t in types) or has_function(ty):
            return None if ty is None else env.type(ty), list(values)
        new = env.new_dims(ty)
        found = [self._values(t, ty, env, new) for t in types if t is not None]
        agreed: dict[DimVar, Dim] = {}
        clash: set[DimVar] = set()
        for d in new:
            dims = [f[d] for f in found if d in f]
            if len(dims) == len(found) and dims and all(prove_equal(dims[0], o) for o in dims[1:]):
                agreed[d] = dims[0]
            elif len({o.value for o in dims if isinstance(o, Const)}) > 1:
                clash.add(d)
        opened, stands = _opened(ty, env, new)
        env.dims.update({d: v for d, v in agreed.items() if d not in self._late and _is_within(v, d)})
        kept = {stands[d]: v for d, v in agreed.items()}
        made = []
        for value, block, own in zip(values, blocks, found, strict=True):
            here = {v: fresh(d.name, 0) if d in clash else own.get(d, v) for d, v in stands.items()}
            wanted = replace_vars(opened, {}, {**here, **kept})
            is_right = value.ty is None or value.ty == wanted or _is_same(value.ty, wanted)
            made.append(value if is_right else self.cast(value, wanted, block))
        for d in new:
            if d not in agreed:
                kept[stands[d]] = env.dim_var(d)
        return replace_vars(opened, {}, kept), made


def _opened(ty: Type, env: Activation, new: Sequence[DimVar]) -> tuple[Type, dict[DimVar, DimVar]]:
    """`ty` with what its dims stand for, and for the `new` ones, which stand for nothing yet, dims of their own."""
    stands = {d: fresh(d.name, d.lo, d.hi) for d in new}
    inner = Activation(env)
    inner.dims.update(stands)
    return inner.type(ty), stands


def _is_same(a: Type, b: Type) -> bool:
    """True if two types of one form have provably equal dims."""
    return all(x is y or prove_equal(x, y) for x, y in dim_pairs(a, b))


def _is_within(value: Dim, dim: DimVar) -> bool:
    """True if `value` is certain to be in the range of `dim`."""
    low, high = dim.lo or 0, dim.hi
    if isinstance(value, Const):
        return low <= value.value and (high is None or value.value <= high)
    if isinstance(value, DimVar):
        is_low = low <= (value.lo or 0)
        return is_low and (high is None or (value.hi is not None and value.hi <= high))
    return low == 0 and high is None
