"""A model in TVM, from its ONNX file by way of Relax, with the passes that it has by default and without tuning."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ["TVM_NUM_THREADS"] = sys.argv[2]  # which is read when TVM is imported

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from tools.bench.peers.graph import ONNX
from tools.bench.peers.serve import Arrays, Run, serve


def make(folder: Path, inputs: Arrays, threads: int, option: str) -> tuple[str, Run]:
    """TVM's version, and the call."""
    model = onnx.load(folder / ONNX)
    module = from_onnx(model, keep_params_in_input=False)
    processor = tvm.target.codegen.llvm_get_system_cpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": processor, "num-cores": threads})
    machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
    given = [tvm.runtime.tensor(inputs[value.name]) for value in model.graph.input if value.name in inputs]

    def call() -> list[np.ndarray[Any, Any]]:
        found = machine["main"](*given)
        return [part.numpy() for part in (found if len(model.graph.output) > 1 else [found])]

    return tvm.__version__, call


if __name__ == "__main__":
    serve(make)
