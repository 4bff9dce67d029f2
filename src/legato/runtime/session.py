"""A program with its inputs and outputs held: what TVM's graph executor is to a script.

    session = lib["default"](legato.cpu())
    session["set_input"]("x", x);  session["run"]();  y = session["get_output"](0)

The program is compiled; a session only keeps arrays between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from legato.base.arrays import as_array
from legato.base.codes import encode, has_codes
from legato.base.dtype import dtype
from legato.base.errors import RunError
from legato.base.kinds import integer, require, require_mapping
from legato.base.strings import without_zeros
from legato.runtime.executable import Executable
from legato.runtime.ndarray import CPU, Device, NDArray, copied_into, require_cpu, require_target, wrapped
from legato.runtime.program import TensorInfo
from legato.runtime.timing import BenchmarkResult, time_evaluator

__all__ = ["Session"]

# The methods that scripts ask for by name, as they ask TVM's modules.
_FUNCTIONS: Final = frozenset({
    "set_input", "set_input_zero_copy", "set_output_zero_copy", "get_input", "get_input_index", "get_input_info",
    "get_num_inputs", "get_num_outputs", "get_output", "get_output_index", "load_params", "run", "share_params",
})  # fmt: skip
_ATTEMPTS: Final = ("limit_zero_time_iterations", "cooldown_interval_ms", "repeats_to_cooldown")  # how to wait between


class Session:
    """The inputs and outputs of `program`, by name or by number, between its calls."""

    def __init__(self, program: Executable, device: Any = None) -> None:
        for one in device if isinstance(device, list | tuple) else (device,):
            require_cpu(one)
        self.program = program
        self.device: Device = CPU
        self._arguments = program.arguments
        self._results = program.results
        self._numbers = {info.name: n for n, info in enumerate(self._arguments)}
        self._values: dict[int, Any] = {}
        self._outputs: list[Any] = []
        self._places: dict[str, np.ndarray[Any, Any]] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The method called `name`; RunError for others."""
        if name not in _FUNCTIONS:
            raise RunError(f"there is no function {name!r}; there are {', '.join(sorted(_FUNCTIONS))}")
        found: Callable[..., Any] = getattr(self, name)
        return found

    # ------------------------------------------------------------------ inputs

    def get_num_inputs(self) -> int:
        """How many inputs there are."""
        return len(self._arguments)

    def get_input_index(self, name: object) -> int:
        """The number of the input called `name`; -1 if there is none."""
        return self._numbers.get(name, -1) if isinstance(name, str) else -1

    def get_input_info(self) -> tuple[dict[str, tuple[Any, ...]], dict[str, str]]:
        """Shapes and dtypes of the inputs that are tensors, by name; dims that are no numbers, as text."""
        tensors = [info for info in self._arguments if isinstance(info, TensorInfo)]
        shapes = {t.name: tuple(d if isinstance(d, int) else str(d) for d in t.shape) for t in tensors}
        return shapes, {t.name: t.dtype for t in tensors}

    def set_input(self, key: str | int, value: Any) -> None:
        """Keeps a copy of `value` for input `key`, in its dtype.

        RunError for an input that there is not, for numbers that the dtype does not take (floats for integers), and
        where shapes differ.
        """
        n = self._number(key)
        info = self._arguments[n]
        self._values[n] = _copied(value, info) if isinstance(info, TensorInfo) else value

    def set_input_zero_copy(self, key: str | int, value: Any) -> None:
        """Keeps `value` itself, so that calls see what it holds then. RunError where its dtype is another."""
        n = self._number(key)
        info = self._arguments[n]
        if isinstance(info, TensorInfo):
            value = as_array(value, f'input "{info.name}"')
            if value.dtype != dtype(info.dtype).numpy:
                raise RunError(
                    f'input "{info.name}": got {value.dtype}, wanted {info.type}\n  hint: set_input converts it'
                )
        self._values[n] = value

    def get_input(self, key: str | int) -> Any:
        """The value of an input, which may be changed in place; zeros that become it, where none was set.

        RunError for an input that there is not, and where none was set and the shape is not known.
        """
        n = self._number(key)
        info = self._arguments[n]
        if n not in self._values:
            if not isinstance(info, TensorInfo) or not all(isinstance(d, int) for d in info.shape):
                raise RunError(f"input {info} is not set")
            zeros = np.zeros([d for d in info.shape if isinstance(d, int)], dtype(info.dtype).numpy)
            self._values[n] = without_zeros(zeros)
        return wrapped(self._values[n])

    def load_params(self, params: Mapping[str, Any]) -> None:
        """Sets the inputs that `params` names. Names that are no inputs' are passed over: constants were folded."""
        require_mapping(params, "parameters", "arrays by name", RunError)
        for name, value in params.items():
            if name in self._numbers:
                self.set_input(name, value)

    def share_params(self, other: Session, params: Mapping[str, Any]) -> None:
        """Takes the inputs that `params` names from another session, in the same memory. RunError where it has none."""
        require(isinstance(other, Session), other, "share_params", "another session", RunError)
        for name in require_mapping(params, "parameters", "arrays by name", RunError):
            if name in self._numbers:
                self.set_input_zero_copy(name, other.get_input(name))

    def _number(self, key: str | int) -> int:
        n = self._numbers.get(key) if isinstance(key, str) else integer(key)
        if n is None or not 0 <= n < len(self._arguments):
            raise RunError(f"there is no input {key!r}; there are {', '.join(map(str, self._arguments)) or 'none'}")
        return n

    # ------------------------------------------------------------------ outputs

    def get_num_outputs(self) -> int:
        """How many outputs there are: tuples are taken apart."""
        return len(self._results)

    def get_output_index(self, name: str) -> int:
        """The number of the output called `name`; -1 if there is none."""
        return next((n for n, info in enumerate(self._results) if info.name == name), -1)

    def get_output(self, index: int, out: Any = None) -> Any:
        """Output `index` of the last call, written to `out` where that is given. RunError before the first call."""
        self._require_output(index)
        if not self._outputs:
            raise RunError("there are no outputs yet: run computes them")
        found = self._outputs[index]
        if out is None:
            return found
        return copied_into(out, found)

    def set_output_zero_copy(self, index: int, out: Any) -> None:
        """Has calls write output `index` into the array `out`."""
        self._require_output(index)
        require_target(out)
        self._places[self._results[index].name] = out

    def _require_output(self, index: int) -> None:
        n = integer(index)
        if n is None or not 0 <= n < len(self._results):
            raise RunError(f"there is no output {index!r}; there are {', '.join(map(str, self._results)) or 'none'}")

    # ------------------------------------------------------------------ calls

    def run(self) -> None:
        """Calls the program with the inputs that were set. RunError where one was not."""
        found = self.program.run(self.given, out=self._places or None)
        self._outputs = [wrapped(found[info.name]) for info in self._results]

    @property
    def given(self) -> dict[str, Any]:
        """The inputs by name; RunError where one was not set."""
        missing = [str(info) for n, info in enumerate(self._arguments) if n not in self._values]
        if missing:
            raise RunError(f"not all inputs are set; missing: {', '.join(missing)}")
        return {info.name: self._values[n] for n, info in enumerate(self._arguments)}

    def time_evaluator(
        self, func_name: str, dev: Any = None, number: int = 10, repeat: int = 1, min_repeat_ms: float = 0, **rest: int
    ) -> Callable[..., BenchmarkResult]:
        """A function that says how long calls of method `func_name` take: see `runtime.timing`.

        Pauses between the repetitions may be asked for and are not made; RunError for other options.
        """
        require_cpu(dev)
        unknown = [name for name in rest if name not in _ATTEMPTS]
        if unknown:
            raise RunError(f"time_evaluator has no option {', '.join(unknown)}")
        return time_evaluator(self[func_name], number, repeat, min_repeat_ms)


def _copied(value: Any, info: TensorInfo) -> NDArray:
    """A copy of `value` in the dtype of an input; RunError where it does not fit."""
    what = f'input "{info.name}"'
    array = np.asarray(value) if isinstance(value, list | tuple) else as_array(value, what)
    kind = dtype(info.dtype)
    wanted = kind.numpy
    if has_codes(kind) and array.dtype != wanted and np.can_cast(array.dtype, np.float32, "same_kind"):
        array = encode(array, kind)
    if not np.can_cast(array.dtype, wanted, "same_kind"):
        raise RunError(f"{what}: got {array.dtype}, wanted {info.type}")
    fits = len(array.shape) == len(info.shape) and all(
        not isinstance(d, int) or d == n for d, n in zip(info.shape, array.shape, strict=True)
    )
    if not fits:
        raise RunError(f"{what}: wrong shape\n  got {array.dtype}{list(array.shape)}, wanted {info.type}")
    return np.array(array, wanted, order="C", copy=True).view(NDArray)
