"""A program of a user's: it passes mypy --strict, and what its comments ignore is an error there. It is not run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import legato
from legato.bench import bench
from legato.errors import CompileError, RunError


def build(path: Path) -> None:
    """Compiles, looks, saves, loads."""
    exe = legato.compile(path, shapes={"x": ("n", 3), "n": [1, 8, "1..64"]}, threads=2, precision="fast")
    print(exe.peak_memory, exe.peak_memory(n=8), [str(t) for t in exe.inputs], exe.stats["kernels"])
    exe.save(path.with_suffix(".legato"))
    legato.compile(path, thread=2)  # type: ignore[call-overload]
    legato.compile(path, threads="2")  # type: ignore[call-overload]


def call(path: str) -> float:
    """Calls with arrays in their order, and by name."""
    exe = legato.load(path, threads=1)
    x = np.ones((2, 3), np.float32)
    y = exe(x)
    a, b = exe(x, 3)
    exe.run([x])  # type: ignore[arg-type]
    exe.runs({"x": x})  # type: ignore[attr-defined]
    out = np.empty((2, 3), np.float32)
    try:
        named = exe.run({"x": x, "n": 4}, out={"y": out}, donate=["x"])
    except RunError as error:
        print(error)
        raise
    return float(named["y"].sum() + y.mean() + a[0] + b)


def judge(path: Path) -> bool:
    """Verifies and measures."""
    try:
        report = legato.verify(path, {"x": np.ones(3)}, passes=["default"], bisect=True)
    except CompileError as error:
        print(error.message, error.hint, error.span and error.span.line)
        return False
    legato.verify(path, passe="default")  # type: ignore[call-arg]
    result = bench(path, vs=["onnxruntime"], rounds=3)
    print(result.ratios["onnxruntime"].median, report.outputs[0].error, report.culprit)
    return report.holds and bool(report)


def show(text: str) -> str:
    """Parses, and gives the text of a stage."""
    module = legato.parse(text)
    exe = legato.compile(module, keep=["fuse"], passes=["default"])
    return exe.module_after("fuse") + str(module)
