"""Loops that do one thing as fast as generated code can: what a machine's peaks are measured with."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import cycle
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

__all__ = ["Rate", "aligned", "call_rate", "multiply_add_rate", "read_rate", "return_rate", "step_rate"]

SECONDS: Final = 0.002  # of the short runs of a sample together: the first finds nothing of its own in the caches
MULTIPLY_ADDS: Final = 1 << 18  # of each accumulator
CALLS: Final = 1 << 13
ACCUMULATORS: Final = 12  # latency times throughput of multiply-adds is 8 to 10 on current cores
PAIRS: Final = 7  # of a product and a sum, whose latencies are 3 or 4, in 15 of 16 registers
CALL_ACCUMULATORS: Final = 4  # the operations of one call already overlap
RETURNS: Final = 4  # how often memory is come back to until L3 keeps it: it does not keep all that comes by once
LONGEST: Final = 0.05  # seconds from one return to the next
UNROLL: Final = 8
AHEAD: Final = 4096  # bytes; how far ahead memory is fetched
SMALLEST: Final = 4096  # bytes of a part of memory that is read: a page, and no less than a block
PIECE: Final = 32 << 10  # bytes that are read forwards where reading goes backwards: what the first cache holds


class Rate:
    """How much of something loops do per second: `amount` each time that `exe` runs on one of `places`, of which each
    sample takes the next.

    period: seconds between the runs of a sample, of which the last counts (no more than LONGEST, so that it ends soon);
    0: short runs, of which the best counts.
    """

    def __init__(self, exe: Executable, places: Iterable[np.ndarray], amount: float, period: float = 0.0) -> None:
        self.exe, self.places, self.amount, self.period = exe, cycle(places), amount, min(period, LONGEST)

    def sample(self) -> float:
        """The rate now."""
        values = next(self.places)
        if not self.period:
            found = [self._once(values)]
            while sum(self.amount / rate for rate in found) < SECONDS:
                found.append(self._once(values))
            return max(found)
        for _ in range(RETURNS):
            end = time.perf_counter() + self.period
            self.exe(values)
            while time.perf_counter() < end:
                pass
        return self._once(values)

    def _once(self, values: np.ndarray) -> float:
        start = time.perf_counter()
        self.exe(values)
        return self.amount / (time.perf_counter() - start)


def multiply_add_rate(target: Target) -> Rate:
    """Multiply-adds of float32 per second, of one thread, in registers. Without fused ones, a product and a sum that do
    not wait for each other: one after the other they have twice the latency, and registers do not suffice for that."""
    if target.fma:
        return _register_rate(target, "acc[a, l] = fma(acc[a, l], c[l], d[l]);", ACCUMULATORS, MULTIPLY_ADDS)
    step = f"acc[a, l] = acc[a, l] + c[l]; acc[a + {PAIRS}, l] = acc[a + {PAIRS}, l] * c[l];"
    return _register_rate(target, step, PAIRS, MULTIPLY_ADDS, each=2, value=1.0)


def call_rate(target: Target, name: str) -> Rate:
    """Values of the intrinsic `name` (its results are float32) per second, of one thread."""
    record = INTRINSICS[name]
    arguments = ", ".join(["acc[a, l]"] + ["c[l]"] * (record.arity - 1))
    if record.operands[1:] == (dt.uint32, dt.uint32):  # pairs of bfloat16
        return _register_rate(target, f"acc[a, l] = {name}({arguments});", ACCUMULATORS, MULTIPLY_ADDS, "uint32")
    step = f"acc[a, l] = {name}({arguments}) * c[l] + d[l];"  # stays near 1, where no intrinsic is slow
    return _register_rate(target, step, CALL_ACCUMULATORS, CALLS)


def _register_rate(
    target: Target, step: str, steps: int, count: int, kind: str = "float32", *, each: int = 1, value: float = 0.5
) -> Rate:
    """`count` times so many steps per second, each with accumulators of its own; all registers are `value` at first."""
    lanes = target.lanes(dt.float32)
    start = "y[p, l]" if kind == "float32" else "pair(bfloat16(y[p, l]), bfloat16(y[p, l]))"
    loops = f"""
      c[l] = {start};
      d[l] = {start};
      for i in 0..{count} {{
        unroll a in 0..{steps} {{
          {step}
        }}
      }}"""
    values = aligned(1, lanes, value)
    return Rate(_program(loops, each * steps, target, values.shape, kind), [values], count * steps * lanes)


def read_rate(target: Target, values: np.ndarray, size: int, total: int, *, ahead: bool = False) -> Rate:
    """Bytes per second when each thread reads the first `size` bytes of its row of `values` (float32[threads, n]) again
    and again, at least once and `total` bytes in all; each sample another part of the row, if it is long enough, since
    how much of it a cache keeps depends on the pages that it happens to lie on. ahead: ask for what comes next."""
    return _read_rate(target, _parts(values, size), size, max(1, total // size), AHEAD if ahead else 0)


def step_rate(target: Target, values: np.ndarray, size: int, total: int) -> Rate:
    """As `read_rate`, from the first to the last and back, as kernels do where steps read the same again: a cache that
    is a little too small still has what was read last."""
    return _read_rate(target, _parts(values, size), size, max(2, total // size), 0, back=True)


def return_rate(target: Target, values: np.ndarray, size: int, period: float) -> Rate:
    """Bytes per second when each thread reads the first `size` bytes of its row of `values` once in `period` seconds,
    and nothing between. Others who share the cache take its place meanwhile."""
    return _read_rate(target, values[None], size, 1, AHEAD, period)


def _parts(values: np.ndarray, size: int) -> np.ndarray:
    """float32[threads, n] cut into as many float32[threads, m] as hold rows of `size` bytes."""
    threads, floats = values.shape
    count = max(1, 4 * floats // max(size, SMALLEST))
    length = floats // count // 16 * 16
    return values.reshape(-1)[: count * threads * length].reshape(count, threads, length)


def _read_rate(
    target: Target, places: np.ndarray, size: int, times: int, ahead: int, period: float = 0.0, *, back: bool = False
) -> Rate:
    """Loops that read so many bytes of one of `places` (float32[n, threads, floats]) in blocks of `UNROLL` vectors, so
    many times; back: every other time the last piece first, but each piece from the front on, which processors fetch
    ahead best."""
    lanes = target.lanes(dt.float32)
    width = UNROLL * lanes
    blocks = max(1, size // (4 * width))
    pieces = max(1, size // PIECE) if back else 1
    orders = ("q", f"({pieces - 1} - q)") if back else ("q",)
    passes = "".join(_pass(order, pieces, blocks // pieces, lanes, ahead) for order in orders)
    rounds = times // len(orders)
    read = 4 * width * (blocks // pieces) * pieces * rounds * len(orders) * places.shape[1]
    loops = f"for i in 0..{rounds} {{{passes}}}"
    return Rate(_program(loops, UNROLL, target, places.shape[1:], "float32"), places, read, period)


def _pass(order: str, pieces: int, blocks: int, lanes: int, ahead: int) -> str:
    """Loops over all pieces, number `order` of them in iteration q, and the blocks of each."""
    at = f"({order} * {blocks} + j) * {UNROLL * lanes} + (a * {lanes} + "
    fetch = f"prefetch y[p, {at}{ahead // 4})];" if ahead else ""
    return f"""
      for q in 0..{pieces} {{
        for j in 0..{blocks} {{
          unroll a in 0..{UNROLL} {{
            {fetch}
            acc[a, l] = acc[a, l] + y[p, {at}l)];
          }}
        }}
      }}"""


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


def aligned(threads: int, floats: int, value: float = 0.5) -> np.ndarray:
    """A row of at least so many floats for each thread, all of them `value`, rows at multiples of 64 bytes."""
    length = -(-floats // 16) * 16
    memory = np.full(threads * length + 16, value, np.float32)
    start = -(memory.ctypes.data // 4) % 16
    return memory[start : start + threads * length].reshape(threads, length)
