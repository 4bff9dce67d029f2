"""Programs written in C, linked into the kind of image that code generation makes, and executables of them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from legato.runtime import DimInfo, Executable, FunctionInfo, HostOpInfo, Program, TensorInfo
from legato.runtime.workspace import HostRunner

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "src/legato/runtime/native"
SCRIPT = """
SECTIONS {
  . = 0;
  .text : { *(.text .text.*) }
  . = ALIGN(4096);
  .rodata : { *(.rodata .rodata.* .data .data.*) }
  /DISCARD/ : { *(.comment) *(.note*) *(.eh_frame*) }
}
"""
FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-fno-builtin"]


@dataclass(frozen=True, slots=True)
class Image:
    """What a linker gives: bytes, how many are code, relocations, and where functions begin."""

    data: bytes
    code_size: int
    relocations: tuple[int, ...]
    exports: dict[str, int]


def _tool(*command: object) -> str:
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


@cache
def image() -> Image:
    """The image of programs.c."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script").write_text(SCRIPT)
        _tool("cc", "-c", *FLAGS, "-I", NATIVE, "-o", folder / "p.o", HERE / "programs.c")
        _tool("ld", "-shared", "-T", folder / "script", "-o", folder / "p.so", folder / "p.o")
        _tool("objcopy", "-O", "binary", folder / "p.so", folder / "p.bin")
        data = bytearray((folder / "p.bin").read_bytes())
        relocations = []
        for line in _tool("readelf", "-rW", folder / "p.so").splitlines():
            fields = line.split()
            if "R_X86_64_RELATIVE" in fields:
                place, value = int(fields[0], 16), int(fields[-1], 16)
                data[place : place + 8] = value.to_bytes(8, "little")
                relocations.append(place)
        symbols = [line.split() for line in _tool("nm", folder / "p.so").splitlines()]
    exports = {name: int(value, 16) for value, kind, name in symbols if kind.lower() == "t"}
    return Image(bytes(data), 4096, tuple(relocations), exports)


def tensor(name: str, dtype: str, *shape: object) -> TensorInfo:
    return TensorInfo(name, dtype, shape)  # type: ignore[arg-type]


def function(
    name: str,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    dims: Sequence[DimInfo | str] = (),
    **more: object,
) -> FunctionInfo:
    """Entry point `name` of programs.c: the words are inputs, outputs, dims."""
    infos = tuple(DimInfo(d) if isinstance(d, str) else d for d in dims)
    words = [("input", i) for i in range(len(inputs))] + [("output", i) for i in range(len(outputs))]
    return FunctionInfo(
        offset=image().exports[name],
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        structure=0 if len(outputs) == 1 else tuple(range(len(outputs))),
        dims=infos,
        words=(*words, *(("dim", d.name) for d in infos)),
        **more,  # type: ignore[arg-type]
    )


def functions() -> dict[str, FunctionInfo]:
    """The entry points that most tests need."""
    x, y = tensor("x", "float32", "n"), tensor("y", "float32", "n")
    matrix = tensor("x", "float32", "n", "m")
    runs = tensor("x", "uint8", "n", "launches")
    pair, one = tensor("x", "int64", 2), tensor("y", "int64", 1)
    return {
        "main": function("scale", [x], [y], ["n"]),
        "row_sum": function("row_sum", [matrix], [y], ["n", "m"]),
        "count": function("count", [runs], [tensor("y", "int64", "n")], ["n", "launches"]),
        "team": function("team", [one_of("x")], [tensor("y", "int64", 3)]),
        "meet": function("meet", [cells("x")], [cells("y"), tensor("threads", "int64", 1)], ["n"]),
        "forever": function("forever", [one_of("x")], [one]),
        "nest": function("nest", [pair], [one]),
        "check": function("check", [x], [y], ["n"]),
        "by_host": function("by_host", [x], [y], ["n"]),
        "launch_then_host": function("launch_then_host", [x], [y], ["n"]),
        "table": function("table", [one_of("x")], [one]),
        "nonsense": function("nonsense", [one_of("x")], [one]),
    }  # fmt: skip


def cells(name: str) -> TensorInfo:
    return tensor(name, "uint32", 2, "n")


def one_of(name: str) -> TensorInfo:
    return tensor(name, "int64", 1)


def program(**more: object) -> Program:
    """A program of all entry points; any field may be given."""
    x, y = tensor("x", "float32", "n"), tensor("y", "float32", "n")
    fields: dict[str, object] = {
        "target": "x86-64-v2",
        "functions": functions(),
        "checks": ("x is negative at index 0", "frames were overwritten"),
        "host_ops": (HostOpInfo("twice", "{}", (x,), (y,), ("n",)),),
        "stats": {"kernels": 6},
        "source": "def @main(%x: Tensor[(n), float32]) { … }\n",
        "stages": {"fuse": "fused"},
    }
    return Program(**(fields | more))  # type: ignore[arg-type]


def twice(info: HostOpInfo, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    assert info.op == "twice"
    return [inputs[0] * np.float32(2)]


def executable(
    name: str = "main",
    *,
    threads: int | None = 2,
    memory_limit: int = 0,
    scale: float = 3,
    host_ops: HostRunner | None = twice,
    of: Program | None = None,
) -> Executable:
    """Entry point `name` of programs.c; `scale` is the first constant."""
    constants = [("w", np.array([scale], np.float32)), ("other", np.arange(1000, dtype=np.int64))]
    made = image()
    return Executable.from_parts(
        of or program(), made.data, made.code_size, made.relocations, constants,
        function=name, threads=threads, memory_limit=memory_limit, host_ops=host_ops,
    )  # fmt: skip
