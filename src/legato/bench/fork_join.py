"""What it costs to start all threads on a kernel and to wait for them: the floor under short parallel kernels."""

from __future__ import annotations

import time

from legato.base.target import Target
from legato.codegen.compile import compile_object
from legato.codegen.emit import emit_module
from legato.codegen.link import link
from legato.runtime.executable import Executable
from legato.runtime.program import FunctionInfo, Program, TensorInfo
from legato.tir.parser import parse_func

__all__ = ["fork_join_seconds"]

LAUNCHES = 200
ROUNDS = 15
# About 15 µs of dependent additions in 16 shares, each on a cache line of its own. An empty kernel would show nothing:
# a thread that launches takes over shares that no other has begun.
KERNEL = """
kernel @work(x: Buffer[(16, 8), int64]) {
  parallel p in 0..16 {
    for i in 0..600 {
      x[p, 0] = x[p, 0] + 1i64;
    }
  }
}
"""
HOST = f"""
host @main(x: Buffer[(16, 8), int64]) {{
  for i in 0..{LAUNCHES} {{
    launch @work(x);
  }}
}}
"""


def fork_join_seconds(target: Target, threads: int) -> float:
    """What a launch on `threads` threads costs beyond an even share of the work: medians of several runs."""
    image = link([compile_object(emit_module([parse_func(KERNEL), parse_func(HOST)], target, {}), target)], ["main"])
    output = TensorInfo("x", "int64", (16, 8))
    main = FunctionInfo(image.exports["main"], (), (output,), 0, (), (("output", 0),))
    program = Program(target.name, {"main": main})
    exe = Executable.from_parts(program, image.data, image.code_size, image.relocations, [], threads=threads)
    return max(0.0, _launch(exe) - _launch(exe.with_threads(1)) / threads)


def _launch(exe: Executable) -> float:
    """Seconds per launch."""
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        exe()
        taken.append((time.perf_counter() - start) / LAUNCHES)
    return sorted(taken)[ROUNDS // 2]
