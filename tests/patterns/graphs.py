"""Random graphs, and random patterns that have something to do with them."""

from __future__ import annotations

from random import Random

from legato.infer.infer import infer_function
from legato.ir.expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var, constant, tuple_of
from legato.ir.op import Op
from legato.ir.types import TensorType, tensor_type
from legato.ops import table
from legato.patterns import pattern as p

UNARY = ("exp", "tanh", "nn.relu", "negative")
PARAMS = (Var("a", ty=tensor_type((2, 3))), Var("b", ty=tensor_type((2, 3))))
BINARY = ("add", "multiply", "subtract", "maximum")


def graph(random: Random, size: int) -> Expr:
    """A typed expression of `size` steps over %a and %b, whose values are shared as it happens."""
    values: list[Expr] = [*PARAMS, constant(1.0), constant(2.0)]
    for _ in range(size):
        values.append(_step(random, values))
    func = infer_function(Function(PARAMS, values[-1]))
    return func.body


def _step(random: Random, values: list[Expr]) -> Expr:
    def some() -> Expr:
        return random.choice(values[-4:] if random.random() < 0.7 else values)

    kind = random.randrange(10)
    if kind < 4:
        return _call(random.choice(UNARY), some())
    if kind < 7:
        return _call(random.choice(BINARY), some(), some())
    if kind == 7:
        return TupleGetItem(tuple_of([some(), some()]), random.randrange(2))
    if kind == 8:
        var = Var("v")
        return Let(var, some(), _call("add", var, some()))
    x, y = some(), some()
    return If(constant(random.random() < 0.5), _call("add", x, y), _call("add", y, x))


def _call(name: str, *args: Expr) -> Call:
    return Call(table()[name], args)


def pattern(random: Random, e: Expr, depth: int, known: list[tuple[p.Pattern, Expr]]) -> p.Pattern:
    """A pattern that may match `e`, or nearly; parts of it, in `known` with what they were made for, may be shared."""
    if known and random.random() < 0.15:
        same = [part for part, of in known if of is e]
        return random.choice(same) if same and random.random() < 0.7 else random.choice(known)[0]
    made = _wrapped(random, _made(random, e, depth, known), e, depth, known)
    known.append((made, e))
    return made


def _made(random: Random, e: Expr, depth: int, known: list[tuple[p.Pattern, Expr]]) -> p.Pattern:
    def inner(part: Expr) -> p.Pattern:
        return pattern(random, part, depth - 1, known)

    if depth == 0 or random.random() < 0.2:
        return p.WildcardPattern()
    match e:
        case Op():
            return p.ExprPattern(table()[random.choice(BINARY)] if random.random() < 0.1 else e)
        case Var():
            return p.VarPattern(random.choice(["", e.name]))
        case Constant():
            return p.ConstantPattern() if random.random() < 0.5 else p.ExprPattern(e)
        case Call() if random.random() < 0.2:
            below = _somewhere_below(random, e)
            path = p.WildcardPattern()
            unary = path.has_attr({"TOpPattern": 0})(None) if random.random() < 0.5 else path
            return p.DominatorPattern(inner(below), unary, _call_pattern(random, e, inner))
        case Call():
            return _call_pattern(random, e, inner)
        case Tuple(fields):
            return p.TuplePattern(None if random.random() < 0.2 else tuple(map(inner, fields)))
        case TupleGetItem(value, index):
            return p.TupleGetItemPattern(inner(value), random.choice([None, index, 1]))
        case If(cond, then, orelse):
            return p.IfPattern(inner(cond), inner(then), inner(orelse))
        case Let(var, value, body):
            return p.LetPattern(inner(var), inner(value), inner(body))
    return p.WildcardPattern()


def _call_pattern(random: Random, e: Call, inner: object) -> p.Pattern:
    assert callable(inner)
    args = list(e.args)
    if random.random() < 0.3:
        args.reverse()
    return p.CallPattern(p.ExprPattern(e.op), None if random.random() < 0.2 else tuple(map(inner, args)))


def _somewhere_below(random: Random, e: Expr) -> Expr:
    for _ in range(random.randint(1, 3)):
        below = [k for k in e.children() if k.children()]
        e = random.choice(below) if below else e
    return e


def _wrapped(random: Random, made: p.Pattern, e: Expr, depth: int, known: list[tuple[p.Pattern, Expr]]) -> p.Pattern:
    kind = random.randrange(14)
    if kind < 2:
        other = pattern(random, e, max(depth - 1, 0), known)
        return p.AltPattern(*((made, other) if kind else (other, made)))
    if kind == 2 and isinstance(e.ty, TensorType):
        return made.has_shape((2, 3))
    if kind == 3 and e.ty is not None:
        return made.has_type(e.ty)
    if kind == 4:
        return made.has_dtype("float32")
    if kind == 5 and isinstance(e, Op):
        return made.has_attr({"TOpPattern": random.randrange(2)})
    return made
