"""Programs with random damage: in their tokens, and in their nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from legato.arith.expr import const, fresh
from legato.base.lexer import Source, Token, tokenize
from legato.ir.clauses import Clause, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from legato.ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    If,
    Let,
    Match,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import operands, post_order
from legato.ir.types import FuncType, HoleType, RefType, TupleType, Type, TypeCall, TypeVar, tensor_type
from legato.ops import table
from tests.errors.corpus import PROGRAMS, VERSION

_WORDS = [
    "%x", "%y", "%0", "@main", "@f", "1", "0", "-1", "2f", "3i64", "1.5", "True", '"int8"', "None", "Nil", "Cons",
    "_", "?", "n", "A", "int32", "float32", "bool", "Tensor", "List", "ref", "fn", "let", "if", "else", "match",
    "ref_read", "ref_write", "match_cast", "dataflow", "output", "shape", "def", "type", "extern", "free_var",
    "add", "exp", "nn.dense", "concatenate", "reshape", "sum", "split", "axis", "=", ",", ";", ":", ".0", ".7", "->",
    "=>", "(", ")", "[", "]", "{", "}", "+", "*", "//", "<", "==", "&", "()", "ShapeVar", "Constraint", "99999999999",
]  # fmt: skip


def text_mutant(rng: Random) -> str:
    """A program with one to three changes in its tokens."""
    text = rng.choice(PROGRAMS)
    parts = [text[t.start : t.end] for t in _tokens(text)]
    for _ in range(rng.choice((1, 1, 2, 3))):
        if parts:
            rng.choice(_TEXT)(rng, parts)
    return VERSION + " ".join(parts)


def _tokens(text: str) -> list[Token]:
    return [t for t in tokenize(Source(text)) if t.kind != "eof"]


def _replace(rng: Random, parts: list[str]) -> None:
    parts[rng.randrange(len(parts))] = rng.choice([rng.choice(parts), rng.choice(_WORDS)])


def _insert(rng: Random, parts: list[str]) -> None:
    parts.insert(rng.randrange(len(parts) + 1), rng.choice([rng.choice(parts), rng.choice(_WORDS)]))


def _delete(rng: Random, parts: list[str]) -> None:
    del parts[rng.randrange(len(parts))]


def _swap(rng: Random, parts: list[str]) -> None:
    a, b = rng.randrange(len(parts)), rng.randrange(len(parts))
    parts[a], parts[b] = parts[b], parts[a]


def _rename(rng: Random, parts: list[str]) -> None:
    """A name for another of its kind, which most often leaves a text that can be read."""
    at = rng.randrange(len(parts))
    kind = [p for p in parts if p[0] == parts[at][0] or (p[0].isalpha() and parts[at][0].isalpha())]
    parts[at] = rng.choice(kind)


def _group(rng: Random, parts: list[str]) -> None:
    """A group in brackets for another one."""
    groups = _groups(parts)
    if groups:
        (a, b), (c, d) = rng.choice(groups), rng.choice(groups)
        parts[a:b] = parts[c:d]


def _drop_argument(rng: Random, parts: list[str]) -> None:
    commas = [n for n, p in enumerate(parts) if p == ","]
    if commas:
        at = rng.choice(commas)
        del parts[at : at + 2]


def _groups(parts: Sequence[str]) -> list[tuple[int, int]]:
    stack, found = [], []
    for n, part in enumerate(parts):
        if part in ("(", "[", "{"):
            stack.append(n)
        elif part in (")", "]", "}") and stack:
            found.append((stack.pop(), n + 1))
    return found


_TEXT: list[Callable[[Random, list[str]], None]] = [
    _replace, _insert, _delete, _swap, _rename, _rename, _rename, _rename, _group, _group, _drop_argument,
]  # fmt: skip


# ------------------------------------------------------------------------------- nodes


def module_mutant(rng: Random, module: Module) -> Module:
    """`module` with one to three of a function's nodes replaced."""
    functions = dict(module.functions)
    for _ in range(rng.choice((1, 1, 2, 3))):
        gv = rng.choice(list(functions))
        func = functions[gv]
        assert isinstance(func, Function)
        new = _mutated(rng, func, module)
        functions[gv] = new if isinstance(new, Function) else Function((), new)
    return module.with_functions(functions)


def _mutated(rng: Random, func: Function, module: Module) -> Expr:
    order = list(post_order(func))
    at = rng.randrange(len(order))
    new: dict[int, Expr] = {id(order[at]): _node(rng, order[at], order[: at + 1], module)}
    for node in order[at + 1 :]:
        old = node.children()
        kids = tuple(new.get(id(k), k) for k in old)
        if any(a is not b for a, b in zip(old, kids, strict=True)) and _keeps(node, kids):
            new[id(node)] = node.with_children(kids)
    return new.get(id(func), func)


def _keeps(node: Expr, kids: tuple[Expr, ...]) -> bool:
    """True unless something that is no variable would be bound."""
    bound = len(node.children()) - len(operands(node))
    return not bound or all(
        isinstance(k, Var) == isinstance(c, Var) for k, c in zip(kids, node.children(), strict=True)
    )


def _node(rng: Random, node: Expr, before: Sequence[Expr], module: Module) -> Expr:
    """Another node: one from before it, one that holds it, or itself changed."""
    other = rng.choice(before)
    makers: list[Callable[[], Expr]] = [
        lambda: other,
        lambda: Tuple((node, other)),
        lambda: TupleGetItem(node, rng.randrange(-1, 3)),
        lambda: RefCreate(node),
        lambda: RefRead(node),
        lambda: RefWrite(node, other),
        lambda: If(node, other, node),
        lambda: Let(Var("v"), node, other),
        lambda: MatchCast(node, _type(rng, module)),
        lambda: Call(node, (other,)),
        lambda: Call(rng.choice(list(table().values())), (node, other)),
        lambda: Function((Var("p", ty=_type(rng, module)),), node),
        lambda: Match(node, (Clause(PatternWildcard(), other),)),
        lambda: constant(rng.choice([0, 1.5, True, [1, 2], [[1.0, 2.0]]])),
        lambda: _changed(rng, node, other, module),
        lambda: _changed(rng, node, other, module),
        lambda: _changed(rng, node, other, module),
    ]
    return rng.choice(makers)()


def _changed(rng: Random, node: Expr, other: Expr, module: Module) -> Expr:
    match node:
        case Call(_, args):
            return _call(rng, node, list(args), other)
        case Function(params):
            changes: list[dict[str, Any]] = [
                {"params": params[1:]},
                {"ret_type": _type(rng, module)},
                {"type_params": ()},
                {"params": tuple(replace(p, ty=_type(rng, module)) for p in params)},
            ]
            return replace(node, **rng.choice(changes))
        case Match(_, clauses):
            return replace(node, clauses=_clauses(rng, clauses, module), complete=rng.random() < 0.8)
        case Let():
            return replace(node, var=replace(node.var, ty=_type(rng, module)))
        case TupleGetItem():
            return replace(node, index=rng.randrange(-2, 4))
        case MatchCast():
            return replace(node, target=_type(rng, module))
        case _:
            return other


def _call(rng: Random, node: Call, args: list[Expr], other: Expr) -> Call:
    op = rng.choice(list(table().values()))
    kind = rng.randrange(6)
    if kind == 0:
        rng.shuffle(args)
    elif kind == 1:
        args.append(other)
    elif kind == 2:
        args = args[1:]
    elif kind == 3:
        return replace(node, type_args=(const(3), tensor_type((2,)))[: rng.randrange(3)])
    elif kind == 4 and isinstance(node.op, Op):
        return replace(node, op=op)
    else:
        return replace(node, op=other, attrs=rng.choice([None, node.attrs]))
    return replace(node, args=tuple(args))


def _clauses(rng: Random, clauses: tuple[Clause, ...], module: Module) -> tuple[Clause, ...]:
    known: list[Constructor] = [c for data in module.types.values() for c in data.constructors]
    con = rng.choice([*known, Constructor("Alien", (), next(iter(module.types)))]) if known else None
    inner = tuple(rng.choice([PatternWildcard(), PatternVar(Var("q"))]) for _ in range(rng.randrange(3)))
    pattern: Any = PatternTuple(inner) if con is None or rng.random() < 0.2 else PatternConstructor(con, inner)
    at = rng.randrange(len(clauses) + 1)
    body = rng.choice(clauses).body if clauses else constant(1)
    kept = list(clauses)
    if rng.random() < 0.5 and kept:
        del kept[rng.randrange(len(kept))]
    kept.insert(at, Clause(pattern, body))
    return tuple(kept)


def _type(rng: Random, module: Module, depth: int = 2) -> Type:
    n = fresh("n")
    data = list(module.types)
    leaves: list[Type] = [
        tensor_type(()), tensor_type((3,), "int32"), tensor_type((n, 2 * n + 1)), HoleType(), TypeVar("A"),
        TupleType(()), *data,
    ]  # fmt: skip
    if not depth or rng.random() < 0.5:
        return rng.choice(leaves)
    inner = [_type(rng, module, depth - 1) for _ in range(rng.randrange(3))]
    options: list[Type] = [TupleType(tuple(inner))]
    options += [RefType(inner[0]), FuncType(tuple(inner[1:]), inner[0])] if inner else []
    options += [TypeCall(rng.choice(data), tuple(inner))] if data else []
    return rng.choice(options)
