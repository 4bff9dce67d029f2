"""Profiles: what is recorded, that it adds up, where bytes lie, what is to blame, and what is written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import ArtifactError, RunError
from legato.base.target import host, target
from legato.profile import Bound, KernelProfile, Profile, profile
from legato.profile.charts import roofline
from legato.profile.html import html
from legato.profile.loops import aligned, read_rate
from legato.profile.machine import Machine, Meter, measure_machine
from legato.profile.report import Cause
from legato.profile.reuse import moved_bytes
from legato.profile.roofline import Times, bound_of, causes_of
from legato.profile.trace import trace_json
from legato.runtime.executable import Executable, load
from legato.runtime.fill import feeds
from legato.runtime.kernels import BufferWork, KernelInfo, Work, kernels_from_text, kernels_to_text
from legato.runtime.recorder import Recorder
from tests.runtime.images import executable

SOURCE = Path(legato.__file__).parents[1]
MLP = """
#[version = "0.0.5"]
def @main(%x: Tensor[(n, 64), float32], %w: Tensor[(256, 64), float32], %v: Tensor[(32, 256), float32])
    -> Tensor[(n, 32), float32] {
  nn.softmax(nn.dense(nn.relu(nn.dense(%x, %w)), %v))
}
"""
LOOP = """
#[version = "0.0.5"]
def @count(%i: Tensor[(), int64], %x: Tensor[(100,), float32]) -> Tensor[(100,), float32] {
  if (greater(%i, 0i64)) { @count(subtract(%i, 1i64), add(%x, 1f)) } else { %x }
}
def @main(%i: Tensor[(), int64], %x: Tensor[(100,), float32]) -> Tensor[(100,), float32] { @count(%i, %x) }
"""
MACHINE = Machine(
    cpu="test", target="x86-64-v4", threads=2, cores=2, vector_bytes=64, flops=200e9, results=400e9,
    bandwidths={"L1": 800e9, "L2": 400e9, "L3": 100e9, "memory": 20e9},
    caches={"L1": 32 << 10, "L2": 1 << 20, "L3": 16 << 20}, intrinsics={"exp": 1e9}, fork_join=1e-6,
)  # fmt: skip


def inputs(exe: Executable, **dims: int) -> dict[str, np.ndarray]:
    return feeds(exe.program.functions["main"], None, dims=dims)


@pytest.fixture(scope="module")
def mlp() -> Executable:
    return legato.compile(legato.parse(MLP), threads=2)


@pytest.fixture(scope="module")
def found(mlp: Executable) -> Profile:
    return profile(mlp, inputs(mlp, n=32), seconds=0.1)


# ------------------------------------------------------------------ recording


def test_a_run_is_recorded_launch_by_launch(mlp: Executable) -> None:
    recorder = Recorder(mlp)
    given = inputs(mlp, n=8)
    run = recorder.run(given)
    names = [recorder.kernels[launch.kernel].name for launch in run.launches]
    assert len(names) == mlp.stats["kernels"]
    time = run.start
    for launch in run.launches:
        kernel = recorder.kernels[launch.kernel]
        assert time <= launch.start <= launch.end
        time = launch.end
        assert {name: launch.words[word] for name, word in kernel.dims.items()} in ({}, {"n": 8})
        parts = sorted((Fraction(s.tid, s.nt), Fraction(s.tid + 1, s.nt)) for s in launch.shares)
        assert [0, *(end for _, end in parts)] == [*(start for start, _ in parts), 1]
        for share in launch.shares:
            assert launch.start <= share.start <= share.end <= launch.end
    assert time <= run.end


def test_runs_that_follow_each_other_are_recorded_apart(mlp: Executable) -> None:
    runs = Recorder(mlp).runs(inputs(mlp, n=8), seconds=60, least=1, most=5)
    assert len(runs) == 5
    for before, run in pairwise(runs):
        assert before.launches[-1].end <= before.end <= run.start <= run.launches[0].start
        assert [launch.kernel for launch in before.launches] == [launch.kernel for launch in run.launches]


def test_recording_changes_nothing(mlp: Executable) -> None:
    given = inputs(mlp, n=5)
    before = mlp.run(given)
    Recorder(mlp).run(given)
    for name, value in mlp.run(given).items():
        np.testing.assert_array_equal(value, before[name])


def test_there_is_room_for_any_number_of_launches() -> None:
    exe = legato.compile(legato.parse(LOOP), threads=1)
    recorder = Recorder(exe)
    given = {"i": np.array(2000), "x": np.zeros(100, np.float32)}
    run = recorder.run(given)
    counts = np.bincount([launch.kernel for launch in run.launches])
    assert counts.max() >= 2000
    assert len(recorder.run({**given, "i": np.array(1)}).launches) < 100


def test_one_thread_and_more_threads_than_cores(mlp: Executable) -> None:
    for threads in (1, 5):
        recorder = Recorder(mlp.with_threads(threads))
        run = recorder.run(inputs(mlp, n=16))
        for launch in run.launches:  # in shares for each thread, or in parts of these
            assert sum(Fraction(1, share.nt) for share in launch.shares) == 1
        assert max(share.nt for launch in run.launches for share in launch.shares) % threads == 0


def test_a_failing_run_is_the_same_error() -> None:
    exe = legato.compile(legato.parse(MLP))
    with pytest.raises(RunError, match='input "x"'):
        Recorder(exe).run({**inputs(exe, n=2), "x": np.zeros((2, 63), np.float32)})


def test_a_program_that_does_not_list_its_kernels() -> None:
    with pytest.raises(RunError) as error:
        Recorder(executable()).run({"x": np.zeros(4, np.float32)})
    assert str(error.value) == "the program does not list its kernels\n  hint: compile the model again"


# ------------------------------------------------------------------ facts of kernels


def test_facts_survive_a_file(mlp: Executable, tmp_path: Path) -> None:
    mlp.save(tmp_path / "mlp.legato")
    assert load(tmp_path / "mlp.legato").kernels == mlp.kernels
    for kernel in mlp.kernels:
        assert kernel.operators
        assert kernel.work(dict.fromkeys(kernel.dims, 7)).bytes > 0


def test_facts_as_text() -> None:
    kernels = (
        KernelInfo(
            "k", 3, (BufferWork("x", ("*", 4, "n"), 0), "n"), {"flops": ("*", 2, "n")}, {"exp": "n"}, ("a",), ("s",)
        ),
    )
    assert kernels_from_text(kernels_to_text(kernels), 100) == kernels
    work = kernels[0].work({"n": 5})
    assert (work.flops, work.bytes, work.count("slots")) == (15, 20, 0)
    assert kernels[0].work({"n": -1}).flops == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "kernels: not readable as JSON"),
        ("{}", "kernels: got {}, wanted an array"),
        ('[{"name": "k", "offset": 100}]', "wanted an integer from 0 to 99"),
        (
            '[{"name":"k","offset":0,"params":["n"],"counts":{"flops":"m"},"calls":{},"operators":[],"sites":[]}]',
            "kernels[0]: kernel 'k' has no dim m",
        ),
    ],
)
def test_damaged_facts(text: str, message: str) -> None:
    with pytest.raises(ArtifactError, match=re.escape(message)):
        kernels_from_text(text, 100)


# ------------------------------------------------------------------ profiles


def test_a_profile_adds_up(found: Profile, mlp: Executable) -> None:
    assert found.runs >= 5
    assert sum(k.calls for k in found.kernels) == mlp.stats["kernels"]
    assert all(k.seconds > 0 for k in found.kernels)
    assert found.seconds > 0
    assert found.overhead > 0
    assert [k.lost for k in found.kernels] == sorted((k.lost for k in found.kernels), reverse=True)
    flops = sum(k.flops for k in found.kernels)
    assert 2 * 32 * (64 * 256 + 256 * 32) <= flops <= 2.5 * 32 * (64 * 256 + 256 * 32)
    for k in found.kernels:
        assert k.bound is not None
        assert k.bound.seconds == pytest.approx(max(k.bound.arithmetic, k.bound.moving))
        assert sum(k.moved.values()) == k.bytes
        assert bool(k.causes) == (k.share is not None and k.share < 0.7)


def test_operators_run_by_their_reference(tmp_path: Path) -> None:
    found = profile(executable("by_host"), {"x": np.zeros(10, np.float32)}, seconds=0.01)
    (operator,) = found.kernels
    assert (operator.name, operator.calls) == ("by reference: twice", 1)
    assert operator.seconds > 0
    assert operator.bound is None
    assert [e.kind for e in found.events] == ["operator"]
    assert "by reference: twice" in html(found, "m", "x")


def test_a_program_with_nothing_to_do() -> None:
    exe = legato.compile(
        legato.parse("""
#[version = "0.0.5"]
def @main(%x: Tensor[(0, 4), float32]) -> Tensor[(0, 4), float32] { nn.relu(%x) }
""")
    )
    found = profile(exe, inputs(exe), seconds=0.01)
    assert all(k.flops == k.bytes == 0 for k in found.kernels)
    json.loads(trace_json(found))
    assert "nan" not in html(found, "m", "x")


def test_the_statistic_is_the_one_asked_for(mlp: Executable) -> None:
    assert profile(mlp, inputs(mlp, n=32), seconds=0.05, best=True).statistic == "best"
    assert profile(mlp, inputs(mlp, n=32), seconds=0.05).statistic != "best"


def test_json(found: Profile) -> None:
    data = json.loads(json.dumps(found.to_json()))
    assert data["machine"]["threads"] == data["threads"] == 2
    assert {"name", "calls", "seconds", "flops", "bytes", "lost", "share", "causes"} <= set(data["kernels"][0])


def test_trace(found: Profile) -> None:
    data = json.loads(trace_json(found))
    events = data["traceEvents"]
    complete = [e for e in events if e["ph"] == "X"]
    launches = [e for e in complete if e["cat"] == "kernel"]
    assert len(launches) == sum(k.calls for k in found.kernels)
    assert {e["name"] for e in launches} == {k.name for k in found.kernels}
    assert {e["tid"] for e in complete} == {e["tid"] for e in events if e["ph"] == "M"}
    shares = [e for e in complete if e["cat"] == "share"]
    assert len(shares) >= len(launches)
    for e in complete:
        assert e["ts"] >= 0
        assert e["dur"] >= 0
    for lane in {e["tid"] for e in shares}:
        mine = sorted((e["ts"], e["dur"]) for e in shares if e["tid"] == lane)
        assert all(a + d <= b + 0.01 for (a, d), (b, _) in pairwise(mine))


def test_html_needs_nothing_else(found: Profile) -> None:
    page = html(found, "<model> & co", "x: float32[32, 64]")
    assert "&lt;model&gt; &amp; co" in page
    assert page.count("<svg") == 2
    assert not re.search(r"src=|href=|https?:|@import|url\(|<script", page)
    for k in found.kernels:
        assert page.count(k.name) >= 2
    assert "nan" not in page
    total = found.overhead + sum(k.seconds for k in found.kernels)
    assert f"<td>{total * 1e6:.1f}</td><td>100.0 %</td>" in page
    for x, y in re.findall(r'<circle cx="([^"]+)" cy="([^"]+)"', page):
        assert 0 < float(x) < 900
        assert 0 < float(y) < 420


def test_an_artifact_where_the_compiler_is_not(mlp: Executable, tmp_path: Path) -> None:
    mlp.save(tmp_path / "mlp.legato")
    code = f"""
import sys
class NoCompiler:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("llvmlite", "onnx"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, NoCompiler())
sys.path.insert(0, {str(SOURCE)!r})
from legato.cli import main
sys.exit(main(["profile", "mlp.legato", "--seconds", "0.1", "--html", "p.html", "--json"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)
    assert data["machine"] is None
    assert "takes the compiler (llvmlite)" in data["note"]
    assert all(k["seconds"] > 0 and k["bound"] is None and k["share"] is None for k in data["kernels"])
    assert (tmp_path / "p.html").read_text().count("<svg") == 1


# ------------------------------------------------------------------ the machine


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "host"])
def test_peaks_are_plausible(name: str) -> None:
    m = measure_machine(target(name), 1, ["exp", "pow", "dot2"])
    lanes = target(name).vector_bytes // 4
    assert 1e9 * lanes < m.flops < 40e9 * lanes
    assert list(m.bandwidths) == ["L1", "L2", "L3", "memory"]
    rates = list(m.bandwidths.values())
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] > 1e8
    assert 1e6 < m.intrinsics["pow"] < m.intrinsics["exp"] < m.intrinsics["dot2"] < m.flops
    json.dumps(m.to_json())


def test_what_is_left_of_the_last_run() -> None:
    """It is read at most as fast as L3, and at least as fast as memory; nothing is measured that fits L2, or not L3."""
    caches = measure_machine(host(), 1).caches
    meter = Meter(host(), 1, footprint=2 * caches["L2"], period=1e-3)
    for _ in range(3):
        meter.sample()
    m = meter.machine()
    assert list(m.bandwidths) == ["L1", "L2", "L3", "last run", "memory"]
    assert m.bandwidths["memory"] <= m.bandwidths["last run"] <= m.bandwidths["L3"]
    for footprint in (caches["L2"], caches["L3"] + 1):
        assert "last run" not in Meter(host(), 1, footprint=footprint, period=1e-3).rates


@pytest.mark.parametrize("threads", [1, 2])
def test_what_steps_read_again(threads: int) -> None:
    """Each thread reads its part of a step, again and again; what no program steps through is not measured."""
    step = measure_machine(host(), 1).caches["L2"] // 2
    meter = Meter(host(), threads, step=threads * step)
    part = next(meter.rates["each step"].places)
    assert len(part) == threads
    assert step - 64 < part[0].nbytes <= step
    meter.sample()
    rates = meter.machine(best=True).bandwidths
    assert list(rates) == ["L1", "L2", "L3", "memory", "each step"]
    assert rates["each step"] > 0
    assert "each step" not in Meter(host(), threads).rates


@pytest.mark.parametrize(("size", "count"), [(64, 16), (4096, 16), (20000, 3), (40000, 1), (65536, 1)])
def test_each_sample_reads_another_part(size: int, count: int) -> None:
    """Parts hold what is read of rows of 64 KiB, overlap nowhere, and come again when all have had their turn."""
    values = aligned(2, 16384)
    rate = read_rate(host(), values, size, size)
    *parts, again = [next(rate.places) for _ in range(count + 1)]
    assert again is parts[0]
    assert all(len(part) == 2 and part[0].nbytes > size - 64 and np.shares_memory(part, values) for part in parts)
    assert not any(np.shares_memory(a, b) for a, b in combinations(parts, 2))
    assert rate.sample() > 0


def test_peaks_of_several_threads() -> None:
    one, two = measure_machine(host(), 1), measure_machine(host(), 2)
    assert two.cores in (1, 2)
    assert two.flops == pytest.approx(two.cores * one.flops, rel=0.7)


# ------------------------------------------------------------------ rooflines


def work(read: int = 0, written: int = 0, calls: dict[str, int] | None = None, **counts: int) -> Work:
    return Work(counts, calls or {}, ((0, "x", read, 0), (1, "y", 0, written)))


def test_bounds() -> None:
    compute = bound_of(work(slots=4_000_000), {"L2": 4000}, MACHINE)
    assert (compute.seconds, compute.by) == (pytest.approx(1e-5), "arithmetic")
    memory = bound_of(work(slots=400), {"L2": 10**6, "memory": 2 * 10**6}, MACHINE)
    assert (memory.seconds, memory.by) == (pytest.approx(1e-4), "memory")
    stale = replace(MACHINE, bandwidths={**MACHINE.bandwidths, "last run": 50e9})
    left = {"L3": 10**5, "last run": 10**6}
    found = bound_of(work(), left, MACHINE), bound_of(work(), left, stale)
    assert [(b.seconds, b.by) for b in found] == [(pytest.approx(1.1e-5), "L3"), (pytest.approx(2e-5), "last run")]
    cache = bound_of(work(), {"L1": 8 * 10**6, "L3": 1000}, MACHINE)
    assert (cache.seconds, cache.by) == (pytest.approx((8e6 + 1000) / 800e9), "L1")
    calls = bound_of(work(calls={"exp": 1000, "unheard_of": 5}), {}, MACHINE)
    assert calls.seconds == pytest.approx(1e-6)
    steps = bound_of(work(slots=400, stepped=4 * 10**6), {"L3": 10**5}, MACHINE)
    assert (steps.seconds, steps.by) == (pytest.approx(1e-5), "each step")
    measured = replace(MACHINE, bandwidths={**MACHINE.bandwidths, "each step": 200e9})
    assert bound_of(work(stepped=4 * 10**6), {}, measured).seconds == pytest.approx(2e-5)


def test_where_operands_lie() -> None:
    caches = {"L1": 1000, "L2": 10_000, "L3": 96_000}

    def launch(*operands: tuple[int, int]) -> tuple[Work, list[int]]:
        buffers = tuple((n, "b", size, 0) for n, (_, size) in enumerate(operands))
        return Work({}, {}, buffers), [address for address, _ in operands]

    # 1 is read again at once; weights come around once a run, after everything else.
    found = moved_bytes(
        [launch((1, 400), (100, 5000)), launch((1, 400), (2, 400)), launch((2, 400), (200, 90_000))], caches
    )
    assert found == [{"last run": 400, "memory": 5000}, {"L2": 400, "memory": 400}, {"L3": 400, "memory": 90_000}]
    assert moved_bytes([launch((1, 500))], caches) == [{"L1": 500}]
    assert moved_bytes([launch()], caches) == [{}]


@pytest.mark.parametrize(
    ("of", "start", "idle", "wanted"),
    [
        (work(slots=4 * 10**6, parallel=100), 9e-5, 0.0, "launch overhead"),
        (work(slots=4 * 10**6), 0.0, 9e-5, "runs on a single thread"),
        (work(slots=4 * 10**6, parallel=3), 0.0, 9e-5, "threads get unequal shares (3 iterations for 2 threads)"),
        (work(slots=4 * 10**6, parallel=100), 0.0, 9e-5, "threads wait for each other"),
        (work(slots=4 * 10**6, parallel=100, masked=36 * 10**6), 0.0, 0.0,
            "tail lanes: guards turn off part of the vectors"),
        (work(slots=4 * 10**6, parallel=100, narrow=36 * 10**6), 0.0, 0.0, "vectors are narrower than a register"),
        (work(slots=4 * 10**6, parallel=100, scalar=36 * 10**6), 0.0, 0.0, "operations on single numbers, not vectors"),
        (work(slots=4 * 10**6, parallel=100, loads=10**6), 0.0, 0.0, "few operations per load"),
        (work(slots=4 * 10**6, parallel=100, loads=10**6, gathered=10**6), 0.0, 0.0,
            "gathers: vectors are loaded lane by lane"),
        (work(slots=4 * 10**6, parallel=100, past_l1=40 * 10**6), 0.0, 0.0,
            "operands come again from L2 (40.0 MB): larger than what lies before it"),
        (work(slots=4 * 10**6, parallel=100, past_l2=10**7), 0.0, 0.0,
            "operands come again from L3 (10.0 MB): larger than what lies before it"),
        (work(slots=4 * 10**6, parallel=100, divisions=10**6), 0.0, 0.0, "divisions in subscripts"),
        (work(slots=4 * 10**6, parallel=100), 0.0, 0.0, "unknown"),
        (work(slots=10, parallel=100, read=10**6), 0.0, 0.0, "reading and writing (L3) below its bandwidth: 10.0 GB/s"),
    ],
)  # fmt: skip
def test_causes(of: Work, start: float, idle: float, wanted: str) -> None:
    """A kernel that could take 10 µs takes 100."""
    moved = {"L3": of.bytes}
    bound = bound_of(of, moved, MACHINE)
    assert bound.seconds == pytest.approx(1e-5, rel=0.01)
    causes = causes_of([of], bound, moved, Times(1e-4, start, idle), MACHINE)
    assert causes[0].what == wanted
    assert causes[0].seconds > 5e-5


def test_shares() -> None:
    def kernel(seconds: float, bound: Bound | None) -> KernelProfile:
        return KernelProfile("k", (), (), 1, seconds, 1, 1, {}, 1.0, bound)

    slow = kernel(2.0, Bound(0.5, 0.5, 0.1, "arithmetic"))
    assert (slow.lost, slow.share) == (1.5, 0.25)
    unknown = kernel(2.0, None)
    assert (unknown.lost, unknown.share) == (0.0, None)
    both: Any = Profile("x86-64-v4", 1, 5, "median", 4.0, 0.1, (slow, unknown), None, "", ())
    assert both.share == 0.25


def test_names_in_the_roofline_do_not_overlap(found: Profile) -> None:
    """Slow kernels at one place share a name there; one elsewhere has its own, and long names are cut."""
    (some, *_) = (k for k in found.kernels if k.flops and k.bytes)
    slow = replace(some, causes=(Cause("it is cold", 1e-6),))
    twins = [replace(slow, name=f"twin_{n}") for n in range(3)]
    far = replace(slow, name="far" * 20, flops=slow.flops // 8, bytes=slow.bytes * 8)
    chart = roofline(replace(found, kernels=(*twins, far)))
    names = re.findall(r">(twin_.|far[far]*…)</text>", chart)
    assert len([name for name in names if name.startswith("twin")]) == 1
    assert [name for name in names if name.startswith("far")] == [("far" * 20)[:31] + "…"]
    assert chart.count("<circle") == 4
