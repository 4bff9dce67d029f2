"""The entry points of a program: its function @main, or @main's bodies for sizes of its dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from legato.arith.expr import const
from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.ir import expr as ir
from legato.ir.module import Module
from legato.lower.deferred import why_deferred
from legato.lower.hosts.program import HostProgram
from legato.lower.memory import peak_memory
from legato.lower.open_dims import open_dims
from legato.lower.signature import function_info
from legato.runtime.program import Deferred, DimInfo, FunctionInfo
from legato.runtime.size import Size

if TYPE_CHECKING:
    from legato.transform._sizes import Combination, Range

__all__ = ["Bodies", "entries"]


@dataclass(frozen=True, slots=True)
class Bodies:
    """The names of functions that are @main for sizes of its dims, and `main` as it is for all of them."""

    main: ir.Function
    names: tuple[str, ...]
    sizes: tuple[Combination, ...]


def entries(
    mod: Module, program: HostProgram, exports: Mapping[str, int], bodies: Bodies | None
) -> dict[str, FunctionInfo]:
    """The entry points by name; `exports` says where in the image functions begin."""

    def info(name: str) -> FunctionInfo:
        func = mod[name]
        assert isinstance(func, ir.Function)
        workspace, is_all = peak_memory(program.functions, program.plans, name)
        found = function_info(
            func,
            exports[name],
            workspace,
            mod.types,
            is_recursive=not is_all,
            is_tested=bool(program.tests),
            open_dims=open_dims(mod, func),
            shared=program.plans[name].shared,
        )
        return replace(found, deferred=_deferred(program, name, found))

    if bodies is None:
        return {"main": info("main")}
    own = [info(name) for name in bodies.names]
    names = tuple(f"main for {', '.join(map(_told, sizes.items()))}" for sizes in bodies.sizes)
    main = function_info(bodies.main, exports["main"], const(0), mod.types)
    if main.data_dims:
        raise UnsupportedError(
            f"several sizes of {', '.join(main.data_dims)}, which only tensors and shapes inside values have",
            hint="give one size or range, or an input, or a shape, that has the dim itself as an entry",
        )
    deferred = {d.output: d for body in own for d in body.deferred}
    workspace = _chosen(bodies.sizes, [body.workspace for body in own])
    in_place = tuple(pair for pair in own[0].in_place if all(pair in body.in_place for body in own))
    main = replace(main, bodies=names, workspace=workspace, deferred=tuple(deferred.values()), in_place=in_place)
    return {"main": main, **dict(zip(names, own, strict=True))}


def _deferred(program: HostProgram, name: str, info: FunctionInfo) -> tuple[Deferred, ...]:
    outputs = {word: int(which) for word, (kind, which) in enumerate(info.words) if kind == "output"}
    found = why_deferred(program, name, list(outputs), has_results=bool(info.results))
    return tuple(Deferred(outputs[word], why) for word, why in found.items())


def _told(dim: tuple[str, Range]) -> str:
    name, (lo, hi) = dim
    return f"{name} = {lo}" if lo == hi else DimInfo(name, lo, hi).range


def _chosen(sizes: Sequence[Combination], workspaces: Sequence[Size]) -> Size:
    """The workspace of the first combination of sizes that holds, the last if no other does."""
    *others, found = workspaces
    for combination, size in reversed(list(zip(sizes, others, strict=False))):
        if size != found:
            condition: Size = 1
            for name, (lo, hi) in combination.items():
                for part in _within(name, lo, hi):
                    condition = part if condition == 1 else ("and", condition, part)
            found = ("select", condition, size, found)
    return found


def _within(name: str, lo: int, hi: int | None) -> list[Size]:
    if lo == hi:
        return [("==", name, lo)]
    return [*([("<=", lo, name)] if lo else []), *([] if hi is None else [("<=", name, hi)])]
