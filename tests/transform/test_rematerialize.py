"""Values that are computed again: every bit stays, and less memory is planned."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import legato
from legato.arith.evaluate import evaluate as evaluate_dim
from legato.arith.expr import fresh
from legato.base.target import host
from legato.driver import CompileOptions, lower_module
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.expr import Expr
from legato.ir.module import Module
from legato.ir.verify import Stage, verify
from legato.lower.memory import peak_memory
from legato.pipelines import DEFAULT
from legato.transform.pass_ import Observer, Pass, run
from legato.transform.rematerialize import Rematerialize

FRONT, BACK = DEFAULT[:-1], DEFAULT[-1:]
N = 24


def passes(extra: float = 0.3) -> tuple[Pass, ...]:
    """The default ones, with values computed again before fusion."""
    return (*FRONT, Rematerialize(extra), *BACK)


def network(seed: int) -> Module:
    """Products and softmaxes of matrices, and cheap functions of what is old."""
    random, rng, b = Random(seed), np.random.default_rng(seed), Builder()
    weights = [b.constant((rng.standard_normal((N, N)) / N).astype(np.float32)) for _ in range(3)]
    x = b.var("x", (N, N))
    cheap: list[Expr] = [b.exp(x)]
    y: Expr = cheap[0]
    for _ in range(14):
        kind = random.random()
        if kind < 0.45:
            y = b.nn.dense(y, random.choice(weights))
        elif kind < 0.6:
            y = b.nn.softmax(y)
        elif kind < 0.85:
            y = b.add(y, random.choice(cheap))
        else:
            cheap.append(b.op(random.choice(["tanh", "cos", "nn.relu"]))(random.choice([x, cheap[-1]])))
    return Module.from_expr(b.function([x], b.nn.dense(b.multiply(y, cheap[0]), weights[0])))


def planned(mod: Module, listed: tuple[Pass, ...]) -> int:
    """Bytes of workspace, without making code."""
    main = lower_module(run(mod, listed), CompileOptions(host()), Observer())[1]
    return int(evaluate_dim(peak_memory(main.functions, main.plans)[0], {}))


@pytest.mark.parametrize("seed", range(12))
def test_every_bit_stays(seed: int) -> None:
    old = run(network(seed), FRONT)
    p = Rematerialize(0.3)
    new = p(old)
    verify(new, Stage.A_NORMAL)
    assert p(new) is new
    x = np.random.default_rng(seed).standard_normal((N, N)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(new, [x]), evaluate(old, [x]))


def test_less_memory_is_planned() -> None:
    """Of random networks: of none more, of all a quarter less at least."""
    pairs = [(planned(network(seed), DEFAULT), planned(network(seed), passes())) for seed in range(12)]
    assert all(new <= old for old, new in pairs)
    assert sum(new for _, new in pairs) <= 0.75 * sum(old for old, _ in pairs)


def chain(again: bool = True) -> Module:
    """exp(x), needed at the beginning and, if `again`, at the end."""
    b = Builder()
    x = b.var("x", (N, N))
    t = b.exp(x)
    y = t
    for _ in range(4):
        y = b.nn.softmax(b.nn.dense(y, b.constant(np.eye(N, dtype=np.float32))))
    y = b.multiply(t, y) if again else y
    return Module.from_expr(b.function([x], b.nn.dense(y, b.constant(np.eye(N, dtype=np.float32)))))


def test_a_value_that_is_needed_late() -> None:
    x = np.eye(N, dtype=np.float32)
    exes = [legato.compile(chain(), passes=listed) for listed in (DEFAULT, passes())]
    assert [int(e.peak_memory) // (4 * N * N) for e in exes] == [3, 2]
    np.testing.assert_array_equal(*(e(x) for e in exes))


def test_no_more_work_than_is_allowed() -> None:
    old = run(chain(), FRONT)
    assert Rematerialize(0.0)(old) is old
    assert Rematerialize()(old) is not old
    straight = run(chain(again=False), FRONT)
    assert Rematerialize()(straight) is straight


def test_symbolic_extents_stay() -> None:
    b = Builder()
    x = b.var("x", (fresh("n", 1), N))
    t = b.exp(x)
    y = b.nn.softmax(b.nn.softmax(b.nn.dense(t, b.constant(np.eye(N, dtype=np.float32)))))
    old = run(Module.from_expr(b.function([x], b.multiply(t, y))), FRONT)
    assert Rematerialize()(old) is old
