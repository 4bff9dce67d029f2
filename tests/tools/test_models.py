"""The model files are what they claim to be: ONNX Runtime reads the page, hears the notes, knows the files."""

from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.heavy import BIG, light
from tools.models import MODELS, Model, get
from tools.models.images import image
from tools.models.language import pieces, tokens
from tools.models.ocr import components, texts
from tools.models.page import read_page
from tools.models.record import Array
from tools.models.sources import download


def session(model: Model) -> onnxruntime.InferenceSession:
    """The model in ONNX Runtime, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(model.path()), options)


@pytest.mark.models
@pytest.mark.parametrize("model", light(MODELS, [m for m in MODELS if m.name not in BIG]), ids=lambda m: m.name)
@pytest.mark.shared(2)
def test_outputs_mean_what_is_expected(model: Model) -> None:
    run, cases = session(model), model.cases()
    assert len(model.expected) in (0, len(cases))
    for index, feeds in enumerate(cases):
        outputs = run.run(None, feeds)
        assert all(np.isfinite(output).all() for output in outputs)
        decoded = model.decode(outputs)
        if model.expected:
            assert decoded == model.expected[index]


@pytest.mark.models
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_file_is_as_the_record_says(model: Model) -> None:
    file = onnx.load(model.path(), load_external_data=False)
    versions = {entry.domain: entry.version for entry in file.opset_import}
    assert versions[""] == model.opset
    constants = {tensor.name for tensor in file.graph.initializer}
    inputs = [entry for entry in file.graph.input if entry.name not in constants]
    for feeds in model.cases():
        assert [entry.name for entry in inputs] == list(feeds)
    if not model.symbolic:
        declared = {entry.name: tuple(dim.dim_value for dim in entry.type.tensor_type.shape.dim) for entry in inputs}
        assert declared == model.static_shapes()


@pytest.mark.models
def test_whole_page_is_read_either_way_up() -> None:
    runs = [session(get(name)) for name in ("ppocr_det", "ppocr_cls", "ppocr_rec")]
    detect, classify, recognise = (lambda x, run=run: run.run(None, {run.get_inputs()[0].name: x})[0] for run in runs)
    for page in (image("page.png"), image("page.png").rotate(180)):
        lines = [line.text for line in read_page(page, detect, classify, recognise)]
        assert [text for (text,) in get("ppocr_rec").expected[:1]] == lines[:1]
        assert "unambiguously as either object or background. Here," in lines
        assert len(lines) == 7


@pytest.mark.models
def test_word_pieces() -> None:
    assert pieces("unaffable") == ["una", "##ffa", "##ble"]
    assert pieces("漢字漢") == ["[UNK]"]
    assert tokens("Café!") == tokens("cafe !")


@given(arrays.arrays(bool, st.tuples(st.integers(1, 8), st.integers(1, 8))))
def test_components_are_the_connected_parts(mask: Array) -> None:
    parts = [{tuple(point) for point in part.tolist()} for part in components(mask)]
    assert sorted(point for part in parts for point in part) == [tuple(point) for point in np.argwhere(mask).tolist()]

    def touch(a: tuple[int, int], b: tuple[int, int]) -> bool:
        return max(abs(a[0] - b[0]), abs(a[1] - b[1])) == 1

    for index, part in enumerate(parts):
        assert not any(touch(a, b) for other in parts[:index] for a in part for b in other)
        reached, frontier = set(), [next(iter(part))]
        while frontier:
            point = frontier.pop()
            reached.add(point)
            frontier += [other for other in part - reached if touch(point, other)]
        assert reached == part


@pytest.mark.models
def test_repetitions_and_blanks_are_dropped() -> None:
    scores = np.zeros((1, 6, 3), np.float32)
    for step, sign in enumerate((0, 1, 1, 0, 1, 2)):
        scores[0, step, sign] = 1
    (text,) = texts([scores])
    assert len(text) == 3
    assert text[0] == text[1] != text[2]


def test_files_are_fetched_whatever_python_this_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    name = "only_here-1.0-py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / name, "w") as wheel:
        head = "Metadata-Version: 2.1\nName: only-here\nVersion: 1.0\nRequires-Python: ==3.11.*\n"
        wheel.writestr("only_here-1.0.dist-info/METADATA", head)
        wheel.writestr(
            "only_here-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("only_here-1.0.dist-info/RECORD", "")
    assert download("only-here==1.0", tmp_path / "got").name == name


def test_names_are_unique() -> None:
    assert len({model.name for model in MODELS}) == len(MODELS)


def test_missing_file_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEGATO_MODELS", str(tmp_path))
    missing = dataclasses.replace(MODELS[0], name="nothing")
    with pytest.raises(FileNotFoundError) as error:
        missing.path()
    assert str(error.value) == (
        f"{tmp_path}/nothing.onnx is not there: `make models` makes it (python -m tools.models)"
    )
