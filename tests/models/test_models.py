"""Every model that the tools make: compiled as it means, decoded as ONNX Runtime decodes it, always the same bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import legato
from legato.compare import compare, peer
from legato.compare.report import nearness
from legato.ir.module import Module
from legato.runtime.executable import Executable
from legato.runtime.leaves import flat, in_order
from tests.heavy import BIG, HEAVY, amount, light
from tools.models import MODELS, Model, get
from tools.models.record import Array, Feeds

pytestmark = pytest.mark.models
CLOSE = 1e-3  # of the range of the outputs


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
# Forms of models that are there in another form, and large models whose kind another one is of: seconds each.
AGAIN = {
    *(Form(f"{name}_batch", False) for name in ("vgg16", "bert_base", "resnet50", "resnet18")),
    *(Form(name, False) for name in ("ppocr_det", "ppocr_cls", "ppocr_rec")),
    Form("basic_pitch", True),
    *(Form(name, True) for name in ("vgg16", "bert_base", "inception_v3", "convnext_tiny", "densenet121")),
}


@dataclass(eq=False)
class Subject:
    """A form, compiled, and ONNX Runtime's outputs for each of its cases."""

    form: Form
    mod: Module
    exe: Executable
    theirs: list[list[Array]]

    def pairs(self) -> Iterator[tuple[int, Feeds, list[Array]]]:
        """The number of each case, its inputs, and ONNX Runtime's outputs."""
        for index, (feeds, outputs) in enumerate(zip(self.form.cases(), self.theirs, strict=True)):
            yield index, feeds, outputs

    def run(self, feeds: Feeds) -> list[Array]:
        """Legato's outputs."""
        return list(flat(self.exe(*in_order(self.exe, feeds))))


@pytest.fixture(scope="module", params=light(FORMS, set(FORMS) - AGAIN), ids=str)
def subject(request: pytest.FixtureRequest) -> Subject:
    """One form after the other: pytest runs all tests of one before it makes the next, and lets go of it then."""
    form: Form = request.param
    model = form.model
    mod = legato.from_onnx(model.path(), shapes=model.static_shapes() if form.static and model.symbolic else None)
    theirs = [peer.outputs(peer.session(model.path(), 2), feeds) for feeds in form.cases()]
    return Subject(form, mod, legato.compile(mod, threads=2), theirs)


def size(feeds: Feeds) -> int:
    """How much a case takes."""
    return sum(array.size for array in feeds.values())


@pytest.mark.sized
def test_outputs_hold(subject: Subject) -> None:
    """As the interpreter in float64 has them: the smallest case of models that are not big; in `make heavy` all."""
    smallest = min(map(size, subject.form.cases()))
    assert subject.exe.stats["host_operators"] == 0
    for index, feeds, theirs in subject.pairs():
        if HEAVY or (size(feeds) == smallest and subject.form.name not in BIG):
            report = compare(subject.exe, subject.mod, feeds, theirs=theirs)
            assert report.holds, f"case {index}\n{report}"


def test_outputs_are_near_those_of_onnxruntime(subject: Subject) -> None:
    for index, feeds, theirs in subject.pairs():
        for got, wanted in zip(subject.run(feeds), theirs, strict=True):
            share, is_near = nearness(got, wanted, CLOSE)
            assert is_near, f"case {index}: {share} of the range"


def test_outputs_mean_the_same(subject: Subject) -> None:
    model = subject.form.model
    for index, feeds, theirs in subject.pairs():
        decoded = model.decode(subject.run(feeds))
        assert decoded == model.decode(theirs)
        if model.expected:
            assert decoded == model.expected[index]


@pytest.mark.sized
def test_bits_do_not_depend_on_threads_or_files(subject: Subject, tmp_path: Path) -> None:
    exe, feeds = subject.exe, subject.form.cases()[0]
    exe.save(tmp_path / "model.legato")
    loaded = legato.load(tmp_path / "model.legato")
    expected = bits(exe.with_threads(1), feeds)
    for other in (*map(exe.with_threads, amount((3,), (2, 3, 4))), loaded, exe):
        assert bits(other, feeds) == expected
    assert (loaded.inputs, loaded.outputs, str(loaded.peak_memory)) == (exe.inputs, exe.outputs, str(exe.peak_memory))


def bits(exe: Executable, feeds: Feeds) -> list[bytes]:
    """The outputs, to the last bit."""
    return [np.ascontiguousarray(output).tobytes() for output in flat(exe(*in_order(exe, feeds)))]
