"""Random scalar expressions, written as programs of a small stack machine: they generate fast and shrink well."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from legato.arith import expr as ax
from legato.arith.expr import Expr, Op, Var, const
from legato.base import dtype as dt

ARITHMETIC = (Op.ADD, Op.SUB, Op.MUL, Op.MIN, Op.MAX)
DIVISION = (Op.FLOORDIV, Op.FLOORMOD)
COMPARISONS = (Op.LT, Op.LE, Op.EQ, Op.NE)
CODES = 10

Program = list[tuple[int, int, int]]
programs: st.SearchStrategy[Program] = st.lists(
    st.tuples(st.integers(0, CODES - 1), st.integers(0, 9), st.integers(-9, 12)), min_size=1, max_size=14
)


def _condition(stack: list[Expr], conds: list[Expr], which: int, k: int) -> None:
    if which >= 6 and len(conds) >= 2:
        conds.append(ax.binary(Op.AND if which % 2 else Op.OR, conds.pop(), conds.pop()))
    elif which == 5 and conds:
        conds.append(ax.lnot(conds.pop()))
    else:
        right = const(k) if k % 2 or len(stack) < 2 else stack[-2]
        conds.append(ax.binary(COMPARISONS[which % 4], stack[-1], right))


def _run(names: list[Var], program: Program) -> tuple[list[Expr], list[Expr]]:
    """The stacks of index expressions and of conditions after `program`."""
    stack: list[Expr] = [names[0]]
    conds: list[Expr] = []
    for code, which, k in program:
        match code:
            case 0 | 1:
                stack.append(names[which % len(names)])
            case 2:
                stack.append(const(k * (1 + 3 * (which // 5))))
            case 3 | 4 if len(stack) >= 2:
                stack.append(ax.binary(ARITHMETIC[which % 5], stack.pop(), stack.pop()))
            case 5 if len(stack) >= 2 and not which:
                stack.append(ax.binary(DIVISION[k % 2], stack.pop(), stack.pop()))
            case 5 | 6:
                stack.append(ax.binary(DIVISION[which % 2], stack.pop(), const(k)))
            case 7:
                stack.append(stack.pop() * k + which)
            case 8:
                _condition(stack, conds, which, k)
            case 9 if conds and len(stack) >= 2:
                stack.append(ax.select(conds.pop(), stack.pop(), stack.pop()))
    return stack, conds


def indices(names: list[Var]) -> st.SearchStrategy[Expr]:
    """Index expressions over the variables `names`."""
    return programs.map(lambda p: _run(names, p)[0][-1])


def conditions(names: list[Var]) -> st.SearchStrategy[Expr]:
    """Conditions over index expressions of the variables `names`."""
    return programs.map(lambda p: _run(names, [*p, (8, 0, 2)])[1][-1])


def _machine_constant(dtype: dt.DType) -> Callable[[int], Expr]:
    if dtype.is_float:
        unusual = {0: -0.0, 1: float("nan"), 2: float("inf"), 3: float("-inf"), 4: 1e-30, 5: 0.1}
        return lambda k: const(unusual.get(k, float(k)), dtype)
    return lambda k: const(k * k * k, dtype)


def machine(names: list[Var]) -> st.SearchStrategy[Expr]:
    """Expressions of one machine dtype, that of `names`: any operator, unusual literals."""
    dtype = names[0].dtype
    floats = (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MIN, Op.MAX)
    ops = floats if dtype.is_float else tuple(o for o in Op if o not in (*COMPARISONS, Op.AND, Op.OR, Op.DIV))
    literal = _machine_constant(dtype)

    def build(program: Program) -> Expr:
        stack: list[Expr] = [names[0]]
        for code, which, k in program:
            if code < 3:
                stack.append(names[which % len(names)])
            elif code < 5 or len(stack) < 2:
                stack.append(literal(k))
            elif code < 9:
                stack.append(ax.binary(ops[which % len(ops)], stack.pop(), stack.pop()))
            else:
                stack.append(ax.select(ax.lt(stack[-1], stack[0]), stack.pop(), stack.pop()))
        return stack[-1]

    return programs.map(build)
