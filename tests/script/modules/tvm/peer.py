"""Runs modules in TVM, in an environment that has apache-tvm and nothing of Legato.

    python peer.py FOLDER

FOLDER has, for each case, `NAME.py`, a script, and `NAME.json`: for each run, the arguments of `main`, as `encoded`
writes them. A process of its own, for each case, leaves `NAME.out.json`: the results of each run, or an error.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 60  # for one case
SEEN: list[Any] = []  # what `test.note` was given


def _fill(x: Any, y: Any, out: Any) -> None:
    np.add(x, y * 2, out=out)


def _note(x: Any) -> Any:
    SEEN.append(x.copy())
    return np.array(len(SEEN), np.int64)


# Packed functions that cases may call: of arrays.
PACKED: dict[str, Any] = {"test.fill": _fill, "test.reversed": lambda x: x[::-1].copy(), "test.note": _note}


class Extents(tuple):
    """A shape as a value."""


def encoded(value: Any) -> Any:
    """A value as JSON: an array has its dtype, shape and numbers (exactly), a tuple its fields."""
    if isinstance(value, Extents):
        return {"extents": list(value)}
    if isinstance(value, tuple | list):
        return [encoded(v) for v in value]
    array = np.asarray(value)
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": array.astype(_json(array)).ravel().tolist()}


def decoded(given: Any) -> Any:
    """What was encoded."""
    if isinstance(given, list):
        return tuple(decoded(v) for v in given)
    if "extents" in given:
        return Extents(given["extents"])
    return np.array(given["data"], given["dtype"]).reshape(given["shape"])


def _json(array: Any) -> Any:
    return np.float64 if array.dtype.kind == "f" else array.dtype


def run(script: str, runs: list[Any]) -> list[Any]:
    """The results of `main` in TVM, for the arguments of each run."""
    import tvm
    from tvm import relax
    from tvm.script import from_source

    for name, function in PACKED.items():
        tvm.register_global_func(name, _wrapped(function), override=True)
    module = from_source(script)
    module = relax.transform.LambdaLift()(module)  # which TVM's pipeline leaves to its user
    vm = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    return [encoded(_back(vm["main"](*(_there(decoded(a)) for a in args)))) for args in runs]


def _wrapped(function: Any) -> Any:
    """A packed function of TVM's tensors: what it stores to its arguments goes back to them."""

    def called(*args: Any) -> Any:
        import tvm

        arrays = [np.array(a.numpy()) for a in args]
        result = function(*arrays)
        for a, array in zip(args, arrays, strict=True):
            a.copyfrom(array)
        return None if result is None else tvm.runtime.tensor(result)

    return called


def _there(value: Any) -> Any:
    import tvm

    if isinstance(value, Extents):
        return tvm.runtime.ShapeTuple(value)
    if isinstance(value, tuple):
        return [_there(v) for v in value]
    return tvm.runtime.tensor(value)


def _back(value: Any) -> Any:
    import tvm

    if isinstance(value, tvm.runtime.Tensor):
        return value.numpy()
    if isinstance(value, tvm.runtime.ShapeTuple):
        return [np.asarray(v) for v in value]
    if isinstance(value, int | float):
        return np.asarray(value)
    return [_back(v) for v in value]


def main(folder: Path) -> None:
    """All cases of a folder."""
    import tvm  # once, for all processes  # noqa: F401

    for path in sorted(folder.glob("*.py")):
        child = os.fork()
        if child == 0:
            _one(path)
        os.waitpid(child, 0)


def _one(path: Path) -> None:
    import signal

    signal.alarm(SECONDS)
    out = path.with_suffix(".out.json")
    out.write_text(json.dumps({"error": "the process ended"}))
    try:
        found = {"runs": run(path.read_text(), json.loads(path.with_suffix(".json").read_text()))}
    except BaseException as error:
        text = str(error).strip() or traceback.format_exc()
        found = {"error": f"{type(error).__name__}: {text}"}
    out.write_text(json.dumps(found))
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
