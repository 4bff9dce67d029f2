"""Damaged real models, and official cases of ONNX: imported, checked, and some of them compiled and called."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from random import Random

import onnx

from legato.base.errors import ImportModelError, InternalError, LegatoError
from legato.frontend.onnx import check, from_onnx
from tests.damaged.onnx_models import beside, damaged, small_cases
from tests.damaged.structure import rank, restructured
from tests.damaged.use import compiled_and_called

__all__ = ["attempt_model", "attempt_official", "attempt_rank", "files", "judge"]

_LARGEST = 3 << 20  # bytes of a file that is damaged, and
_COMPILED = 128 << 10  # of one that is compiled
_CALLS = 3  # one of so many is compiled and called
FILE = "model.onnx"


@cache
def files() -> tuple[bytes, ...]:
    """The real models that are not large and lie in one file (`make models` makes them)."""
    folder = Path(os.environ.get("LEGATO_MODELS", ".models"))
    found = sorted(path for path in folder.glob("*.onnx") if path.stat().st_size <= _LARGEST)
    return tuple(path.read_bytes() for path in found if not path.with_suffix(".weights").exists())


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
    if rng.random() < 0.7:
        for _ in range(rng.choice((1, 1, 2, 4))):
            restructured(rng, base)
        content = base.SerializeToString()
    else:
        content = damaged(rng, base)
    (folder / FILE).write_bytes(content)
    return judge(folder / FILE, is_called=number % _CALLS == 0)


def judge(path: Path, *, is_called: bool = True) -> bool:
    """True where a file is accepted; LegatoError where it is refused. What `check` finds nothing in, is imported."""
    try:
        report = check(path)
    except ImportModelError:
        raise
    except LegatoError as error:
        raise AssertionError("check raises what it should list") from error
    from_onnx(path)
    assert not report.unsupported, "check lists what from_onnx accepts"
    if is_called and path.stat().st_size <= _COMPILED:
        return compiled_and_called(path)
    return True
