"""A program on the machine that it was sent to: called once, or measured. Runtime alone: nothing of a compiler is
there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from legato.base.codes import restored
from legato.base.dtype import dtype
from legato.base.errors import LegatoError, RunError
from legato.remote.arrays import pack, unpack
from legato.runtime.datatypes import ObjectInfo
from legato.runtime.executable import Executable, load
from legato.runtime.fill import feeds
from legato.runtime.timing import block_of, rest

__all__ = ["answer"]

Receive = Callable[[], bytes]
Send = Callable[[Any], None]


def answer(job: Mapping[str, Any], path: str, receive: Receive, send: Send) -> None:
    """Does the job with the artifact at `path`. Sent are {"told": …} on the way, then {"error": …}, or {"done": …} and,
    of a call, the outputs."""
    try:
        given = unpack(receive()) if job["given"] is not None else None
        send({"told": "loading"})
        start = time.perf_counter()
        exe = load(path, threads=job["threads"], mapped=True)
        mapped = time.perf_counter() - start
        _require_native(exe)
        arrays = list(given.values()) if given is not None and job["given"] == "in order" else given
        info = exe.program.functions[exe.function]
        inputs = feeds(info, arrays, job["fill"] or "random", dims=job["dims"], seed=job["seed"])
        inputs = {leaf.name: restored(inputs[leaf.name], dtype(leaf.dtype)) for leaf in info.inputs}
        shapes = [f"{name}: {dtype(array.dtype)}{list(array.shape)}" for name, array in inputs.items()]
        facts = {"threads": exe.threads, "mapped": mapped, "inputs": shapes}
        if job["rounds"]:
            send({"done": {**facts, "blocks": _measured(exe, inputs, job, send)}})
            return
        send({"told": "running"})
        start = time.perf_counter()
        outputs = exe.run(inputs)
        packed = pack(outputs)
        send({"done": {**facts, "seconds": time.perf_counter() - start}})
        send(packed)
    except LegatoError as error:
        send({"error": {"kind": type(error).__name__, "message": str(error)}})


def _require_native(exe: Executable) -> None:
    """RunError where the program needs more than was sent along, or gives what cannot be sent back."""
    info = exe.program.functions[exe.function]
    needs = [op.op for op in exe.program.host_ops]
    if needs:
        what = f"the program calls {', '.join(dict.fromkeys(needs))}, which Python runs: that is not sent along"
        raise RunError(f"{what}\n  hint: install Legato there, and run it there")
    if info.objects or any(isinstance(result, ObjectInfo) for result in exe.results):
        raise RunError("the program takes or gives values of data types: only arrays are sent")


def _measured(exe: Executable, inputs: Mapping[str, Any], job: Mapping[str, Any], send: Send) -> list[list[float]]:
    """The seconds of each call, in blocks."""
    kept = exe.keeping()
    values = [inputs[leaf.name] for leaf in exe.arguments]
    blocks = []
    for number in range(1, job["rounds"] + 1):
        rest()
        blocks.append(list(block_of(lambda: kept(*values), job["block"])))
        send({"told": f"measuring, round {number} of {job['rounds']}"})
    return blocks
