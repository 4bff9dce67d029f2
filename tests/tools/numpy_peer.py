"""A framework for tests of `tools.bench.peers`: NumPy, which knows products and sums; `fail` refuses, `end` ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from tools.bench.peers.graph import read
from tools.bench.peers.serve import Arrays, Refused, Run, serve

OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "Gemm": lambda attrs, a, b, c: a @ (b.T if attrs["transB"] else b) + c,
    "Relu": lambda attrs, x: np.maximum(x, 0),
}


def make(folder: Path, inputs: Arrays, threads: int, option: str) -> tuple[str, Run]:
    """NumPy's version with the threads, and the call."""
    print("frameworks write to standard output")
    if option == "fail":
        raise Refused("two lines,\nof which the last says why")
    if option == "end":
        os._exit(3)
    graph = read(folder)

    def call() -> list[np.ndarray[Any, Any]]:
        values: dict[str, Any] = {**graph.weights, **inputs}
        for node in graph.nodes:
            values[node.outputs[0]] = OPERATORS[node.op](node.attrs, *(values[name] for name in node.inputs))
        return [values[name] for name in graph.outputs]

    return f"{np.__version__} on {threads}", call


if __name__ == "__main__":
    serve(make)
