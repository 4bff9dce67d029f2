"""`VirtualMachine` as scripts for TVM's Relay have it: calls of compiled functions by name.

    vm = VirtualMachine(relay.vm.compile(mod, "llvm"), legato.cpu())
    y = vm.run(x).numpy()

Nothing is interpreted: the functions are native code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, NoReturn

from legato.base.errors import ArtifactError, RunError
from legato.base.kinds import integer, require
from legato.runtime.entry import Entry
from legato.runtime.executable import Executable as Program
from legato.runtime.module import Module
from legato.runtime.ndarray import require_cpu
from legato.runtime.timing import BenchmarkResult, time_evaluator

__all__ = ["Executable", "VirtualMachine"]

_CODE: Final = b"legato: the program in the library that was exported with this has the SHA-256 "


class Executable:
    """A compiled module: `entry(name)` gives its function of that name. This one has @main; `relay.vm.compile` gives
    one that compiles others when they are asked for."""

    def __init__(self, main: Program) -> None:
        self._entries: dict[str, Program] = {"main": main}

    @property
    def globals(self) -> tuple[str, ...]:
        """The functions that can be called."""
        return tuple(self._entries)

    def entry(self, name: str) -> Program:
        """The compiled function `name`; RunError if there is none."""
        if name not in self._entries:
            raise RunError(f"the program has no function {name!r}; it has {', '.join(self.globals)}")
        return self._entries[name]

    def get_function_params(self, func_name: str) -> tuple[str, ...]:
        """The names of a function's arguments."""
        return tuple(info.name for info in self.entry(func_name).arguments)

    @property
    def lib(self) -> Module:
        """@main as a library, which can be exported."""
        return Module.of(self.entry("main"))

    @property
    def stats(self) -> str:
        """What the compiler noted of @main, as text."""
        return "\n".join(f"{name}: {value}" for name, value in self.entry("main").stats.items())

    @property
    def primitive_ops(self) -> list[str]:
        """The kernels of @main."""
        return [kernel.name for kernel in self.entry("main").kernels]

    @property
    def bytecode(self) -> NoReturn:
        """Not here: RunError."""
        raise RunError("functions are native code: there is no bytecode\n  hint: legato show MODEL shows every stage")

    def save(self) -> tuple[bytes, Module]:
        """What `load_exec` takes: a note of what program it is, and the library, which has all of it."""
        lib = self.lib
        return _CODE + _digest(lib), lib

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: Program) -> Executable:
        """The executable whose library is `lib`; ArtifactError where `bytecode` is of another one."""
        if bytes(bytecode) != _CODE + _digest(lib):
            raise ArtifactError("the code and the library are not those of one program")
        return Executable(lib)


def _digest(program: Program) -> bytes:
    return hashlib.sha256(program.program.source.encode() + program.target.encode()).hexdigest().encode()


class VirtualMachine:
    """Calls functions of an Executable, of a program that `relay.build` gives, or of a loaded one."""

    NAIVE_ALLOCATOR, POOLED_ALLOCATOR = 1, 2

    def __init__(self, exe: Any, device: Any = None, memory_cfg: object = None) -> None:
        for one in device if isinstance(device, list | tuple) else (device,):
            require_cpu(one)
        if not isinstance(exe, Executable | Program):
            raise RunError(f"a virtual machine of a {type(exe).__name__}, wanted what relay.vm.compile gives")
        self._exec = exe if isinstance(exe, Executable) else Executable(exe)
        self._functions: dict[str, Entry] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: Any = None

    def _function(self, name: str) -> Entry:
        require(isinstance(name, str), name, "the function to call", "its name", RunError)
        if name not in self._functions:
            self._functions[name] = Entry.of(name, self._exec.entry(name))
        return self._functions[name]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function `name`, of arguments in order, or by name."""
        return self._function(name)

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """The arguments of the next calls of a function that are given none: in order, then by name."""
        self._inputs[func_name] = self._function(func_name).ordered(args, kwargs)

    def set_one_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """One argument: its number (or name) and value, or name=value. RunError for other ways to say it."""
        function = self._function(func_name)
        if len(args) + 2 * len(kwargs) != 2:
            raise RunError("set_one_input sets one argument: its number or name and value, or name=value")
        key, value = args or next(iter(kwargs.items()))
        n = self.get_input_index(key, func_name) if isinstance(key, str) else integer(key)
        if n is None or not 0 <= n < len(function.names):
            raise RunError(f"{func_name} takes {', '.join(function.names)}; there is no argument {key!r}")
        given = list(self._inputs.get(func_name, (None,) * len(function.names)))
        given[n] = value
        self._inputs[func_name] = tuple(given)

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """The number of an argument of a function; -1 if it has none of that name."""
        names = self._function(func_name).names
        return names.index(input_name) if input_name in names else -1

    def invoke(self, func_name: str, *args: Any, **kwargs: Any) -> Any:
        """The value of a function: of these arguments, or of those that were set."""
        function = self._function(func_name)
        if not (args or kwargs) and function.names:
            args = self._set(func_name)
        self._outputs = function(*args, **kwargs)
        return self._outputs

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The value of @main."""
        return self.invoke("main", *args, **kwargs)

    def invoke_stateful(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """As `invoke`; `get_outputs` gives the value."""
        self.invoke(func_name, *args, **kwargs)

    def get_outputs(self) -> list[Any]:
        """The value of the last call, the parts of a tuple apart. RunError where there was none."""
        if self._outputs is None:
            raise RunError("there are no outputs yet: vm.invoke computes them")
        return list(self._outputs) if isinstance(self._outputs, tuple) else [self._outputs]

    def benchmark(
        self,
        device: Any = None,
        *args: Any,
        func_name: str = "main",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """How long calls of a function take on these arguments, or on those that were set."""
        require_cpu(device)
        function = self._function(func_name)
        given = function.ordered(args, kwargs) if args or kwargs else self._set(func_name)
        return time_evaluator(function, number, repeat, min_repeat_ms or 0)(*given)

    def _set(self, func_name: str) -> tuple[Any, ...]:
        """The arguments that were set for a function; RunError where not all were."""
        given = self._inputs.get(func_name, ())
        names = self._function(func_name).names
        missing = [name for n, name in enumerate(names) if n >= len(given) or given[n] is None]
        if missing:
            raise RunError(f"not all inputs of {func_name} are set; missing: {', '.join(missing)}")
        return given
