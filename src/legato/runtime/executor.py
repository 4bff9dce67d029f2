"""Programs with inputs and outputs held, as scripts for TVM have them: `AotModule`, and what `GraphModule` is, too.

m = legato.runtime.executor.AotModule(relay.build(mod, "llvm", executor=Executor("aot"))["default"](legato.cpu()))
m.set_input("x", x)
m.run()
y = m.get_output(0).numpy()

Executors "graph" and "aot" are one compiled program here: nothing of a graph is read when it runs.
"""

from __future__ import annotations

from typing import Any

from legato.base.errors import RunError
from legato.base.kinds import integer
from legato.runtime.ndarray import copied_into
from legato.runtime.session import Session

__all__ = ["AotModule", "SessionModule"]


class SessionModule:
    """The inputs and outputs of a program between its calls; `module` is what `lib["default"](device)` gives."""

    def __init__(self, module: Session) -> None:
        if not isinstance(module, Session):
            raise RunError(
                f"{type(self).__name__} takes a session, got a {type(module).__name__}\n"
                '  hint: give it lib["default"](legato.cpu())'
            )
        self.module = module

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copies `value` to input `key`, and `params` to those of their names.

        Names of `params` that are no inputs' are passed over: what constants became of them is in the program.
        """
        if key is not None:
            self.module.set_input(key, value)
        self.module.load_params(params)

    def run(self, **input_dict: Any) -> None:
        """Calls the program, after setting `input_dict`."""
        self.module.load_params(input_dict)
        self.module.run()

    def get_num_outputs(self) -> int:
        """How many outputs there are."""
        return self.module.get_num_outputs()

    def get_num_inputs(self) -> int:
        """How many inputs there are."""
        return self.module.get_num_inputs()

    def get_input(self, index: str | int, out: Any = None) -> Any:
        """The value of an input (its number, or name), copied to `out` where that is given."""
        found = self.module.get_input(index)
        return found if out is None else copied_into(out, found)

    def get_input_info(self) -> tuple[dict[str, tuple[Any, ...]], dict[str, str]]:
        """Shapes and dtypes of the inputs, by name."""
        return self.module.get_input_info()

    def get_output(self, index: int, out: Any = None) -> Any:
        """Output `index` of the last call, copied to `out` where that is given."""
        return self.module.get_output(index, out)


class AotModule(SessionModule):
    """TVM's executor of programs that were compiled ahead of time."""

    def get_input_name(self, index: int) -> str:
        """The name of an input. RunError for a number that none has."""
        n, inputs = integer(index), self.module.program.arguments
        if n is None or not 0 <= n < len(inputs):
            raise RunError(f"there is no input {index!r}; there are {', '.join(map(str, inputs)) or 'none'}")
        return inputs[n].name
