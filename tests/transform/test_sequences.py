"""Random programs through random sequences of all passes: every stage is well-formed, and the meaning stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import legato
from legato.base.errors import UnsupportedError
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.module import Module
from legato.ir.printer import show
from legato.ir.verify import Stage, verify
from legato.pipelines import DEFAULT
from legato.transform import table
from legato.transform._text import read_passes
from legato.transform.pass_ import Pass
from tests.graphs import compare, leaves
from tests.graphs import programs as graphs
from tests.programs import strategy as language
from tests.programs.settings import examples
from tests.programs.values import same

NARROWS = {"low-precision", "mixed-precision"}  # other values by intention: their own tests have the bounds
VARIANTS = (
    "fuse{max-ops=2}", "fuse{max-ops=80}", "fold-constant{flush=true}", "canonicalize{computed=true}",
    "fold-scale-forward{computed=true}", "fold-scale-backward{computed=true}", "rematerialize{extra=10.0}",
)  # fmt: skip
# What forms sums otherwise than NumPy does. Programs are smooth: no comparison hangs on the last bits.
ROUNDED = {"legalize", *(name for name, step in table().items() if step.rounds)}
KEEPING = {name for name, step in table().items() if step.keeps_meaning} - NARROWS
CHOICES = sorted(KEEPING) + [text for text in VARIANTS if text.partition("{")[0] in table()]
SEQUENCES = st.lists(st.sampled_from(CHOICES), min_size=2, max_size=8)


def stages(mod: Module, names: Sequence[str]) -> list[tuple[str, Module]]:
    """The module after each pass that takes it; what refuses it says so."""
    found = [("", mod)]
    for name in names:
        (step,) = read_passes(name)
        try:
            mod = step(mod)
        except UnsupportedError:
            continue  # of defunctionalize, where @main gives functions
        verify(mod)
        found.append((name, mod))
    verify(mod, Stage.TYPED)  # passes type what they make
    verify(infer(mod), Stage.TYPED)
    return found


def require_meaning(found: Sequence[tuple[str, Module]], holds: Callable[[Module], bool]) -> None:
    """The last stage computes what the first does; where it does not, the pass is named."""
    if holds(found[-1][1]):
        return
    name, before = next((n, found[i][1]) for i, (n, mod) in enumerate(found[1:]) if not holds(mod))
    names = [n for n, _ in found[1:]]
    raise AssertionError(f"{name}, of {names}, changes what this computes:\n{show(before)}")


@examples(40)
@given(graphs(steps=16, limit=512), SEQUENCES)
def test_graphs_through_random_sequences(program: Any, names: list[str]) -> None:
    args = program.arguments()

    def holds(mod: Module) -> bool:
        try:
            compare(evaluate(mod, args), program, args)
        except AssertionError:
            return False
        return True

    require_meaning(stages(program.module, names), holds)


@examples(60)
@given(language.programs(size=40, smooth=True), SEQUENCES)
def test_language_programs_through_random_sequences(program: language.Program, names: list[str]) -> None:
    module = program.module
    wanted = evaluate(module, program.args)
    rounded = any(name.partition("{")[0] in ROUNDED for name in names)
    require_meaning(stages(module, names), lambda mod: same(evaluate(mod, program.args), wanted, rounded=rounded))


FOUND = sorted((Path(__file__).parent / "found").glob("*.relay"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_random_sequences_have_found(path: Path) -> None:
    """Programs that a pass broke, with the sequence in the first line."""
    first, _, text = path.read_text().partition("\n")
    stages(legato.parse(text), first.removeprefix("//").replace(" ", "").split(","))


@pytest.mark.parametrize("programs", [graphs(steps=16, limit=512), language.programs(size=40, smooth=True)])
def test_passes_run_in_several_threads(programs: Any) -> None:
    """What passes remember of earlier calls does not mix: each thread gets what it would get alone."""

    @examples(3, fuzz=False)
    @given(programs, programs)
    def run(first: Any, second: Any) -> None:
        mods = [first.module, second.module] * 2
        passes = [step for step in DEFAULT if step.name != "defunctionalize"]
        assume(all(not getattr(p, "gives_functions", False) for p in (first, second)))

        def pipeline(mod: Module) -> str:
            for step in passes:
                mod = step(mod)
            return show(mod)

        alone = [pipeline(mod) for mod in mods[:2]]
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(pipeline, mods)) == alone * 2

    run()


def test_every_pass_runs_in_several_threads() -> None:
    text = "fn (%x: Tensor[(n, 4), float32], %w: Tensor[(4, 4), float32]) { nn.relu(nn.dense(%x, %w) * 2f + 1f) }"
    mod = legato.parse(f'#[version = "0.0.5"]\ndef @main{text.removeprefix("fn ")}')
    steps: list[Pass] = [step() for name, step in table().items() if name in KEEPING]
    x, w = np.ones((3, 4), np.float32), np.ones((4, 4), np.float32)
    wanted = leaves(evaluate(mod, [x, w]))
    with ThreadPoolExecutor(4) as pool:
        for new in pool.map(lambda step: step(mod), steps * 4):
            for got, value in zip(leaves(evaluate(new, [x, w])), wanted, strict=True):
                np.testing.assert_allclose(got, value, rtol=1e-6)
