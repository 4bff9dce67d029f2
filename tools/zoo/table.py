"""The table of architectures: what each row of `table.toml` says.

A section is the name of a package, and a family within it; `default` has what its rows do not say themselves:

    make: a constructor of the package, by the name of the row where it is not said
    args: its arguments; of transformers, the fields of the configuration
    inputs: their shapes by name, in the order of the module's parameters; before a shape, "int64" where they are ids
    parts: of a model, the modules that are run one after the other; all of it where there are none
    exporter: of PyTorch's two for ONNX, "torchscript" or "dynamo", the one that can
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

__all__ = ["SEED", "TABLE", "Architecture", "Array", "Input", "feeds"]

Array = np.ndarray[Any, Any]
SEED: Final = 0  # of weights and inputs
FILE: Final = Path(__file__).with_name("table.toml")
EXPORTERS: Final = ("torchscript", "dynamo")
PACKAGES: Final = ("torchvision", "timm", "transformers")


@dataclass(frozen=True, slots=True)
class Input:
    """The element type and the shape of an input."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Architecture:
    """A row of the table."""

    name: str
    package: str
    family: str
    make: str
    inputs: Mapping[str, Input]
    args: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    exporter: str = "torchscript"


def _input(told: list[Any]) -> Input:
    dtype = told[0] if isinstance(told[0], str) else "float32"
    return Input(dtype, tuple(int(n) for n in told if not isinstance(n, str)))


def _row(name: str, package: str, family: str, told: Mapping[str, Any]) -> Architecture:
    given: dict[str, Any] = {"make": name, **told}
    inputs = {key: _input(value) for key, value in given.pop("inputs").items()}
    parts = tuple(given.pop("parts", ()))
    row = Architecture(name, package, family, inputs=inputs, parts=parts, **given)
    if package not in PACKAGES or row.exporter not in EXPORTERS:
        raise ValueError(f"{FILE.name}: {package}.{family}.{name}: packages are {PACKAGES}, exporters {EXPORTERS}")
    return row


def _rows(text: str) -> Iterator[Architecture]:
    for package, families in tomllib.loads(text).items():
        for family, rows in families.items():
            default = rows.pop("default", {})
            for name, told in rows.items():
                args = {**default.get("args", {}), **told.get("args", {})}
                yield _row(name, package, family, {**default, **told, "args": args})


def _read() -> dict[str, Architecture]:
    found: dict[str, Architecture] = {}
    for row in _rows(FILE.read_text("utf-8")):
        if row.name in found:
            raise ValueError(f"{FILE.name}: two rows are named {row.name}")
        found[row.name] = row
    return found


TABLE: Final[Mapping[str, Architecture]] = _read()


def feeds(inputs: Mapping[str, Input]) -> dict[str, Array]:
    """Seeded values: ids below 100, masks of ones, normally distributed numbers."""
    rng = np.random.default_rng(SEED)
    found: dict[str, Array] = {}
    for name, of in inputs.items():
        if name == "attention_mask":
            found[name] = np.ones(of.shape, of.dtype)
        elif of.dtype == "int64":
            found[name] = rng.integers(2, 100, of.shape)
        else:
            found[name] = rng.standard_normal(of.shape).astype(of.dtype)
    return found
