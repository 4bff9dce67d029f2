"""`GraphModuleDebug` and `create`: a graph executor that keeps, shows and writes every intermediate tensor.

lib = relay.build(mod, "llvm", params=params)
m = debug_executor.GraphModuleDebug(lib["debug_create"]("default", dev), [dev], lib.get_graph_json(), "dump")
m.run(x=x)
y = m.debug_get_output(0)                    # or by name, as in the graph
print(m.profile())
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from legato.base.errors import RunError
from legato.base.files import replace_file
from legato.base.kinds import integer
from legato.compare.dump import write_dump
from legato.contrib.graph_executor import GraphModule, require_graph_of
from legato.relay._executors.debug_session import DebugSession
from legato.relay._executors.executor_factory import ExecutorFactoryModule
from legato.runtime.executable import Executable
from legato.runtime.ndarray import copied_into, wrapped
from legato.runtime.profiling import Report, profiled, require_no_collectors
from legato.runtime.session import Session
from legato.runtime.timing import BenchmarkResult

__all__ = ["GraphModuleDebug", "create"]

_FOLDER = "_tvmdbg_device_cpu_0"
_GRAPH = "_tvmdbg_graph_dump.json"


class GraphModuleDebug(GraphModule):
    """A GraphModule whose calls keep every tensor; with `dump_root` they write them there, a folder for each call."""

    def __init__(
        self, module: Session, device: Any = None, graph_json_str: str = "", dump_root: str | Path | None = None
    ) -> None:
        if not isinstance(module, DebugSession):
            hint = 'give it lib["debug_create"]("default", device), of what relay.build gives'
            raise RunError(f"a GraphModuleDebug of a {type(module).__name__}\n  hint: {hint}")
        if graph_json_str:
            require_graph_of(graph_json_str, module.program)
        super().__init__(module)
        self.module: DebugSession = module
        self.graph_json = graph_json_str
        self.dump_path = None if dump_root is None else Path(dump_root) / _FOLDER

    def run(self, **input_dict: Any) -> None:
        """Calls the program, after setting `input_dict`, and writes all tensors where a folder was named."""
        super().run(**input_dict)
        if self.dump_path is not None:
            self._dump(self.dump_path)

    def _dump(self, folder: Path) -> None:
        where = next(path for n in count() if not (path := folder / f"run-{n:04d}").exists())
        session = self.module
        inputs = {info.name: session.get_input(info.name) for info in session.program.arguments}
        outputs = {info.name: session.get_output(n) for n, info in enumerate(session.program.results)}
        write_dump(where, inputs, session.steps, session.tensors, outputs)
        if self.graph_json:
            replace_file(folder / _GRAPH, lambda temporary: temporary.write_text(self.graph_json, encoding="utf-8"))

    def debug_get_output(self, node: str | int, out: Any = None) -> Any:
        """The tensor of a node (its name in the graph, or its number among those that compute), or an input by name."""
        found = self.module.value_of(node)
        return found if out is None else copied_into(out, found)

    def get_node_output(self, node: str | int) -> Any:
        """As `debug_get_output`."""
        return self.debug_get_output(node)

    def execute_node(self, node_name: str) -> None:
        """Computes up to a node, which is the whole program here."""
        self.module.run()
        self.module.value_of(node_name)

    def get_output_tensors(self) -> dict[str, Any]:
        """All tensors of the last call, by name, in order."""
        return {name: wrapped(value) for name, value in self.module.tensors.items()}

    def run_individual(self, number: int, repeat: int = 1, min_repeat_ms: float = 0) -> list[tuple[float, ...]]:
        """How long each launch of a kernel takes in seconds, in order: a tuple of one for each, the median of
        `number * repeat` calls of the program."""
        report = profiled(self.module.program, self.module.given, max(number * repeat, 1))
        return [(taken / 1e6,) for _, _, taken in report.launches]

    def run_individual_node(
        self, index: int, number: int = 10, repeat: int = 1, min_repeat_ms: float = 0
    ) -> BenchmarkResult:
        """How long launch `index` takes, in the order of `run_individual`."""
        taken = self.run_individual(number, repeat, min_repeat_ms)
        n = integer(index)
        if n is None or not 0 <= n < len(taken):
            raise RunError(f"there is no launch {index!r}; there are {len(taken)}")
        return BenchmarkResult(taken[n])

    def profile(self, collectors: Any = None, **input_dict: Any) -> Report:
        """What each kernel takes. (`legato profile` compares that with what the machine can do.)"""
        require_no_collectors(collectors)
        self.module.load_params(input_dict)
        return profiled(self.module.program, self.module.given)

    def exit(self) -> None:
        """Removes nothing: dumps are kept."""


def create(
    graph_json_str: str, libmod: Executable, device: Any = None, dump_root: str | Path | None = None
) -> GraphModuleDebug:
    """The debug module of what `relay.build` gave; RunError for a library that is loaded from a file, which has no
    program to recompute tensors from, and where the graph is of another one."""
    if not isinstance(libmod, ExecutorFactoryModule):
        hint = "pass on what relay.build gives: intermediate tensors are recomputed from its module"
        raise RunError(f"a {type(libmod).__name__} has no intermediate tensors\n  hint: {hint}")
    devices = device if isinstance(device, list) else [device]
    return GraphModuleDebug(libmod.debug_session(devices), device, graph_json_str, dump_root)
