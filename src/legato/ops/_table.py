"""The operators by name, and what operator names and symbols mean on expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from threading import RLock
from typing import Any

from legato.base.errors import InternalError
from legato.infer.builder import Builder
from legato.ir import sugar
from legato.ir.expr import Call, Constructor, Expr
from legato.ir.op import Op

__all__ = ["table"]


@cache
def table() -> Mapping[str, Op]:
    """Every operator of the package by name, in the order of names.

    Looking up a name imports the files that mention it, until one has the operator; looking at all imports all. Files
    whose names begin with an underscore hold helpers.
    """
    return _Table()


class _Table(Mapping[str, Op]):
    """Operators by name. Importing all their files takes longer than reading their texts for a name (it is in a record,
    or its last part in `__all__`), so these are asked first; the records alone decide."""

    def __init__(self) -> None:
        folder = Path(__file__).parent
        self._found: dict[str, Op] = {}
        self._texts = {i.name: folder / f"{i.name}.py" for i in iter_modules([str(folder)]) if i.name[0] != "_"}
        self._read: dict[str, str] = {}
        self._lock = RLock()

    def __getitem__(self, name: str) -> Op:
        if name not in self._found:
            with self._lock:
                for module in [m for m in self._texts if self._mentions(m, name)]:
                    self._import(module)
                if name not in self._found:
                    self._all()
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _mentions(self, module: str, name: str) -> bool:
        if module not in self._read:
            try:
                self._read[module] = self._texts[module].read_text(encoding="utf-8")
            except OSError:
                return True  # installed without its source: nobody knows
        return f'"{name.rpartition(".")[2]}"' in self._read[module] or f'"{name}"' in self._read[module]

    def _import(self, module: str) -> None:
        for value in vars(import_module(f"{__package__}.{module}")).values():
            if isinstance(value, Op) and self._found.setdefault(value.name, value) is not value:
                raise InternalError(f"operator {value.name!r} is defined twice")
        self._texts.pop(module, None)
        self._read.pop(module, None)

    def _all(self) -> dict[str, Op]:
        with self._lock:
            if self._texts:
                for module in tuple(self._texts):
                    self._import(module)
                self._found = dict(sorted(self._found.items()))
        return self._found


def _apply(name: str, *args: Any, **attrs: Any) -> Expr:
    """What an operator symbol between expressions builds; name "" calls the first argument."""
    builder = Builder()
    if isinstance(args[0], Constructor):  # its data type is the module's: inference knows it, a builder alone does not
        return Call(args[0], tuple(builder.operands(args[1:])))
    return builder.call(args[0], *args[1:], **attrs) if name == "" else builder.call(name, *args, **attrs)


sugar.install(_apply, table)
