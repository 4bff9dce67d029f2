"""What a loop adds to its own parameters is added where they lie, so that a turn takes time for the addition alone.

    @loop(%i + 1, concatenate((%ys, expand_dims(%y))))         =>      @loop(%i + 1, append(%ys, %y))
    @loop(%i + 1, scatter_nd(%ys, [[%i]], expand_dims(%y)))    =>      @loop(%i + 1, put(%ys, %i, %y))

of a parameter %ys and for the same one, in functions that call themselves. Lowering does what `ir.updates` means
without a copy where no later use of the old value is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.base.node import rebuild
from legato.ir.contents import body_nodes
from legato.ir.expr import Call, Expr, Function, GlobalVar, If, Let, Match, Tuple, TupleGetItem, Var
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.ir.updates import APPEND, PUT, AppendAttrs, is_one
from legato.ops.join import concatenate
from legato.transform._external import is_own
from legato.transform._loops import bare, row_put
from legato.transform.pass_ import Pass

__all__ = ["UpdateInPlace"]

Path = tuple[int, ...]  # a part of a value: the numbers of the fields in tuples, from the outside


@dataclass(frozen=True, slots=True)
class UpdateInPlace(Pass):
    """Module → module; after passes that bring loops into graph form."""

    name = "update-in-place"

    def __call__(self, mod: Module) -> Module:
        return mod.with_functions({gv: _updated(gv, f) if is_own(f) else f for gv, f in mod.functions.items()})


def _updated(gv: GlobalVar, func: Function) -> Function:
    nodes = body_nodes(func)
    calls = [node for node in nodes if isinstance(node, Call) and node.op == gv]
    if not calls:
        return func
    bound = {node.var: node.value for node in nodes if isinstance(node, Let)}
    found = {
        id(node)
        for call in calls
        for param, arg in zip(func.params, call.args, strict=True)
        for node in _additions(param, arg, bound)
    }
    new: dict[int, Expr] = {}
    for node in nodes if found else ():
        done = rebuild(node, new)
        new[id(node)] = _update(done) if id(node) in found else done
    return replace(func, body=new[id(func.body)]) if found else func


def _additions(param: Var, arg: Expr, bound: dict[Var, Expr]) -> Iterator[Expr]:
    """The nodes that add to parts of `param` for the same parts of `arg`, on whichever path."""
    stack: list[tuple[Expr, Path]] = [(arg, ())]
    seen: set[tuple[int, Path]] = set()
    while stack:
        node, path = stack.pop()
        if (id(node), path) in seen:
            continue
        seen.add((id(node), path))
        match node:
            case Var() if node in bound:
                stack.append((bound[node], path))
            case If():
                stack += [(node.then, path), (node.orelse, path)]
            case Match():
                stack += [(clause.body, path) for clause in node.clauses]
            case Let():
                stack.append((node.body, path))
            case Tuple():
                stack += [(f, (*path, n)) for n, f in enumerate(node.fields)]
            case _:
                yield from _chain(node, param, path, bound)


def _chain(node: Expr, param: Var, path: Path, bound: dict[Var, Expr]) -> Iterator[Expr]:
    """The additions that `node` is made by, one after the other, if the first one is to that part of `param`."""
    found: list[Expr] = []
    while (data := _added_to(node)) is not None:
        found.append(node)
        node = bound.get(data, data) if isinstance(data, Var) else data
    at: Path = ()
    while isinstance(node, TupleGetItem):
        at, node = (node.index, *at), node.value
    if node is param and at == path:
        yield from found


def _added_to(node: Expr) -> Expr | None:
    """What `node` adds rows to, or puts a row into; None of others."""
    if isinstance(node, Call) and node.op is concatenate and isinstance(node.args[0], Tuple):
        first, axis = node.args[0].fields[0], _axis(node)
        assert isinstance(first.ty, TensorType)
        return first if all(map(is_one, first.ty.shape[:axis])) else None
    put = row_put(node)
    return None if put is None else put[0]


def _axis(call: Call) -> int:
    assert isinstance(call.ty, TensorType)
    return int(call.attrs.axis % call.ty.rank)


def _update(node: Expr) -> Expr:
    """The same value as an update."""
    assert isinstance(node, Call)
    put = row_put(node)
    if put is not None:
        return Call(PUT, put, ty=node.ty, span=node.span)
    (data,) = node.args
    assert isinstance(data, Tuple)
    made, *rows = data.fields
    axis = _axis(node)
    for row in rows:
        a, b = made.ty, row.ty
        assert isinstance(a, TensorType)
        assert isinstance(b, TensorType)
        shape = (*a.shape[:axis], simplify(a.shape[axis] + b.shape[axis]), *a.shape[axis + 1 :])
        one = bare(row, (*b.shape[:axis], *b.shape[axis + 1 :])) if is_one(b.shape[axis]) else None
        made = Call(APPEND, (made, one or row), AppendAttrs(axis), ty=TensorType(shape, a.dtype), span=node.span)
    return replace(made, ty=node.ty)
