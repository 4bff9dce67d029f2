"""The graph of a compiled program's kernels as JSON, in the form that TVM's graph executor read.

Programs are native code, which this describes: nobody runs it. Nodes are the inputs, then the steps of @main as the
passes leave it: a kernel each, or a call of a function, a branch, a match. Each value has a storage of its own: the
memory plan is part of the code. Dims that are no numbers are text; values that are no tensors have their type for a
dtype, and no dims.
"""

from __future__ import annotations

import json
from typing import Any

from legato.arith.expr import Const
from legato.compare.tensors import Step, Tensor, flow, kept_values
from legato.driver import CompileOptions, main_function
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.lower.signature import input_types
from legato.transform.pass_ import Observer, run

__all__ = ["graph_json"]


def graph_json(mod: Module, options: CompileOptions) -> str:
    """The graph of `mod`, compiled with these options, as JSON."""
    main = main_function(run(mod, kept_values(options), Observer()))
    steps, results = flow(main)
    inputs = [Tensor(name, ty) for name, ty in input_types(main)]
    nodes: list[dict[str, Any]] = [{"op": "null", "name": t.name, "inputs": []} for t in inputs]
    entries = {t.name: [n, 0, 0] for n, t in enumerate(inputs)}
    values = list(inputs)
    rows = [*range(len(inputs) + 1)]
    for step in [*steps, *_constants(results, entries, steps)]:
        taken = [entries[t.name] for t in step.inputs]
        entries |= {t.name: [len(nodes), k, 0] for k, t in enumerate(step.outputs)}
        nodes.append({"op": "tvm_op", "name": step.name, "attrs": _attrs(step), "inputs": taken})
        values += step.outputs
        rows.append(rows[-1] + len(step.outputs))
    graph = {
        "nodes": nodes,
        "arg_nodes": list(range(len(inputs))),
        "heads": [entries[t.name] for t in results],
        "attrs": {
            "dltype": ["list_str", [_dtype(t) for t in values]],
            "device_index": ["list_int", [1] * len(values)],
            "storage_id": ["list_int", list(range(len(values)))],
            "shape": ["list_shape", [_shape(t) for t in values]],
        },
        "node_row_ptr": rows,
    }
    return json.dumps(graph, indent=2)


def _attrs(step: Step) -> dict[str, str]:
    name = "_".join(["fused", *(op.replace(".", "_").lstrip("@") for op in step.operators)])
    return {
        "func_name": name,
        "flatten_data": "0",
        "num_inputs": str(len(step.inputs)),
        "num_outputs": str(len(step.outputs)),
        "hash": step.name,
    }


def _constants(results: list[Tensor], entries: dict[str, list[int]], steps: list[Step]) -> list[Step]:
    """A step for each constant that the program gives back."""
    known = {*entries, *(t.name for step in steps for t in step.outputs)}
    made = {t.name: t for t in results if t.name not in known}
    return [Step(name, ("constant",), (), (t,), "", None) for name, t in made.items()]


def _dtype(tensor: Tensor) -> str:
    return tensor.type.dtype.name if isinstance(tensor.type, TensorType) else str(tensor.type)


def _shape(tensor: Tensor) -> list[int | str]:
    if not isinstance(tensor.type, TensorType):
        return []
    return [int(d.value) if isinstance(d, Const) else str(d) for d in tensor.type.shape]
