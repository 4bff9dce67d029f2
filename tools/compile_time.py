"""How long it takes to compile: models in fresh processes, and how the time grows with the depth of a network.

    python -m tools.compile_time [MODEL.onnx …] [--runs 3] [--layers 500,2000,8000] [--families 100,400]

For each model, the least of some runs: with an empty kernel cache, with a full one, and loading the artifact; imports
are part of each. Then networks of 3×3 convolutions with residual connections, without the kernel cache: CPU time per
layer, which must not grow with their number. With --families, programs that have many of something (`tools.families`):
CPU time for each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from legato import parse
from legato.base import dtype as dt
from legato.base.target import target
from legato.bench.startup import compile_twice, load_seconds
from legato.driver import CompileOptions, compile_module
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.expr import Function, Var, constant
from legato.ir.module import Module
from legato.ir.types import tensor_type
from tools.families import FAMILIES


def startup(model: Path, runs: int) -> tuple[float, float, float]:
    """Seconds of compiling `model` cold and from the cache, and of loading the artifact: the least of `runs`."""
    found = []
    for _ in range(runs):
        with TemporaryDirectory() as folder:
            output = Path(folder) / "a.legato"
            cold, cached = compile_twice(model, output, Path(folder) / "cache", shapes=None, target="host")
            found.append((cold, cached, min(load_seconds(output) for _ in range(3))))
    cold, cached, load = (min(column) for column in zip(*found, strict=True))
    return cold, cached, load


def network(layers: int, channels: int = 16) -> Module:
    """x = x + relu(conv2d(x, w)), `layers` times, with weights of their own."""
    random, b = np.random.default_rng(0), Builder()
    x = Var("x", ty=tensor_type((1, channels, 8, 8), dt.float32))
    at: Any = x
    for _ in range(layers):
        weight = constant(random.standard_normal((channels, channels, 3, 3), np.float32) * np.float32(0.05))
        conv = b.call("nn.conv2d", at, weight, channels=channels, kernel_size=(3, 3), padding=(1, 1, 1, 1))
        at = b.call("add", at, b.call("nn.relu", conv))
    return infer(Module.from_expr(Function((x,), at)))


def per_layer(layers: int) -> str:
    """A line: milliseconds of CPU time per layer, in all and by stage. Run in a process without a kernel cache."""
    module = network(layers)
    start = time.process_time()
    done = compile_module(module, CompileOptions(target("host")))
    total = (time.process_time() - start) / layers * 1e3
    stages = ", ".join(f"{name} {seconds / layers * 1e3:.2f}" for name, seconds in done.seconds.items())
    return f"{layers:6d} layers  {total:5.2f} ms per layer  ({stages})"


def per_member(family: str, size: int) -> str:
    """A line: seconds of CPU time for a program of a family. Run in a process without a kernel cache."""
    module = parse(FAMILIES[family](size))
    start = time.process_time()
    compile_module(module, CompileOptions(target("host")))
    return f"{family:45s} {size:6d}  {time.process_time() - start:6.2f} s"


def fresh(call: str) -> None:
    """Prints what a call of a function of this module gives, in a process of its own without a kernel cache."""
    code = f"from tools import compile_time; print(compile_time.{call})"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "LEGATO_CACHE_BYTES": "0"})


def main(given: Sequence[str] | None = None) -> None:
    """Prints a line per model and per network."""
    parser = argparse.ArgumentParser(prog="python -m tools.compile_time", description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--layers", default="500,2000,8000")
    parser.add_argument("--families", default="", help="sizes, as in 100,400")
    args = parser.parse_args(given)
    for model in args.models:
        cold, cached, load = startup(model, args.runs)
        print(f"{model.stem:24s} cold {cold:.2f} s   cached {cached:.2f} s   load {load:.3f} s", flush=True)
    for layers in filter(None, args.layers.split(",")):
        fresh(f"per_layer({int(layers)})")
    for family in FAMILIES:
        for size in filter(None, args.families.split(",")):
            fresh(f"per_member({family!r}, {int(size)})")


if __name__ == "__main__":
    main()
