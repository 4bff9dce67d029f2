"""Benchmarks: what statistics say, that engines alternate, and that a small one runs to its end."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import legato
from legato.base.errors import CompileError, RunError
from legato.base.target import host
from legato.bench import bench, engines
from legato.bench.engines import PEERS, Engine
from legato.bench.fork_join import fork_join_seconds
from legato.bench.measure import LOOK, Rounds, measure
from legato.bench.modes import GAP, SPAN, largest, modes, rounds_in
from legato.bench.run import Agreement, _Field, _result, _undecided, reason
from legato.bench.startup import compile_twice, load_seconds
from legato.bench.statistics import ENOUGH, Ratio, ratio, times, undecided
from legato.runtime.timing import LEAST, PAUSE, SLICE, WARM_UP

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


@pytest.fixture
def onnx_model(tmp_path: Path) -> Path:
    shape = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", shape[:1], shape[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "relu.onnx"
    path.write_bytes(model.SerializeToString())
    return path


# ------------------------------------------------------------------ statistics


def test_times() -> None:
    found = times([[3.0, 1.0], [2.0], list(np.arange(4.0, 101.0))])
    assert (found.calls, found.median, found.min) == (100, 50.5, 1.0)
    assert found.p90 == pytest.approx(90.1)
    assert found.p99 == pytest.approx(99.01)


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
    few = ratio([[1.0]] * 5, [[2.0]] * 5)
    assert not few.clear
    assert str(few) == "2.00×, from too few rounds to tell"
    assert ratio([[1.0]] * 6, [[2.0]] * 6).clear


@given(st.lists(st.floats(0.99, 1.01), min_size=1, max_size=60), st.floats(0.1, 10))
def test_a_ratio_counts_from_many_rounds_on_that_agree(rounds: list[float], scale: float) -> None:
    found = ratio([[1.0]] * len(rounds), [[scale * r] for r in rounds])
    assert found.rounds == len(rounds)
    assert found.counts == (len(rounds) >= ENOUGH)


def test_what_counts() -> None:
    assert Ratio(1.0, 0.985, 1.015, 0.95, ENOUGH).counts
    assert not Ratio(1.0, 0.975, 1.015, 0.95, ENOUGH).counts
    assert not Ratio(1.0, 0.985, 1.025, 0.95, ENOUGH).counts
    assert not Ratio(1.0, 0.985, 1.015, 0.95, ENOUGH - 1).counts


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


NAMED = st.dictionaries(
    st.text("abc", min_size=1, max_size=1),
    st.builds(
        lambda median, spread, rounds: Ratio(median, median * (1 - spread), median * (1 + spread), 0.95, rounds),
        st.floats(0.5, 2), st.floats(0, 0.2), st.integers(1, 2 * ENOUGH),
    ),
)  # fmt: skip


@given(NAMED)
def test_rounds_go_on_for_whatever_may_be_the_fastest(ratios: dict[str, Ratio]) -> None:
    names = undecided(ratios)
    if not ratios:
        assert names == set()
        return
    fastest = min(ratios, key=lambda name: ratios[name].median)
    assert (names == set()) == ratios[fastest].counts
    if names:
        assert fastest in names
        assert all((ratios[name].low > ratios[fastest].high) == (name not in names) for name in ratios)


def test_stopping_when_the_interval_is_narrow_costs_little_confidence() -> None:
    """Ratios as noisy as those of a virtual machine, looked at as `measure` does."""
    rng = np.random.default_rng(5)
    hits, stopped, runs = 0, 0, 100
    for _ in range(runs):
        samples = np.exp(rng.normal(0, 0.05, 200))
        for count in range(ENOUGH, 201, LOOK):
            found = ratio([[1.0]] * count, [[s] for s in samples[:count]])
            if found.counts:
                hits, stopped = hits + (found.low <= 1 <= found.high), stopped + 1
                break
    assert stopped > 0.95 * runs
    assert hits > 0.87 * stopped


# ------------------------------------------------------------------ modes of the machine

SAMPLES = st.lists(st.floats(1e-8, 1e-4), min_size=1, max_size=60)


@given(SAMPLES)
def test_a_mode_is_narrow_or_without_gaps(samples: list[float]) -> None:
    found = modes(samples)
    assert sorted(set(found)) == list(range(max(found) + 1))
    parts = [
        sorted(max(s, 2e-8) for s, m in zip(samples, found, strict=True) if m == mode) for mode in range(max(found) + 1)
    ]
    for lengths in parts:
        assert lengths[-1] <= SPAN * lengths[0] or all(b < GAP * a for a, b in itertools.pairwise(lengths))
    assert all(lower[-1] * GAP <= upper[0] for lower, upper in itertools.pairwise(parts))


def test_a_blur_is_one_mode() -> None:
    assert set(modes(list(np.geomspace(1e-7, 4e-7, 31)))) == {0}


@given(SAMPLES, st.randoms(use_true_random=False))
def test_modes_are_sorted_by_length_whatever_the_order(samples: list[float], random: Any) -> None:
    of_length = dict(zip(samples, modes(samples), strict=True))
    assert [of_length[s] for s in sorted(of_length)] == sorted(of_length.values())
    shuffled = list(samples)
    random.shuffle(shuffled)
    assert modes(shuffled) == tuple(of_length[s] for s in shuffled)


@given(st.lists(st.tuples(st.booleans(), st.floats(1.0, 1.9)), min_size=1, max_size=60))
def test_near_and_far_are_told_apart(rounds: list[tuple[bool, float]]) -> None:
    samples = [(4e-7 if far else 7e-8) * noise for far, noise in rounds]
    first = 0 if any(not far for far, _ in rounds) else 1
    assert modes(samples) == tuple(int(far) - first for far, _ in rounds)


@given(SAMPLES)
def test_a_round_lies_in_the_mode_of_both_its_ends(samples: list[float]) -> None:
    of_samples, of_rounds, chosen = modes(samples), rounds_in(samples), largest(samples)
    assert len(of_rounds) == len(samples) - 1
    for n, mode in enumerate(of_rounds):
        assert (mode is None) == (of_samples[n] != of_samples[n + 1])
    assert len({of_rounds[n] for n in chosen}) <= 1
    assert all(of_rounds.count(mode) <= len(chosen) for mode in set(of_rounds) - {None})


def test_of_two_modes_with_as_many_rounds_the_faster_is_taken() -> None:
    assert largest([5e-7, 5e-7, 1e-7, 1e-7]) == [2]
    assert largest([5e-7, 1e-7]) == []


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

    def probe(self, values: list[float]) -> Callable[[], float]:
        """Gives the values in turn, again and again."""
        left = itertools.cycle(values)

        def probe() -> float:
            self.turns.append("|")
            return next(left)

        return probe


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was slept, which takes no time."""
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    return found


def test_engines_run_in_blocks_and_change_places(sleeps: list[float]) -> None:
    recorder = Recorder()
    found = measure([recorder.engine("a"), recorder.engine("b")], 2, 0.0, recorder.probe([1e-7]))
    blocks = {name: [len(block) for block in blocks.values()] for name, blocks in found.blocks.items()}
    assert blocks == {"a": [LEAST, LEAST], "b": [LEAST, LEAST]}
    assert (found.count, found.fork_join) == (2, [1e-7] * 3)
    assert sleeps == [SLICE] * 7
    block = LEAST + WARM_UP
    assert "".join(recorder.turns) == "|" + "a" * block + "b" * block + "|" + "b" * block + "a" * block + "|"


def test_a_block_waits_for_threads_that_spin_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "process_time", lambda: min(sum(slept), 3.5 * SLICE))  # they spin for 3.5 slices
    recorder = Recorder()
    measure([recorder.engine("a")], 1, 0.0, recorder.probe([1e-7]))
    assert slept == [SLICE] * (5 + 2)  # the fifth slice is quiet, and so are those before the block and after it
    slept.clear()
    monkeypatch.setattr(time, "process_time", lambda: sum(slept))
    measure([recorder.engine("a")], 1, 0.0, recorder.probe([1e-7]))
    assert sum(slept) == pytest.approx(3 * PAUSE, abs=3 * SLICE)


@pytest.mark.parametrize(
    ("fork_joins", "rounds"),
    [
        ([1e-7], 4),  # one mode: as many rounds as wanted
        ([1e-7, 1e-7, 5e-7, 5e-7, 5e-7, 1e-7, 1e-7, 1e-7, 1e-7], 8),  # four of eight rounds in the faster mode
        ([1e-7, 5e-7], 12),  # no round in one mode: given up
    ],
)
def test_rounds_are_run_until_enough_lie_in_one_mode(fork_joins: list[float], rounds: int, sleeps: list[float]) -> None:
    recorder = Recorder()
    told: list[int] = []
    found = measure([recorder.engine("a")], 4, 0.0, recorder.probe(fork_joins), told.append)
    assert found.count == rounds
    assert told == list(range(1, rounds + 1))
    assert len(found.blocks["a"]) == rounds
    chosen = found.of("a", [0, rounds - 1])
    assert chosen == [found.blocks["a"][0], found.blocks["a"][rounds - 1]]


def test_some_engines_go_on_alone(sleeps: list[float]) -> None:
    recorder = Recorder()
    asked: list[tuple[int, int]] = []

    def wanted(found: Rounds, numbers: Any) -> set[str]:
        asked.append((found.count, len(numbers)))
        return {"a", "c"} if found.count < 20 else set()

    names = ["a", "b", "c"]
    found = measure([recorder.engine(n) for n in names], 3, 0.0, recorder.probe([1e-7]), most=50, wanted=wanted)
    assert asked == [(3, 3), (3 + LOOK, 3 + LOOK), (3 + 2 * LOOK, 3 + 2 * LOOK)]
    assert {name: len(found.blocks[name]) for name in names} == {"a": 23, "b": 3, "c": 23}
    ours, theirs = found.pairs("a", "b", range(1, 23))
    assert (ours, theirs) == ([found.blocks["a"][n] for n in (1, 2)], [found.blocks["b"][n] for n in (1, 2)])
    limited = measure([recorder.engine("a")], 3, 0.0, recorder.probe([1e-7]), most=7, wanted=lambda found, numbers: "a")
    assert limited.count == 7


def test_an_engine_without_rounds_in_the_mode_of_most_takes_part_again() -> None:
    near, far = 30, 50
    both = {n: [1.0 + n % 7] for n in range(near + far)}
    found = Rounds({"legato": both, "a": both, "b": {n: [3.0] for n in range(near)}}, [1e-6] * near + [6e-6] * far)
    assert set(_undecided(found, largest(found.fork_join))) == {"legato", "b"}
    field = _Field({}, 1, True, "x86-64-v3")
    result = _result(Path("m"), field, {"a": Agreement(0, True), "b": Agreement(0, True)}, found)
    assert (result.ratios["a"].rounds, result.ratios["b"].rounds) == (result.within, 0)
    assert result.engines["b"].calls == near


def test_a_whole_benchmark(model: Path) -> None:
    said: list[str] = []
    result = bench(model, threads=2, dims={"n": 3}, rounds=1, block=0.0, progress=said.append)
    assert result.inputs == ("x: float32[3, 4]", "w: float32[3, 4]")
    assert result.startup is not None
    assert result.startup.cold is not None
    assert result.startup.cached is not None
    assert result.engines["legato"].calls == LEAST * (result.within or result.rounds)
    assert result.within <= result.rounds <= 10
    assert (result.ratios, result.agreement, result.agrees) == ({}, {}, True)
    assert result.to_json()["threads"] == 2
    assert said[0] == "compiling, cold and from the cache"


@pytest.mark.parametrize(
    ("engine", "title"), [("onnxruntime", "ONNX Runtime"), ("openvino", "OpenVINO"), ("openvino-bf16", "OpenVINO")]
)
def test_an_engine_that_is_not_installed_is_told_before_anything_is_compiled(
    engine: str, title: str, onnx_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    said: list[str] = []
    with pytest.raises(RunError) as caught:
        bench(onnx_model, vs=[engine], progress=said.append)
    assert str(caught.value) == f"{title} is not installed\n  hint: pip install {engine.partition('-')[0]}"
    assert said == []


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


def test_torch_reads_no_files(onnx_model: Path) -> None:
    with pytest.raises(RunError) as error:
        bench(onnx_model, vs=["torch"], rounds=1, block=0.0)
    assert str(error.value) == (
        f"torch runs modules, not ONNX files like {onnx_model}\n  hint: `make bench` builds the modules of its models"
    )


@pytest.mark.parametrize(("precision", "agrees"), [("default", False), ("bfloat16", True)])
def test_an_artifact_is_judged_by_its_precision(model: Path, tmp_path: Path, precision: str, agrees: bool) -> None:
    path = tmp_path / "mlp.legato"
    legato.compile(model, precision=precision).save(path)
    x, w = (np.random.default_rng(n).standard_normal((3, 4)).astype(np.float32) for n in range(2))
    exact = np.maximum(x @ w.T, 0)

    def near(given: Any, threads: int, fixed: bool) -> Engine:
        return Engine("near", "1", lambda: [exact + 0.02 * exact.max()])

    result = bench(path, vs=["near"], others={"near": near}, inputs=[x, w], rounds=1, block=0.0)
    assert result.agrees is agrees


@pytest.mark.parametrize("options", [{"precision": "exact"}, {"target": "x86-64-v3"}, {"shapes": {"x": (3, 4)}}])
def test_what_is_compiled_takes_no_options_of_compilation(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "mlp.legato"
    with pytest.raises(CompileError) as error:
        bench(path, rounds=1, block=0.0, **options)
    assert (
        str(error.value) == f"error: {path} is compiled already: shapes, constants, target and precision are for models"
    )


def test_what_cannot_run_is_told(onnx_model: Path) -> None:
    def refuses(given: Any, threads: int, fixed: bool) -> Engine:
        raise RunError("it is Sunday\n  hint: wait")

    def differs(given: Any, threads: int, fixed: bool) -> Engine:
        return Engine("differs", "1", list)

    others = {"refuses": refuses, "differs": differs}
    vs = ["refuses", "onnxruntime", "openvino", "torch", "differs"]
    result = bench(onnx_model, vs=vs, others=others, threads=2, shapes={"x": (3, 4)}, rounds=1, block=0.0, lenient=True)
    assert result.missing == {
        "refuses": "it is Sunday", "torch": f"torch runs modules, not ONNX files like {onnx_model}"
    }  # fmt: skip
    assert list(result.engines) == ["legato", "onnxruntime", "openvino", "differs"]
    assert list(result.ratios) == ["onnxruntime", "openvino", "differs"]
    assert [a.agrees for a in result.agreement.values()] == [True, True, False]
    assert not result.agrees
    assert result.is_right  # the interpreter says that the other is off
    assert result.agreement["differs"] == Agreement(result.agreement["differs"].distance, False, True)
    assert result.to_json()["ratios"]["openvino"]["counts"] is False


def test_one_name_for_two_sizes_is_left_alone(tmp_path: Path) -> None:
    shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["d", "d", "n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", shapes[:1], shapes[1:])
    path = tmp_path / "relu.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    given = {"x": np.ones((2, 3, 4), np.float32)}
    (output,) = PEERS["onnxruntime"](path, given, 1, True).call()
    assert output.shape == (2, 3, 4)
    wrong = PEERS["onnxruntime"](path, {"x": np.ones((2, 3), np.float32)}, 1, False)
    with pytest.raises(RunError, match="ONNX Runtime cannot run the model: "):
        wrong.call()


def test_others_are_measured_without_legato(onnx_model: Path, tmp_path: Path) -> None:
    onnx_model.write_bytes(b"nothing")
    given = {"x": np.ones((3, 4), np.float32)}
    with pytest.raises(CompileError):
        bench(onnx_model, inputs=given, rounds=1, block=0.0)
    others = {"fast": lambda given, threads, fixed: Engine("fast", "1", lambda: [given["x"]])}
    result = bench(onnx_model, vs=["fast", "openvino"], others=others, inputs=given, rounds=1, block=0.0, lenient=True)
    assert list(result.engines) == ["fast"]
    assert list(result.missing) == ["legato", "openvino"]
    assert result.missing["legato"].startswith(f"import error: {onnx_model}: not an ONNX file")
    assert (result.startup, result.ratios, result.agreement) == (None, {}, {})


def test_reasons_are_one_line() -> None:
    assert reason(RunError("this\n  hint: that")) == "this"
    assert reason(CompileError("Traceback (most recent call last):\n  ...\nKeyError: 3")) == "KeyError: 3"


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_fork_join_is_measured(threads: int) -> None:
    assert 0 <= fork_join_seconds(host(), threads) < 0.1
