"""Compiled programs as the libraries of scripts for TVM: `lib["default"](device)`, `export_library`, `load_module`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self

from legato.base.errors import CompileError, RunError
from legato.runtime.entry import Entry
from legato.runtime.executable import Executable, load
from legato.runtime.ndarray import wrapped
from legato.runtime.session import Session
from legato.runtime.workspace import HostRunner

__all__ = ["Module", "enabled", "load_module"]

_NAME: Final = re.compile(r'^attributes\(.*?\bmod_name="(\w+)"', re.MULTILINE)
_WITHOUT_PLACE: Final = ("fcompile", "addons", "workspace_dir", "options", "cc")  # what only a linker would need


class Module(Executable):
    """An executable that answers to what scripts ask of TVM's modules, and gives tensors with `.numpy()`."""

    __slots__ = ()

    @classmethod
    def of(cls, exe: Executable) -> Self:
        """The same program; code and weights are shared."""
        return cls(
            exe._parts, function=exe.function, threads=exe.threads, memory_limit=exe._limit, host_ops=exe._host_ops,
            packed=exe._packed, code=exe._code,
        )  # fmt: skip

    def __call__(self, *inputs: object, **named: object) -> Any:
        """The program's result on arguments in order, or by name; numbers are scalars of the dtype that is wanted."""
        if named or any(isinstance(value, bool | int | float) for value in inputs):
            inputs = Entry.of(self.function, self).ordered(inputs, named)
        return wrapped(super().__call__(*inputs))

    @property
    def module_name(self) -> str:
        """What the program is called: "default", or the mod_name that it was built with."""
        found = _NAME.search(self.program.source[:4096])
        return "default" if found is None else found[1]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function by name: "default" (or the module's own name) opens a Session on a device."""
        if name in ("default", self.module_name):
            return self.open
        raise RunError(f"the module has no function {name!r}; it has {self.module_name}")

    def open(self, *devices: Any) -> Session:
        """A session of this program. CompileError for a device that is not the CPU."""
        return Session(self, list(devices))

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """As `self[name]`."""
        return self[name]

    def export_library(self, file_name: str | Path, **options: object) -> None:
        """Writes the program into one file, which `load_module` and `legato.load` read. (It is an artifact whatever it
        is called: no linker makes it.) CompileError for options of a linker."""
        if options:
            hint = "an artifact is one file" if set(options) <= set(_WITHOUT_PLACE) else "it has none"
            raise CompileError(f"export_library has no option {', '.join(options)}", hint=hint)
        self.save(file_name)


def enabled(target: str) -> bool:
    """Whether there is code for a target, which is called as TVM calls it: for "llvm" and "cpu"."""
    return target.split()[:1] in (["llvm"], ["cpu"])


def load_module(
    path: str | Path,
    fmt: str = "",
    *,
    host_ops: HostRunner | None = None,
    packed: Mapping[str, object] | None = None,
    generators: Iterable[Any] = (),
) -> Module:
    """The module that `export_library` or `save` wrote; ArtifactError for another file.

    packed, generators: as for `legato.load`. GeneratorError where one of these would have to compile a function again,
    which takes the compiler: `Module.of(legato.load(path, generators=…))` is the same module.
    """
    return Module.of(load(path, host_ops=host_ops, packed=packed, generators=generators))
