"""Every model that the tools make: compiled as it means, decoded as ONNX Runtime's outputs are, the same bits always."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import legato
from legato.compare import compare, peer
from legato.compare.exact import flat, in_order
from legato.ir.module import Module
from legato.runtime.executable import Executable
from tools.models import MODELS, Model, get
from tools.models.record import Array, Feeds

pytestmark = [pytest.mark.models, pytest.mark.xdist_group("models")]


@dataclass(frozen=True, slots=True)
class Form:
    """A model as it is compiled: with every dim fixed to the first case's, or as the file has it, symbolic dims too."""

    name: str
    static: bool

    def __str__(self) -> str:
        return f"{self.name}-{'static' if self.static else 'symbolic'}"

    @property
    def model(self) -> Model:
        return get(self.name)

    def cases(self) -> Sequence[Feeds]:
        """The inputs that this form takes."""
        cases = self.model.cases()
        return cases[:1] if self.static else cases


# A model with a symbolic twin ("…_batch") is there twice already.
FORMS = [
    *(Form(m.name, True) for m in MODELS if not m.name.endswith("_batch")),
    *(Form(m.name, False) for m in MODELS if m.symbolic),
]


@cache
def compiled(form: Form) -> tuple[Module, Executable]:
    """The module and the executable, once for all tests."""
    shapes = form.model.static_shapes() if form.static and form.model.symbolic else None
    mod = legato.from_onnx(form.model.path(), shapes=shapes)
    return mod, legato.compile(mod, threads=2)


@cache
def theirs(form: Form, index: int) -> list[Array]:
    """ONNX Runtime's outputs for a case."""
    return peer.outputs(form.model.path(), form.cases()[index], threads=2)


def bits(exe: Executable, feeds: Feeds) -> list[bytes]:
    """The outputs, to the last bit."""
    return [np.ascontiguousarray(output).tobytes() for output in flat(exe(*in_order(exe, feeds)))]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_outputs_hold(form: Form) -> None:
    mod, exe = compiled(form)
    for index, feeds in enumerate(form.cases()):
        report = compare(exe, mod, feeds, theirs=theirs(form, index))
        assert report.holds, f"case {index}\n{report}"
        assert report.host_operators == 0


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_outputs_mean_the_same(form: Form) -> None:
    _, exe = compiled(form)
    for index, feeds in enumerate(form.cases()):
        outputs = list(flat(exe(*in_order(exe, feeds))))
        assert form.model.decode(outputs) == form.model.decode(theirs(form, index))
        if form.model.expected:
            assert form.model.decode(outputs) == form.model.expected[index]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_bits_do_not_depend_on_threads_or_files(form: Form, tmp_path: Path) -> None:
    _, exe = compiled(form)
    feeds = form.cases()[0]
    exe.save(tmp_path / "model.legato")
    loaded = legato.load(tmp_path / "model.legato")
    expected = bits(exe.with_threads(1), feeds)
    for other in (exe.with_threads(2), exe.with_threads(4), loaded, exe):
        assert bits(other, feeds) == expected
    assert (loaded.inputs, loaded.outputs, str(loaded.peak_memory)) == (exe.inputs, exe.outputs, str(exe.peak_memory))
