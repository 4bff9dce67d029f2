"""Functions of a module that engines run: each is compiled by its generator, and calls what that has made.

    def @f(%x: Tensor[(n, 4), float32], Compiler="c") { … }
        =>
    def @f(%x: Tensor[(n, 4), float32]) { call_pure_packed((%x,), name="c.f", shapes=[[n, 4]], dtypes=[float32]) }

From there on the engine is a packed function like any other: passes see a call that they know nothing about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, UnsupportedError
from legato.base.spelling import several
from legato.infer.infer import infer
from legato.ir._dims import free_dims
from legato.ir.contents import body_nodes
from legato.ir.expr import Call, Expr, Function, GlobalVar, Tuple, TupleGetItem
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.packed import CALL_PURE_PACKED, PackedAttrs
from legato.ir.scope import post_order
from legato.ir.types import TensorType, TupleType, Type, walk
from legato.lower.supported import reachable
from legato.ops import table
from legato.runtime.engines import ENGINE, FUNCTION, Engine, by_name, loaded, restored
from legato.runtime.program import ExternalInfo
from legato.transform._external import ONLY_THEIRS, SYMBOL, compiler_of, is_external
from legato.transform._types import bound_dims
from legato.transform.outline_external import OutlineExternal
from legato.transform.to_a_normal import ToANormal

__all__ = ["External", "engine_of", "require_generators", "taken_out"]


@dataclass(frozen=True, slots=True, eq=False)
class External:
    """A function that an engine runs, and what a file has of it."""

    info: ExternalInfo
    engine: Engine
    data: bytes


def require_generators(mod: Module, generators: Iterable[Any] = ()) -> dict[str, Any]:
    """Those of the generators, by name, that functions of `mod` are for, local ones too; UnsupportedError where one is
    not there."""
    known = by_name(generators)
    found: dict[str, Any] = {}
    for gv, func in mod.graph_functions():
        for node in filter(is_external, (func, *body_nodes(func))):
            compiler = str(compiler_of(node))
            if compiler not in known:
                raise UnsupportedError(
                    f"@{gv.name} has a function for the compiler {compiler!r}, and there is none",
                    span=node.span,
                    hint=f"give it, {several('generators')}; without the attribute Compiler Legato compiles it",
                )
            found[compiler] = known[compiler]
    return found


def taken_out(
    mod: Module, generators: Iterable[Any], packed: Mapping[str, object] | None
) -> tuple[Module, tuple[External, ...], Mapping[str, object] | None]:
    """`mod` with calls of engines in place of the functions that @main may come to; these; `packed` with the engines.

    UnsupportedError for a generator that is not given, and for functions that are more than operators on tensors;
    GeneratorError for what a generator fails at; CompileError where a packed function has the name of an engine.
    """
    known = require_generators(mod, generators)
    if not known:
        return mod, (), packed
    mod = OutlineExternal()(infer(mod))
    live = reachable(mod, "main").functions
    found: list[External] = []
    functions = dict(mod.functions)
    for gv, func in mod.functions.items():
        if is_external(func) and gv in live:
            functions[gv] = ToANormal().function(_calling(gv, func), mod)
            found.append(_compiled(known[str(compiler_of(func))], func.with_attr(SYMBOL, gv.name), gv.name))
    return mod.with_functions(functions), tuple(found), _with_engines(found, packed)


def _compiled(generator: Any, func: Function, symbol: str) -> External:
    run = restored(partial(generator.compile, func), generator.name, symbol, "compile")
    if callable(getattr(generator, "load", None)) and callable(getattr(run, "to_bytes", None)):
        data, stored = bytes(restored(run.to_bytes, generator.name, symbol, "to_bytes")), ENGINE
        again: Callable[[], Engine] = partial(loaded, generator, symbol, data)
    else:
        from legato.generators._stored import to_bytes  # only for such functions: it brings the parser

        data, stored = to_bytes(func), FUNCTION
        again = partial(engine_of, generator, symbol, data)
    return External(ExternalInfo(generator.name, symbol, stored), Engine.of(run, generator.name, symbol, again), data)


def engine_of(generator: Any, symbol: str, data: bytes, ops: Mapping[str, Op] | None = None) -> Engine:
    """The engine of a function that is stored as `data`, compiled once more."""
    from legato.generators._stored import from_bytes  # only for such functions: it brings the parser

    func = from_bytes(data, f"@{symbol}", table() if ops is None else ops)
    run = restored(partial(generator.compile, func), generator.name, symbol, "compile")
    return Engine.of(run, generator.name, symbol, partial(engine_of, generator, symbol, data, ops))


def _with_engines(externals: Iterable[External], packed: Mapping[str, object] | None) -> Mapping[str, object]:
    engines = {e.info.name: e.engine for e in externals}
    taken = [name for name in engines if name in (packed or {})]
    if taken:
        raise CompileError(f"packed: {taken[0]!r} is the name of a generator's function", hint="give it another one")
    return {**(packed or {}), **engines}


# ---------------------------------------------------------------------------------------------------- calls


def _calling(gv: GlobalVar, func: Function) -> Function:
    """The function that calls the engine of `func`."""
    ret = _require_plain(gv, func)
    tensors = list(_tensors(ret))
    attrs = PackedAttrs(
        f"{compiler_of(func)}.{gv.name}", tuple(t.shape for t in tensors), tuple(t.dtype for t in tensors)
    )
    types = tuple(p.ty for p in func.params if p.ty is not None)
    args = Tuple(func.params, ty=TupleType(types), span=func.span)
    flat: Type = tensors[0] if len(tensors) == 1 else TupleType(tuple(tensors))
    call = Call(CALL_PURE_PACKED, (args,), attrs, ty=flat, span=func.span)
    parts = [call] if len(tensors) == 1 else [TupleGetItem(call, n, ty=t) for n, t in enumerate(tensors)]
    body = call if ret == flat else _nested(ret, iter(parts))
    kept = {name: value for name, value in func.attrs.items() if name not in ONLY_THEIRS}
    return replace(func, body=body, attrs=kept)


def _nested(ty: Type, parts: Any) -> Expr:
    """A value of type `ty` of tensors (types nest shallowly)."""
    return Tuple(tuple(_nested(f, parts) for f in ty.fields), ty=ty) if isinstance(ty, TupleType) else next(parts)


def _tensors(ty: Type) -> Iterable[TensorType]:
    return (part for part in walk(ty) if isinstance(part, TensorType))


def _require_plain(gv: GlobalVar, func: Function) -> Type:
    """The type of what a function for a generator gives; UnsupportedError where it is no function for one."""
    what = f"@{gv.name}, a function for the generator {compiler_of(func)!r},"
    ret = func.body.checked_type
    types = [p.checked_type for p in func.params]
    for ty in (*types, ret):
        if not all(isinstance(part, TensorType | TupleType) for part in walk(ty)):
            raise UnsupportedError(f"{what} takes or gives {ty}", span=func.span, hint="tensors, and tuples of them")
    if not any(True for _ in _tensors(ret)):
        raise UnsupportedError(f"{what} gives no tensor", span=func.span, hint="let it give one, or a tuple of them")
    if untold := [d for d in free_dims(ret) if d not in bound_dims(types)]:
        hint = "its extents are those of what it is given, or computed from these"
        raise UnsupportedError(
            f"{what} gives a tensor whose extent {untold[0].name} is its own", span=func.span, hint=hint
        )
    for node in post_order(func.body):
        if isinstance(node, GlobalVar):
            hint = "write its body in place of the call (relay.transform.Inline)"
            raise UnsupportedError(f"{what} calls @{node.name}", span=node.span, hint=hint)
    return ret
