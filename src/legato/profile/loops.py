"""Loops that do one thing as fast as generated code can: what a machine's peaks are measured with."""

from __future__ import annotations

import statistics
import time
from typing import Final

import numpy as np

from legato.base import dtype as dt
from legato.base.target import Target
from legato.codegen.compile import compile_object
from legato.codegen.emit import emit_module
from legato.codegen.link import link
from legato.runtime.executable import Executable
from legato.runtime.program import FunctionInfo, Program, TensorInfo
from legato.tir.intrinsics import INTRINSICS
from legato.tir.parser import parse_func

__all__ = ["aligned", "call_rate", "multiply_add_rate", "read_rate", "return_rate"]

RUNS: Final = 8  # at least
SECONDS: Final = 0.03  # of all runs, at least: on a busy machine it takes some until all threads have a core each
MULTIPLY_ADDS: Final = 1 << 18  # of each accumulator
CALLS: Final = 1 << 13
RETURNS: Final = 15  # how often memory is come back to
ACCUMULATORS: Final = 12  # latency times throughput of multiply-adds is 8 to 10 on current cores
CALL_ACCUMULATORS: Final = 4  # the operations of one call already overlap
UNROLL: Final = 8


def multiply_add_rate(target: Target) -> float:
    """Multiply-adds of float32 per second, of one thread, in registers."""
    step = "fma(acc[a, l], c[l], d[l])" if target.fma else "acc[a, l] * c[l] + d[l]"
    return _register_rate(target, step, ACCUMULATORS, MULTIPLY_ADDS)


def call_rate(target: Target, name: str) -> float:
    """Values of the intrinsic `name` (its results are float32) per second, of one thread."""
    record = INTRINSICS[name]
    arguments = ", ".join(["acc[a, l]"] + ["c[l]"] * (record.arity - 1))
    if record.operands[1:] == (dt.uint32, dt.uint32):  # pairs of bfloat16
        return _register_rate(target, f"{name}({arguments})", ACCUMULATORS, MULTIPLY_ADDS, "uint32")
    step = f"{name}({arguments}) * c[l] + d[l]"  # stays near 1, where no intrinsic is slow
    return _register_rate(target, step, CALL_ACCUMULATORS, CALLS)


def _register_rate(target: Target, step: str, sums: int, count: int, kind: str = "float32") -> float:
    lanes = target.lanes(dt.float32)
    value = "y[p, l]" if kind == "float32" else "pair(bfloat16(y[p, l]), bfloat16(y[p, l]))"
    loops = f"""
      c[l] = {value};
      d[l] = {value};
      for i in 0..{count} {{
        unroll a in 0..{sums} {{
          acc[a, l] = {step};
        }}
      }}"""
    seconds = _seconds(loops, sums, target, aligned(1, lanes), kind)
    return count * sums * lanes / seconds


def read_rate(target: Target, values: np.ndarray, size: int, total: int) -> float:
    """Bytes per second when each thread reads the first `size` bytes of its row of `values` (float32[threads, n]) again
    and again, at least once and `total` bytes in all."""
    block = 4 * UNROLL * target.lanes(dt.float32)
    blocks = size // block
    times = max(1, total // (blocks * block))
    return times * blocks * block * len(values) / _seconds(_reading(target, times, blocks), UNROLL, target, values)


def return_rate(target: Target, values: np.ndarray, size: int, period: float) -> float:
    """Bytes per second when each thread reads the first `size` bytes of its row of `values` once in `period` seconds,
    and nothing between: the median. Others who share the cache take its place meanwhile."""
    block = 4 * UNROLL * target.lanes(dt.float32)
    blocks = max(1, size // block)
    exe = _program(_reading(target, 1, blocks), UNROLL, target, values.shape, "float32")
    taken: list[float] = []
    for _ in range(RETURNS + 1):
        end = time.perf_counter() + period
        taken.append(_timed(exe, values))
        while time.perf_counter() < end:
            pass
    return blocks * block * len(values) / statistics.median(taken[1:])


def _reading(target: Target, times: int, blocks: int) -> str:
    """Loops that read so many blocks of `UNROLL` vectors, so many times."""
    lanes = target.lanes(dt.float32)
    return f"""
      for i in 0..{times} {{
        for j in 0..{blocks} {{
          unroll a in 0..{UNROLL} {{
            acc[a, l] = acc[a, l] + y[p, j * {UNROLL * lanes} + (a * {lanes} + l)];
          }}
        }}
      }}"""


def _seconds(loops: str, sums: int, target: Target, values: np.ndarray, kind: str = "float32") -> float:
    """How long `loops`, which read y and change acc, take at best; every thread runs them on its row of `values`."""
    exe = _program(loops, sums, target, values.shape, kind)
    taken: list[float] = []
    while len(taken) < RUNS or sum(taken) < SECONDS:
        taken.append(_timed(exe, values))
    return min(taken)


def _program(loops: str, sums: int, target: Target, shape: tuple[int, ...], kind: str) -> Executable:
    """A program whose threads run `loops`, each on its row of an input of that shape."""
    threads, length = shape
    lanes = target.lanes(dt.float32)
    params = f"y: Buffer[({threads}, {length}), float32], x: Buffer[({threads}, {lanes}), float32]"
    kernel = f"""
kernel @work({params}) {{
  parallel p in 0..{threads} {{
    alloc acc: Buffer[({sums}, {lanes}), float32, scope=register];
    alloc c: Buffer[({lanes},), {kind}, scope=register];
    alloc d: Buffer[({lanes},), {kind}, scope=register];
    vector l: index[0..{lanes - 1}] in 0..{lanes} {{
      unroll z in 0..{sums} {{
        acc[z, l] = y[p, l];
      }}{loops}
      x[p, l] = 0f;
      unroll s in 0..{sums} {{
        x[p, l] = x[p, l] + acc[s, l];
      }}
    }}
  }}
}}"""
    host = f"host @main({params}) {{ launch @work(y, x); }}"
    text = emit_module([parse_func(kernel), parse_func(host)], target, {})
    image = link([compile_object(text, target)], ["main"])
    inputs = (TensorInfo("y", "float32", (threads, length)),)
    outputs = (TensorInfo("x", "float32", (threads, lanes)),)
    main = FunctionInfo(image.exports["main"], inputs, outputs, 0, (), (("input", 0), ("output", 0)))
    program = Program(target.name, {"main": main})
    return Executable.from_parts(program, image.data, image.code_size, image.relocations, [], threads=threads)


def aligned(threads: int, floats: int) -> np.ndarray:
    """A row of at least so many floats for each thread, all of them 0.5, rows at multiples of 64 bytes."""
    length = -(-floats // 16) * 16
    memory = np.full(threads * length + 16, 0.5, np.float32)
    start = -(memory.ctypes.data // 4) % 16
    return memory[start : start + threads * length].reshape(threads, length)


def _timed(exe: Executable, values: np.ndarray) -> float:
    start = time.perf_counter()
    exe(values)
    return time.perf_counter() - start
