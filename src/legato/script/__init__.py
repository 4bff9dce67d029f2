"""Python functions as programs: `@relay` reads a function's source and translates it; the function itself never runs.

    from legato import relay
    from legato.relay import Tensor

    @relay
    def count(n: int) -> int:
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    print(count)                 the program: a tail-recursive function, and @main
    count(27)                    by the interpreter
    legato.compile(count)        compiled

`source` and `syntax` read a function, `names` says what its statements need, `values` is what expressions stand for,
`expressions` and `statements` translate, `lifting` makes functions of loops, `program` makes the module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not
from legato.script.annotations import Tensor
from legato.script.decorate import ScriptFunction, relay
from legato.script.model import ScriptModel, relay_model

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping
    from pathlib import Path

    from legato.ir.expr import Function
    from legato.ir.module import Module
    from legato.tir.stmt import Func

__all__ = ["ScriptFunction", "ScriptModel", "Tensor", "load", "parse", "relay", "relay_model", "save", "show"]


def parse(text: str, source: str = "<script>", *, constants: Mapping[str, Any] | None = None) -> Module:
    """The module of a script in a text: a class under `@I.ir_module`, or functions under `@R.function`, `@T.prim_func`.

    The text can name `I`, `R` and `T`, and what it defines; nothing of it is run. constants: the arrays that it only
    names (`R.meta`), as `show` collects them. CompileError, with the places, for what is wrong in it.
    """
    from legato.script import ir, relax, tir  # on use: who decorates functions needs no parser
    from legato.script.modules.module import module_from_text

    names = {"I": ir, "R": relax, "T": tir, "range": range}
    return module_from_text(text, names, source, constants)


def show(program: Module | Func | Function, constants: MutableMapping[str, Any] | None = None) -> str:
    """A module, or a function of it, as a script: `parse` of it is alpha-equal (to the typed module).

    constants: a dictionary that arrays of more than 16 elements go to, by the names that the script has for them;
    `parse` takes it. Without it they stand in the script.
    UnsupportedError for what nests deeper than Python's blocks do, and operators that are none of the package's.
    `str(program)` is the text of any program.
    """
    from legato.script.modules.print_module import show as show_script  # on use, as above

    return show_script(program, constants)


def save(program: Module | Func | Function, path: str | Path) -> None:
    """Writes a script, as a rule into a `.relax` file, and arrays of more than 16 elements into a safetensors file
    beside it. UnsupportedError as of `show`; OSError where writing fails."""
    from legato.ir.files import save_with_tensors

    arrays: dict[str, Any] = {}
    save_with_tensors(show(program, arrays), arrays, path)


def load(path: str | Path) -> Module:
    """The module of a script in a file, which is read and not run, with the arrays that lie beside it.

    CompileError, with the places, for what is wrong in it; ImportModelError where it cannot be read.
    """
    from legato.ir.files import load_with_tensors

    text, arrays = load_with_tensors(path)
    return parse(text, str(path), constants=arrays)
