"""legato.errors: the classes that programs catch, in one public place."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import legato
from legato import errors
from legato.base import errors as implementation

PAGE = (Path(__file__).parents[1] / "docs/errors.md").read_text(encoding="utf-8")


def classes() -> dict[str, type[BaseException]]:
    """All error classes that the package raises on purpose."""
    found = inspect.getmembers(implementation, inspect.isclass)
    return {name: cls for name, cls in found if issubclass(cls, BaseException)}


def test_every_class_is_there_and_on_the_page() -> None:
    assert sorted(errors.__all__) == errors.__all__
    assert {name: getattr(errors, name) for name in errors.__all__} == classes()
    assert [name for name in errors.__all__ if name not in PAGE or name not in (errors.__doc__ or "")] == []


@pytest.mark.parametrize("name", errors.__all__)
def test_tracebacks_name_the_public_place(name: str) -> None:
    cls = getattr(errors, name)
    assert cls.__module__ == "legato.errors"
    assert type(pickle.loads(pickle.dumps(cls("said")))) is cls


def test_the_module_is_an_attribute_of_the_package() -> None:
    code = "import legato; print(legato.errors.CompileError.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("CompileError\n", "")
    with pytest.raises(legato.errors.ParseError):
        legato.parse("def")
