"""What it costs to start all threads on a kernel and to wait for them: the floor under short parallel kernels.

It also tells how near each other the cores are that the system gave us: on virtual machines that changes by the minute,
and all that runs on several threads with it. `modes` sorts rounds of a benchmark by it.
"""

from __future__ import annotations

import time

from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.codegen.compile import compile_object
from legato.codegen.emit import emit_module
from legato.codegen.link import link
from legato.runtime.executable import Executable
from legato.runtime.program import FunctionInfo, Program, TensorInfo
from legato.tir.parser import parse_func

__all__ = ["ForkJoin", "fork_join", "fork_join_seconds"]

LAUNCHES = 200
RUNS = 80
# About a microsecond of dependent additions in 16 shares, each on a cache line of its own. An empty kernel would show
# nothing: a thread that launches takes over shares that no other has begun. Of a long one, the noise would be larger
# than what is looked for.
KERNEL = """
kernel @work(x: Buffer[(16, 8), int64]) {
  parallel p in 0..16 {
    for i in 0..200 {
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


@dataclass(frozen=True, slots=True)
class ForkJoin:
    """A compiled program that only launches kernels: measuring takes some 30 ms."""

    exe: Executable

    def seconds(self) -> float:
        """What a launch on all threads costs beyond an even share of the work; 0 for one thread.

        The fastest of several runs of each kind, in turn: whatever else the machine does only adds to them.
        """
        if self.exe.threads == 1:
            return 0.0
        alone = self.exe.with_threads(1)
        runs = [(_launch(self.exe), _launch(alone)) for _ in range(RUNS)]
        together, single = min(run[0] for run in runs), min(run[1] for run in runs)
        return max(0.0, together - single / self.exe.threads)


def fork_join(target: Target, threads: int) -> ForkJoin:
    """The program that measures on `threads` threads, compiled."""
    image = link([compile_object(emit_module([parse_func(KERNEL), parse_func(HOST)], target, {}), target)], ["main"])
    output = TensorInfo("x", "int64", (16, 8))
    main = FunctionInfo(image.exports["main"], (), (output,), 0, (), (("output", 0),))
    program = Program(target.name, {"main": main})
    return ForkJoin(Executable.from_parts(program, image.data, image.code_size, image.relocations, [], threads=threads))


def fork_join_seconds(target: Target, threads: int) -> float:
    """What a launch on `threads` threads costs beyond an even share of the work."""
    return fork_join(target, threads).seconds()


def _launch(exe: Executable) -> float:
    """Seconds per launch."""
    start = time.perf_counter()
    exe()
    return (time.perf_counter() - start) / LAUNCHES
