"""Local functions for other code generators become functions of the module.

fn (%y: Tensor[(2), float32], Compiler="c") { exp(%y) }(%x)      =>      @c_main_0(%x)

The function is called as its attribute global_symbol says, if it has one. What it uses it has to be given: a function
that uses variables of its surroundings is a CompileError, as is one whose dims no parameter has as an extent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.base.node import transform
from legato.ir._dims import free_dims
from legato.ir.callees import Callees
from legato.ir.expr import Call, Expr, Function, GlobalVar, Var
from legato.ir.module import GlobalFunc, Module
from legato.ir.scope import post_order
from legato.ir.types import FuncType
from legato.ir.visit import free_vars
from legato.transform._closures import Names
from legato.transform._copy import Copy
from legato.transform._external import SYMBOL, compiler_of, is_external, is_own
from legato.transform._types import bound_dims
from legato.transform.eliminate_dead import EliminateDead
from legato.transform.pass_ import Pass
from legato.transform.to_graph import named_dims

__all__ = ["OutlineExternal"]


@dataclass(frozen=True, slots=True)
class OutlineExternal(Pass):
    """Typed module → module without local functions for other generators. `named`: only of those with a global_symbol;
    `compiler`: only of those of this generator."""

    name = "outline-external"
    named: bool = False
    compiler: str = ""

    def __call__(self, mod: Module) -> Module:
        functions: dict[GlobalVar, GlobalFunc] = dict(mod.functions)
        known, names = Callees(mod.functions), Names(mod)
        made: dict[Function, _Outlined] = {}
        for gv, func in mod.functions.items():
            wanted = [n for n in post_order(func.body) if self._is_wanted(n)] if is_own(func) else []
            for local in wanted:
                assert isinstance(local, Function)
                made.setdefault(local, _outlined(local, gv, names))
            if is_own(func) and wanted:
                functions[gv] = replace(func, body=transform(func.body, _Step(made, known)))
        functions.update((m.gv, m.func) for m in made.values())
        new = mod.with_functions(functions)
        if new is mod:
            return mod
        new = EliminateDead()(new)
        self._require_none(new)
        return new

    def _is_wanted(self, node: object) -> bool:
        if not is_external(node) or (self.named and SYMBOL not in node.attrs):
            return False
        return not self.compiler or compiler_of(node) == self.compiler

    def _require_none(self, mod: Module) -> None:
        for func in filter(is_own, mod.functions.values()):
            for node in filter(self._is_wanted, post_order(func.body)):
                hint = "call it where it is bound"
                raise CompileError(
                    f"a function for the generator {compiler_of(node)!r} is a value, and has dims of its surroundings",  # type: ignore[arg-type]
                    span=node.span,
                    hint=hint,
                )


@dataclass(frozen=True, slots=True, eq=False)
class _Outlined:
    """What a local function becomes; `dims` of its surroundings are the first that calls pass."""

    gv: GlobalVar
    func: Function
    dims: tuple[DimVar, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """Names in place of functions, and dims with their calls."""

    made: Mapping[Function, _Outlined]
    known: Callees

    def __call__(self, node: Expr) -> Expr | None:
        if isinstance(node, Function) and node in self.made and not self.made[node].dims:
            return self.made[node].gv
        if isinstance(node, Call) and isinstance(node.op, Function | Var):
            callee = self.known.of(node.op)
            found = self.made.get(callee) if isinstance(callee, Function) else None
            if found is not None:
                return replace(node, op=found.gv, type_args=(*found.dims, *node.type_args))
        return None


def _outlined(local: Function, gv: GlobalVar, names: Names) -> _Outlined:
    """`local`, in the function `gv`, as a function of the module."""
    compiler = compiler_of(local)
    what = f"a function for the generator {compiler!r}"
    if captured := free_vars(local):
        hint = "pass what it uses to it"
        raise CompileError(f"{what} uses %{captured[0].name} of its surroundings", span=local.span, hint=hint)
    inner = (*post_order(local.body), *local.params)
    used = dict.fromkeys(d for n in inner for d in (*named_dims(n), *(() if n.ty is None else free_dims(n.ty))))
    told = bound_dims(p.ty for p in local.params if p.ty is not None)
    outer = tuple(d for d in used if d not in local.type_params)
    if untold := [d for d in outer if d not in told]:
        hint = "give it a tensor that has the dim as an extent"
        raise CompileError(
            f"{what} uses the dim {untold[0].name}, which no parameter tells", span=local.span, hint=hint
        )
    copy = Copy(dims={d: fresh(d.name, d.lo, d.hi) for d in outer})
    new = copy.expr(local)
    assert isinstance(new, Function)
    own = (*(d for d in map(copy.dims.get, outer) if isinstance(d, DimVar)), *new.type_params)
    ty = new.checked_type
    assert isinstance(ty, FuncType)
    symbol = str(local.attrs.get(SYMBOL, f"{compiler}_{gv.name}"))
    found = names.new(symbol)
    if SYMBOL in local.attrs and found != symbol:
        raise CompileError(f"two functions are called @{symbol}", span=local.span, hint="its global_symbol says so")
    whole = FuncType(ty.params, ty.ret, own)
    new = replace(new, type_params=own, ty=whole, attrs={**new.attrs, SYMBOL: found})
    return _Outlined(GlobalVar(found, ty=whole, span=local.span), new, outer)
