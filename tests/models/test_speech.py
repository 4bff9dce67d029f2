"""The three silero-vad models hear speech step by step, state carried from call to call, as in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

import legato
from legato.compare import peer
from legato.interp import evaluate
from legato.ir.expr import If
from legato.ir.scope import post_order
from legato.runtime.executable import Executable
from tools.models import get
from tools.models.record import Array, cached
from tools.models.speech import RATE, RECORDED, noise, recording, voice, windows

pytestmark = pytest.mark.models

CLOSE = 2e-4  # of a probability, after all steps
Step = Callable[[dict[str, Array]], list[Array]]


def compiled(exe: Executable) -> Step:
    return lambda feeds: list(exe(*(feeds[value.name] for value in exe.inputs)))


def theirs(name: str) -> Step:
    session = peer.session(cached(f"{name}.onnx"), 1)
    return lambda feeds: peer.outputs(session, feeds)


def probabilities(step: Step, sound: Array, rate: int) -> Array:
    """That somebody speaks, for each window of the sound; the state goes from one to the next."""
    state, found = np.zeros((2, 1, 128), np.float32), []
    for window in windows(sound, rate):
        p, state = step({"input": window[None], "state": state, "sr": np.array(rate)})
        found.append(p[0, 0])
    return np.array(found)


def sounds() -> Iterator[tuple[Array, float, float]]:
    """Sounds, with between which parts of their windows speech is heard."""
    yield voice(), 0.5, 0.65
    yield noise(), 0, 0
    try:
        for name in RECORDED:
            yield recording(name), 0.5, 0.9
    except FileNotFoundError:
        return  # no Debian: there are no recordings


def test_nested_branches_that_the_rate_decides() -> None:
    """25 Ifs; given the rate and the extents of a window, none of them is left."""
    window = 576
    shapes = {"input": (1, window), "state": (2, 1, 128)}
    mod = legato.from_onnx(cached("silero_vad.onnx"), shapes=shapes, constants={"sr": RATE})
    assert not any(isinstance(node, If) for node in post_order(mod["main"]))
    exe, session = compiled(legato.compile(mod, threads=1)), theirs("silero_vad")
    for sound, least, most in sounds():
        found = probabilities(exe, sound, RATE)
        np.testing.assert_allclose(found, probabilities(session, sound, RATE), rtol=0, atol=CLOSE)
        assert least <= np.mean(found > 0.5) <= most


def test_what_onnx_runtime_saves(tmp_path: Path) -> None:
    """Its optimiser inlines functions and fuses nodes: the file has the branches of both rates, and other names."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "extended.onnx")
    session = ort.InferenceSession(str(cached("silero_vad.onnx")), options, providers=["CPUExecutionProvider"])
    shapes = {"input": (1, 576), "state": (2, 1, 128)}
    mod = legato.from_onnx(tmp_path / "extended.onnx", shapes=shapes, constants={"sr": RATE})
    assert not any(isinstance(node, If) for node in post_order(mod["main"]))
    rng = np.random.default_rng(0)
    feeds = {"input": rng.normal(size=(1, 576)).astype(np.float32), "state": np.zeros((2, 1, 128), np.float32)}
    found = evaluate(mod, [feeds[param.name] for param in mod["main"].params])
    for got, wanted in zip(found, session.run(None, feeds | {"sr": np.array(RATE)}), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=CLOSE)


def test_one_program_for_both_rates() -> None:
    mod = legato.from_onnx(cached("silero_vad_op18.onnx"))
    assert sum(isinstance(node, If) for node in post_order(mod["main"])) == 1
    exe, session = compiled(legato.compile(mod, threads=1)), theirs("silero_vad_op18")
    for rate, slack in ((RATE, 0.0), (RATE // 2, 0.1)):
        for sound, least, most in sounds():
            heard = sound[:: RATE // rate]
            found = probabilities(exe, heard, rate)
            np.testing.assert_allclose(found, probabilities(session, heard, rate), rtol=0, atol=CLOSE)
            assert least - slack <= np.mean(found > 0.5) <= most + slack


def test_many_windows_at_a_time() -> None:
    model = get("silero_vad_sequence")
    exe = legato.compile(model.path(), threads=1)
    session = peer.session(model.path(), 1)
    for sound, least, most in sounds():
        rows, found = np.stack(list(windows(sound))), dict[str, list[Array]](ours=[], theirs=[])
        for who, step in (("ours", compiled(exe)), ("theirs", lambda feeds: peer.outputs(session, feeds))):
            h = c = np.zeros((1, 1, 128), np.float32)
            for begin in range(0, len(rows), 7):  # pieces of any length: the state goes from one to the next
                p, h, c = step({"input": rows[begin : begin + 7], "h": h, "c": c})
                found[who].append(p)
        ours, others = (np.concatenate(found[who]) for who in ("ours", "theirs"))
        np.testing.assert_allclose(ours, others, rtol=0, atol=CLOSE)
        assert least <= np.mean(ours > 0.5) <= most
