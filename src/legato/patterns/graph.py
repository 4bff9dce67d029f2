"""An expression as a graph: who uses what, what dominates what, which types the nodes have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from legato.base.errors import CompileError
from legato.infer.infer import infer_function
from legato.ir.dominators import DominatorTree, post_dominators, users
from legato.ir.expr import Call, Constant, Constructor, Expr, Function, GlobalVar, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import operands, post_order
from legato.ir.types import Type, free_type_vars
from legato.ir.visit import free_vars, with_operands

__all__ = ["Graph", "closed", "inlined", "is_leaf", "typed"]


def is_leaf(e: Expr) -> bool:
    """Whether an expression computes nothing."""
    return isinstance(e, Var | GlobalVar | Constant | Constructor | Op)


def closed(params: tuple[Var, ...], body: Expr) -> Function:
    """The function of `params`, polymorphic in the type variables of their types."""
    variables = dict.fromkeys(v for p in params if p.ty is not None for v in free_type_vars(p.ty))
    return Function(params, body, type_params=tuple(variables))


def inlined(e: Expr, values: Mapping[Var, Expr]) -> Expr:
    """`e` with variables replaced by their values, in which variables are replaced as well, but for functions."""
    new: dict[int, Expr] = {}
    stack = [(e, False)]
    while stack:
        node, done = stack.pop()
        value = values.get(node) if isinstance(node, Var) else None
        if isinstance(value, Function):
            value = None
        if done:
            new[id(node)] = with_operands(node, new) if value is None else new[id(value)]
        elif id(node) not in new:
            stack.append((node, True))
            below = operands(node) if value is None else (value,)
            stack += [(kid, False) for kid in reversed(below) if id(kid) not in new]
    return new[id(e)]


def typed(e: Expr, module: Module | None = None) -> Expr:
    """`e` with types, as part of `module`; its free variables get those that nothing contradicts. TypeCheckError."""
    func = e if isinstance(e, Function) else closed(free_vars(e), e)
    if module is None:
        found = infer_function(func)
    else:
        functions = module.functions.items()
        known = {gv: f.ty for gv, f in functions if isinstance(f, Function) and f.ty is not None}
        programs = {gv: f for gv, f in functions if not isinstance(f, Function)}
        found = infer_function(func, types=tuple(module.types.values()), globals_=known, programs=programs)
    return found if isinstance(e, Function) else found.body


class Graph:
    """The graph of `root`, a part of `module`. What it knows is found out when it is first asked for."""

    def __init__(self, root: object, module: Module | None = None) -> None:
        if not isinstance(root, Expr):
            hint = "of a module, take a function" if hasattr(root, "functions") else None
            raise CompileError(f"no expression: {root!r}", hint=hint)
        self.root = root
        self.module = module
        self.order = tuple(post_order(root))  # operands first

    def candidates(self, head: Op | None) -> Sequence[Expr]:
        """The nodes that are calls of an operator (None: all nodes), from the root on."""
        return self.order[::-1] if head is None else self._calls.get(head, ())

    @cached_property
    def _calls(self) -> dict[Op, list[Expr]]:
        found: dict[Op, list[Expr]] = {}
        for node in reversed(self.order):
            if isinstance(node, Call) and isinstance(node.op, Op):
                found.setdefault(node.op, []).append(node)
        return found

    @cached_property
    def users(self) -> dict[int, list[Expr]]:
        """The nodes that each node is an operand of, by id."""
        return users(self.order)

    @cached_property
    def post_dominators(self) -> DominatorTree[Expr]:
        """What lies on every path from a node to the root."""
        return post_dominators(self.order)

    @cached_property
    def dominators(self) -> DominatorTree[Expr]:
        """What everything that a node is computed from leads through; variables, constants and callees aside."""
        return DominatorTree(self.order, _computed)

    def between(self, parent: Expr, child: Expr) -> Iterator[Expr]:
        """The nodes on the paths from `parent`, which dominates `child`, to it; without these two."""
        seen = {id(parent)}
        todo = list(_computed(child))
        while todo:
            node = todo.pop()
            if id(node) not in seen:
                seen.add(id(node))
                todo += _computed(node)
                yield node

    @cached_property
    def _types(self) -> dict[int, Type | None]:
        """The types of nodes that came without; inference keeps the form of a program."""
        pairs = zip(self.order, post_order(typed(self.root, self.module)), strict=True)
        return {id(old): new.ty for old, new in pairs}

    def type_of(self, e: Expr) -> Type | None:
        """The type of a node; None for what has none, as an operator by itself. TypeCheckError for wrong programs."""
        return e.ty if e.ty is not None or isinstance(e, Op | Constructor) else self._types.get(id(e))


def _computed(e: Expr) -> list[Expr]:
    return [operand for operand in operands(e) if not is_leaf(operand)]
