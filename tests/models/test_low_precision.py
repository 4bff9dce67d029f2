"""Real models with precision="bfloat16": as near to float32 as docs/precision_narrow.md says, decoded to the same
answers."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.precision import NARROW
from legato.base.target import host
from legato.runtime.leaves import flat, in_order
from tests.heavy import light, marked
from tools.models import get

pytestmark = pytest.mark.models
# The largest error as a share of the outputs' range. Deep nets of small channels suffer most.
BOUNDS = {"resnet18": 0.02, "mobilenet_v2": NARROW, "minilm": 0.01, "squeezenet1_1": 0.02, "lstm": 0.02}


SMALL = ("squeezenet1_1", "lstm")  # what is compiled for two targets in every run
HERE = (*SMALL, "mobilenet_v2", "minilm")  # what is compiled for this machine in every run
PAIRS = [
    marked(name, target, heavy=name not in (HERE if target == host().name else SMALL), name=f"{name}-{target}")
    for name in BOUNDS
    for target in sorted({host().name, "x86-64-v3"})
]


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_bounds_hold(name: str, target: str) -> None:
    model = get(name)
    feeds = model.cases()[0]
    module = legato.from_onnx(model.path(), shapes=model.static_shapes() if model.symbolic else None)
    wide = legato.compile(module, target=target)
    narrow = legato.compile(module, target=target, precision="bfloat16")
    wanted, got = (list(flat(exe(*in_order(exe, feeds)))) for exe in (wide, narrow))
    for w, g in zip(wanted, got, strict=True):
        assert (w.dtype, w.shape) == (g.dtype, g.shape)
        span = max(float(w.max()), 0.0) - min(float(w.min()), 0.0)
        assert float(np.abs(g - w).max()) <= BOUNDS[name] * span
    assert model.decode(got) == model.decode(wanted)
    for threads in (1, 2, 4):
        again = flat(narrow.with_threads(threads)(*in_order(narrow, feeds)))
        assert [a.tobytes() for a in again] == [g.tobytes() for g in got]


@pytest.mark.parametrize("is_symbolic", light([False, True], [False]), ids=["static", "symbolic"])
def test_few_rows_of_a_text_recogniser_are_far_off_and_the_text_is_the_same(is_symbolic: bool) -> None:
    """See docs/precision_narrow.md: ties between neighbouring columns fall either way, and mean the same letters."""
    model = get("ppocr_rec")
    module = legato.from_onnx(model.path(), shapes=None if is_symbolic else model.static_shapes())
    wide, narrow = legato.compile(module), legato.compile(module, precision="bfloat16")
    for feeds in model.cases() if is_symbolic else model.cases()[:1]:
        wanted, got = (list(flat(exe(*in_order(exe, feeds)))) for exe in (wide, narrow))
        errors = np.abs(got[0] - wanted[0]).max(axis=-1)  # of a row of probabilities
        assert np.median(errors) < 1e-3
        assert np.count_nonzero(errors > 0.05) <= 0.01 * errors.size
        assert model.decode(got) == model.decode(wanted)
