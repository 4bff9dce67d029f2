"""Models that are code: `FILE.py`, or `FILE.py:NAME`. Such a file is run only where `--trust` says so."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from legato.base.errors import CompileError, LegatoError
from legato.cli._arguments import is_artifact, refuse

if TYPE_CHECKING:
    from legato.ir.op import Op
    from legato.transform.pass_ import Pass

__all__ = ["passes_of_code", "run_file", "take_code", "take_ops"]

_NUMBERS: Final = count()  # of the files that were run
_NEIGHBOURS: Final[dict[str, dict[str, ModuleType]]] = {}  # what files have imported of their own folder, by folder


def take_code(args: argparse.Namespace) -> None:
    """Where MODEL is code: runs the file, and puts the program that it makes into `args.program`.

    CompileError without --trust, for what the file raises, and where it makes no program, or several of which none is
    named.
    """
    model = getattr(args, "model", None)
    if not isinstance(model, Path):
        return
    file, name = _parts(model)
    if file is None:
        refuse(args, f"{model} is not run", "trust")
        return
    if not getattr(args, "trust", False):
        hint = "--trust runs it; a script in a .relax file is only read"
        raise CompileError(f"{file} is code: to have its model, it would be run", hint=hint)
    args.model, args.program = file, _program(run_file(file), file, name)


def take_ops(args: argparse.Namespace) -> None:
    """Runs the files of --ops, and puts the operators that they make into `args.own_operators`, the converters into
    `args.own_converters`.

    CompileError for a file that makes neither, and for converters of a program that is compiled already.
    """
    operators: list[Op] = []
    converters: dict[str, Callable[..., Any]] = {}
    for file in getattr(args, "ops", ()):
        module = run_file(file)
        own, custom = _operators(module), _converters(module, file)
        if not own and not custom:
            hint = 'legato.ir.op.Op(…), or custom = {"domain::Operator": function} (docs/operators.md)'
            raise CompileError(f"{file} makes no operator", hint=hint)
        if again := converters.keys() & custom.keys():
            raise CompileError(f"{file}: another file has a converter for {min(again)} as well")
        operators += own
        converters |= custom
    if converters and not operators and args.model is not None and is_artifact(args.model):
        raise CompileError(f"{args.model} is compiled already: converters in --ops would have no effect")
    args.own_operators, args.own_converters = tuple(operators), converters or None


def _operators(module: ModuleType) -> list[Op]:
    """The operators that a file makes: those among its values that are not the package's."""
    from legato.ir.op import Op
    from legato.ops import table

    found = {id(value): value for value in vars(module).values() if isinstance(value, Op)}
    return [op for op in found.values() if table().get(op.name) is not op]


def _converters(module: ModuleType, file: Path) -> dict[str, Callable[..., Any]]:
    """What a file has as `custom`."""
    found = getattr(module, "custom", {})
    if not isinstance(found, Mapping):
        hint = 'custom = {"domain::Operator": function}'
        raise CompileError(f"{file}: custom is a {type(found).__name__}, wanted converters by name", hint=hint)
    return dict(found)


def passes_of_code(files: Sequence[Path]) -> dict[str, type[Pass]]:
    """Runs files that the user names as code: the passes that they make, by name. CompileError for a file without any,
    for a name that two passes have, and one that a pass of the compiler has."""
    from legato.transform import table

    found: dict[str, type[Pass]] = {}
    for file in files:
        own = _passes(run_file(file))
        if not own:
            hint = "a function with @legato.transform.function_pass or @module_pass above it"
            raise CompileError(f"{file} makes no pass", hint=hint)
        for name, made in own.items():
            if name in table() or found.setdefault(name, made) is not made:
                raise CompileError(f"{file}: another pass is called {name}", hint="@function_pass(name=…)")
    return found


def _passes(module: ModuleType) -> dict[str, type[Pass]]:
    """The passes that a file makes: functions with a decorator, and classes of its own."""
    from inspect import isabstract

    from legato.transform.pass_ import Pass

    found = {}
    for value in vars(module).values():
        if isinstance(value, Pass):
            found[value.name] = type(value)
            continue
        is_own = isinstance(value, type) and issubclass(value, Pass) and value.__module__ == module.__name__
        if is_own and not isabstract(value):
            found[value.name] = value
    return found


def _parts(model: Path) -> tuple[Path | None, str | None]:
    """The file and the name of a model that is code; None for another."""
    if model.suffix == ".py":
        return model, None
    file, _, name = str(model).rpartition(":")
    return (Path(file), name) if file.endswith(".py") and name.isidentifier() else (None, None)


def run_file(file: Path) -> ModuleType:
    """The file as an imported module; it imports its neighbours as a script that Python is given does."""
    if not file.is_file():
        raise CompileError(f"{file}: there is no such file")
    name = f"_legato_code_{next(_NUMBERS)}_{file.stem}"  # files of several folders may be called alike
    spec = spec_from_file_location(name, file.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)  # where decorators look for the names around a script
    try:
        with _neighbours(str(file.resolve().parent)):
            spec.loader.exec_module(module)
    except LegatoError:
        raise
    except (Exception, SystemExit) as error:
        raise CompileError(f"{file} raised {type(error).__name__}: {error}") from error
    return module


@contextmanager
def _neighbours(folder: str) -> Iterator[None]:
    """Inside, imports find the modules of `folder`, not those of one name that files of other folders have imported.

    Afterwards a name that two folders have stands for neither: a late import fails, and gets nobody else's.
    """
    own = _NEIGHBOURS.setdefault(folder, {})
    for found in _NEIGHBOURS.values():
        for name in found:
            sys.modules.pop(name, None)
    sys.modules.update(own)
    known = set(sys.modules)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        own.update({name: m for name, m in sys.modules.items() if name not in known and _is_of(name, folder)})
        several = Counter(name for found in _NEIGHBOURS.values() for name in found)
        for name in own.keys() & {name for name, times in several.items() if times > 1}:
            sys.modules.pop(name, None)
        for found in _NEIGHBOURS.values():
            sys.modules.update({name: m for name, m in found.items() if several[name] == 1})


def _is_of(name: str, folder: str) -> bool:
    """Whether a module is one of the folder itself: a file in it, a package in it, or a part of such a package."""
    top = sys.modules.get(name.partition(".")[0])
    places = [*getattr(top, "__path__", ()), getattr(top, "__file__", None) or ""]
    return any(os.path.dirname(place) == folder for place in places)


def _program(module: ModuleType, file: Path, name: str | None) -> Any:
    """What the file makes under `name`, or the one program that it makes."""
    if name is not None and not hasattr(module, name):
        raise CompileError(f"{file} makes nothing called {name}")
    names = [n for n in vars(module) if not n.startswith("_")] if name is None else [name]
    found = {n: program for n in names if (program := _as_program(getattr(module, n))) is not None}
    distinct = {id(program) for program in found.values()}
    if not found:
        what = f"{name} of {file} is no program" if name else f"{file} makes no program"
        raise CompileError(what, hint="a module of @I.ir_module, a function of @R.function or @relay, a legato Module")
    if len(distinct) > 1:
        raise CompileError(f"{file} makes several programs: {', '.join(found)}", hint=f"{file}:{next(iter(found))}")
    return next(iter(found.values()))


def _as_program(value: Any) -> Any:
    """A value as a module; None for what is none."""
    from legato.ir.expr import Function, GlobalVar
    from legato.ir.module import Module
    from legato.tir.stmt import Func

    value = getattr(value, "module", value) if not isinstance(value, type | ModuleType) else value
    if isinstance(value, Function):
        return Module.from_expr(value)
    if isinstance(value, Func):
        return Module({GlobalVar(value.name): value})
    return value if isinstance(value, Module) else None
