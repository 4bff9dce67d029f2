"""Benchmarks: what statistics say, that engines alternate, and that a small one runs to its end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.base.errors import CompileError, RunError
from legato.base.target import host
from legato.bench import bench
from legato.bench.engines import Engine
from legato.bench.fork_join import fork_join_seconds
from legato.bench.measure import PAUSE, WARM_UP, measure
from legato.bench.startup import compile_twice, load_seconds
from legato.bench.statistics import ratio, times

MLP = """
#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) -> Tensor[(n, 3), float32] {
  nn.relu(nn.dense(%x, %w))
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "mlp.relay").write_text(MLP)
    return tmp_path / "mlp.relay"


# ------------------------------------------------------------------ statistics


def test_times() -> None:
    found = times([[3.0, 1.0], [2.0], list(np.arange(4.0, 101.0))])
    assert (found.calls, found.median, found.min) == (100, 50.5, 1.0)
    assert (found.p90, found.p99) == (pytest.approx(90.1), pytest.approx(99.01))


def test_a_clear_ratio() -> None:
    rng = np.random.default_rng(0)
    ours = [list(rng.normal(1.0, 0.01, 20)) for _ in range(12)]
    theirs = [list(rng.normal(1.5, 0.01, 20)) for _ in range(12)]
    found = ratio(ours, theirs)
    assert found.clear
    assert found.low <= found.median <= found.high
    assert found.median == pytest.approx(1.5, rel=0.02)
    assert str(found).startswith("1.5")


def test_noise_is_no_difference() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = ([list(rng.normal(1.0, 0.1, 20)) for _ in range(12)] for _ in range(2))
    found = ratio(ours, theirs)
    assert not found.clear
    assert str(found).startswith("no difference outside the noise (")


def test_few_rounds_are_never_clear() -> None:
    assert not ratio([[1.0]] * 5, [[2.0]] * 5).clear
    assert ratio([[1.0]] * 6, [[2.0]] * 6).clear


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=40))
def test_the_interval_holds_the_median(rounds: list[float]) -> None:
    found = ratio([[1.0]] * len(rounds), [[r] for r in rounds])
    assert found.low <= found.median <= found.high
    assert 0 <= found.confidence < 1


def test_the_interval_misses_as_seldom_as_it_says() -> None:
    rng = np.random.default_rng(3)
    hits = [
        (r := ratio([[1.0]] * 12, [[x] for x in rng.lognormal(0, 1, 12)])).low <= 1 <= r.high for _ in range(2000)
    ]  # the median of the distribution is 1
    assert np.mean(hits) == pytest.approx(r.confidence, abs=0.02)
    assert r.confidence >= 0.95


# ------------------------------------------------------------------ measuring


@dataclass
class Recorder:
    """Notes whose turn it was."""

    turns: list[str] = field(default_factory=list)

    def engine(self, name: str) -> Engine:
        def call() -> list[Any]:
            self.turns.append(name)
            return []

        return Engine(name, "1", call)


def test_engines_run_in_blocks_and_change_places(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    recorder = Recorder()
    found = measure([recorder.engine("a"), recorder.engine("b")], rounds=2, block=0.0)
    assert {name: [len(block) for block in blocks] for name, blocks in found.items()} == {"a": [3, 3], "b": [3, 3]}
    assert pauses == [PAUSE] * 4
    block = 3 + WARM_UP
    assert "".join(recorder.turns) == "a" * block + "b" * 2 * block + "a" * block


def test_a_whole_benchmark(model: Path) -> None:
    said: list[str] = []
    result = bench(model, threads=2, dims={"n": 3}, rounds=1, block=0.0, progress=said.append)
    assert result.inputs == ("x: float32[3, 4]", "w: float32[3, 4]")
    assert result.startup.cold is not None
    assert result.startup.cached is not None
    assert result.engines["legato"].calls == 3
    assert (result.ratios, result.agreement, result.agrees) == ({}, {}, True)
    assert result.to_json()["threads"] == 2
    assert said[0] == "compiling, cold and from the cache"


def test_the_second_compilation_takes_kernels_from_the_cache(model: Path, tmp_path: Path) -> None:
    compile_twice(model, tmp_path / "mlp.legato", tmp_path / "cache", shapes=None, target="host")
    assert list((tmp_path / "cache").glob("*.bin"))
    assert load_seconds(tmp_path / "mlp.legato") > 0


def test_a_model_that_cannot_be_compiled(tmp_path: Path) -> None:
    (tmp_path / "bad.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2,), float32]) { frob(%x) }\n')
    with pytest.raises(CompileError, match="frob"):
        bench(tmp_path / "bad.relay", rounds=1, block=0.0)


def test_engines_that_cannot_run(model: Path) -> None:
    with pytest.raises(RunError) as error:
        bench(model, vs=["onnxruntime"])
    assert str(error.value) == f"onnxruntime reads ONNX models only, not {model}\n  hint: give the .onnx file"


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_fork_join_is_measured(threads: int) -> None:
    assert 0 <= fork_join_seconds(host(), threads) < 0.1
