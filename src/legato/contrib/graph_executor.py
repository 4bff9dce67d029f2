"""`GraphModule` and `create`: TVM's graph executor, around a compiled program.

lib = relay.build(mod, "llvm", params=params)
m = graph_executor.GraphModule(lib["default"](legato.cpu()))
m.set_input("x", x)
m.run()
y = m.get_output(0).numpy()
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from legato.base.errors import RunError
from legato.base.kinds import require
from legato.runtime.executable import Executable
from legato.runtime.executor import SessionModule
from legato.runtime.session import Session
from legato.runtime.timing import BenchmarkResult, time_evaluator

__all__ = ["GraphModule", "create", "require_graph_of"]


class GraphModule(SessionModule):
    """The inputs and outputs of a program between its calls; `module` is what `lib["default"](device)` gives."""

    def set_input_zero_copy(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """As `set_input`, without copies: calls see what the arrays hold then."""
        if key is not None:
            self.module.set_input_zero_copy(key, value)
        for name, array in params.items():
            if self.module.get_input_index(name) >= 0:
                self.module.set_input_zero_copy(name, array)

    def set_output_zero_copy(self, key: str | int, value: Any) -> None:
        """Has calls write an output (its number, or name) into an array."""
        index = self.module.get_output_index(key) if isinstance(key, str) else key
        self.module.set_output_zero_copy(index, value)

    def get_input_index(self, name: str) -> int:
        """The number of the input called `name`; -1 if there is none."""
        return self.module.get_input_index(name)

    def get_output_index(self, name: str) -> int:
        """The number of the output called `name`; -1 if there is none."""
        return self.module.get_output_index(name)

    def debug_get_output(self, node: str | int, out: Any = None) -> Any:
        """Not here, as in the original: GraphModuleDebug computes what is between inputs and outputs."""
        raise RunError("a GraphModule has no intermediate tensors\n  hint: contrib.debugger.debug_executor has them")

    def load_params(self, params_bytes: bytes | bytearray | Mapping[str, Any]) -> None:
        """Sets the inputs that saved parameters (`relay.save_param_dict`) name."""
        self.module.load_params(_named_arrays(params_bytes))

    def share_params(self, other: GraphModule, params_bytes: bytes | bytearray | Mapping[str, Any]) -> None:
        """Takes the inputs that saved parameters name from another module, in the same memory."""
        require(isinstance(other, GraphModule), other, "share_params", "another GraphModule", RunError)
        self.module.share_params(other.module, _named_arrays(params_bytes))

    def __getitem__(self, key: str) -> Callable[..., Any]:
        """The function of the module that is called `key`."""
        return self.module[key]

    def benchmark(
        self,
        device: Any = None,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """How long calls take, with inputs `kwargs`; end_to_end: setting these and fetching outputs is part of a call.

        There are no pauses between the repetitions.
        """
        self.set_input(**kwargs)
        if not end_to_end:
            return self.module.time_evaluator(func_name, device, number, repeat, min_repeat_ms or 0)()

        def whole() -> None:
            self.run(**kwargs)
            for n in range(self.get_num_outputs()):
                self.get_output(n).copy()

        return time_evaluator(whole, number, repeat, min_repeat_ms or 0)()


def create(graph_json_str: str, libmod: Executable, device: Any = None) -> GraphModule:
    """The module of a library and the JSON that `relay.build` gave with it; RunError where that is of another one."""
    require_graph_of(graph_json_str, libmod)
    return GraphModule(Session(libmod, device))


def require_graph_of(graph_json: str, program: Executable) -> None:
    """RunError unless the JSON of a graph has the inputs of `program`, and as many outputs."""
    try:
        graph = json.loads(graph_json)
        names = [graph["nodes"][n]["name"] for n in graph["arg_nodes"]]
        outputs = len(graph["heads"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise RunError(f"this is no graph in JSON: {error}") from error
    wanted = [info.name for info in program.arguments]
    if names != wanted or outputs != len(program.results):
        raise RunError(
            f"the graph takes {', '.join(map(str, names))} and gives {outputs} outputs; the library takes "
            f"{', '.join(wanted)} and gives {len(program.results)}\n  hint: both are of one relay.build"
        )


def _named_arrays(params: bytes | bytearray | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(params, Mapping):
        return params
    from legato.relay.param_dict import load_param_dict  # only scripts that keep parameters apart need the compiler

    return load_param_dict(params)
