"""Damaged real models, and official cases of ONNX: imported, checked, and some of them compiled and called."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from random import Random

import onnx

from legato.base.errors import ImportModelError, InternalError, LegatoError, UnsupportedError
from legato.frontend.onnx import check, from_onnx
from tests.damaged.onnx_models import beside, damaged, small_cases
from tests.damaged.structure import rank, restructured
from tests.damaged.use import compiled_and_called

__all__ = ["attempt_large", "attempt_model", "attempt_official", "attempt_rank", "files", "judge", "large_ones"]

_LARGEST = 3 << 20  # bytes of a file that is damaged, and
_COMPILED = 128 << 10  # of one that is compiled
_INLINE = 1 << 10  # bytes of a weight of a large model that stays in the file
_ZEROS = 128 << 20  # bytes of the file that stands for the others
_CALLS = 3  # one of so many is compiled and called
FILE = "model.onnx"


@cache
def files() -> tuple[bytes, ...]:
    """The real models that are not large and lie in one file (`make models` makes them)."""
    folder = Path(os.environ.get("LEGATO_MODELS", ".models"))
    found = sorted(path for path in folder.glob("*.onnx") if path.stat().st_size <= _LARGEST)
    return tuple(path.read_bytes() for path in found if not path.with_suffix(".weights").exists())


@cache
def large_ones() -> tuple[bytes, ...]:
    """The other real models, with zeros for their weights, which lie in a file beside: only what reads them differs."""
    folder, found = Path(os.environ.get("LEGATO_MODELS", ".models")), []
    for path in sorted(folder.glob("*.onnx")):
        if path.stat().st_size > _LARGEST or path.with_suffix(".weights").exists():
            model = onnx.ModelProto.FromString(path.read_bytes())
            if all(_lies_beside(tensor) for tensor in model.graph.initializer):
                found.append(model.SerializeToString())
    return tuple(found)


def _lies_beside(tensor: onnx.TensorProto) -> bool:
    """Whether a weight is small, or begins the file of zeros from now on; not if that is too short."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    size = int(entries["length"]) if entries else len(tensor.raw_data)
    if size <= _INLINE and not entries:
        return True
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, text in {"location": "zeros.bin", "offset": "0", "length": str(size)}.items():
        tensor.external_data.add(key=key, value=text)
    return size <= _ZEROS


def attempt_large(number: int, folder: Path) -> bool:
    """A large real model, damaged; it is not compiled."""
    rng = Random(number)
    with (folder / "zeros.bin").open("wb") as zeros:
        zeros.truncate(_ZEROS)  # a hole: nothing is written
    (folder / FILE).write_bytes(_changed(rng, onnx.ModelProto.FromString(rng.choice(large_ones()))))
    return judge(folder / FILE, is_called=False)


def attempt_model(number: int, folder: Path) -> bool:
    """A real model, damaged."""
    rng = Random(number)
    return _attempt(rng, onnx.ModelProto.FromString(rng.choice(files())), folder, number)


def attempt_official(number: int, folder: Path) -> bool:
    """An official case of an operator or a model, damaged."""
    rng, base = Random(number), onnx.ModelProto()
    base.CopyFrom(rng.choice(small_cases()).model)
    return _attempt(rng, base, folder, number)


def attempt_rank(number: int, folder: Path) -> bool:
    """An official case of an operator where one input has another rank: four ways for each input of each."""
    case = small_cases()[number // 4 % len(small_cases())]
    for value in case.model.graph.input:
        base = onnx.ModelProto()
        base.CopyFrom(case.model)
        if value.type.HasField("tensor_type"):
            rank(next(other for other in base.graph.input if other.name == value.name), number % 4)
        (folder / FILE).write_bytes(base.SerializeToString())
        try:
            judge(folder / FILE, is_called=False)
        except InternalError:
            raise
        except LegatoError:
            pass
    return True


def _attempt(rng: Random, base: onnx.ModelProto, folder: Path, number: int) -> bool:
    if rng.random() < 0.1 and base.ByteSize() <= _COMPILED:
        beside(rng, base, folder)
    (folder / FILE).write_bytes(_changed(rng, base))
    return judge(folder / FILE, is_called=number % _CALLS == 0)


def _changed(rng: Random, base: onnx.ModelProto) -> bytes:
    """What damage leaves of a model: mostly in its structure."""
    if rng.random() >= 0.7:
        return damaged(rng, base)
    for _ in range(rng.choice((1, 1, 2, 4))):
        restructured(rng, base)
    return base.SerializeToString()


def judge(path: Path, *, is_called: bool = True) -> bool:
    """True where a file is accepted; LegatoError where it is refused. What `check` finds nothing in, is imported."""
    try:
        report = check(path)
    except (ImportModelError, UnsupportedError):  # it cannot be read, or is of an operator set that is too new
        raise
    except LegatoError as error:
        raise AssertionError("check raises what it should list") from error
    from_onnx(path)
    assert not report.unsupported, "check lists what from_onnx accepts"
    if is_called and path.stat().st_size <= _COMPILED:
        return compiled_and_called(path)
    return True
