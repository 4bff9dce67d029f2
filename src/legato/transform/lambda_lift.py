"""Local functions become functions of the module, which take what they use of their surroundings as parameters.

    let %loop = fn (%i) { … %loop(%i - 1) … %n … };      =>      @main_loop(%n, 10)
    %loop(10)                                                    def @main_loop(%n, %i) { … @main_loop(%n, %i - 1) … }

A function that is a value, too, leaves a closure in its place: a function that only calls the one of the module, with
values of its surroundings first and its own parameters last (`closure_call`).

    map(fn (%x) { %x + %n }, %xs)      =>      let %f = fn (%x) { @main_f(%n, %x) }; map(%f, %xs)

Dims of the surroundings become type parameters, and where no parameter would give them their values, they are passed
as a shape. Functions that held functions come out in A-normal form. After Johnsson, "Lambda lifting" (1985).
"""

from __future__ import annotations

from collections.abc import Collection, Container

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.base.dataclass import dataclass
from legato.base.node import rebuild
from legato.ir.atoms import is_primitive
from legato.ir.call_tir import CALL_TIR
from legato.ir.contents import body_nodes
from legato.ir.expr import Call, Constructor, Expr, Function, GlobalVar, Let, Shape, Var
from legato.ir.module import GlobalFunc, Module
from legato.ir.op import Op
from legato.ir.scope import operands, post_order
from legato.ir.types import Dim, FuncType, ShapeType, Type, TypeVar
from legato.transform._closures import Names, closure, is_closure
from legato.transform._copy import Copy
from legato.transform._external import is_own
from legato.transform._scan import Local, Scan
from legato.transform._types import bound_dims
from legato.transform._values import written_out
from legato.transform.pass_ import Pass
from legato.transform.place_shared import PlaceShared
from legato.transform.to_a_normal import ToANormal

__all__ = ["LambdaLift", "lifted"]


@dataclass(frozen=True, slots=True)
class LambdaLift(Pass):
    """Module → module whose local functions are closures of functions of the module."""

    name = "lambda-lift"

    def __call__(self, mod: Module) -> Module:
        mod = PlaceShared()(mod)
        names = Names(mod)
        functions: dict[GlobalVar, GlobalFunc] = {}
        for gv, func in mod.functions.items():
            functions[gv] = func
            if is_own(func) and _has_work(func):
                normal = ToANormal().function(written_out(func, mod), mod)
                functions.update(_Lifter(gv, normal, names).run())
        return mod.with_functions(functions)


def lifted(mod: Module, wanted: Collection[Function]) -> Module:
    """`mod`, in A-normal form, with these local functions as functions of the module; other closures hold what they
    did. Functions with polymorphic closures besides stay as they are: what types these hold for is not looked at."""
    names = Names(mod)
    functions: dict[GlobalVar, GlobalFunc] = {}
    for gv, func in mod.functions.items():
        functions[gv] = func
        inner = [n for n in body_nodes(func) if isinstance(n, Function)] if isinstance(func, Function) else []
        if is_own(func) and any(n in wanted for n in inner) and all(n in wanted or not n.type_params for n in inner):
            functions.update(_Lifter(gv, func, names, wanted).run())
    return mod.with_functions(functions)


def _has_work(func: Function) -> bool:
    """True if there is a local function other than a closure that is a value, or a global function as a value."""
    closures: set[Var] = set()
    called: set[Expr] = set()
    others = 0
    for node in body_nodes(func):
        if isinstance(node, Function):
            others += not is_primitive(node)
        elif isinstance(node, Let) and is_closure(node.var, node.value):
            closures.add(node.var)
            others -= 1
        elif isinstance(node, Call) and isinstance(node.op, Var):
            called.add(node.op)
        if _has_global_value(node):
            return True
    return others > 0 or not closures.isdisjoint(called)


def _has_global_value(node: Expr) -> bool:
    values = operands(node)
    if isinstance(node, Call):
        values = () if node.op is CALL_TIR else node.args
    return any(isinstance(v, Op | Constructor | GlobalVar) for v in values)


@dataclass(frozen=True, eq=False, slots=True)
class _Lifted:
    """What a local function becomes: the function that is called, what is passed first, and how its body is copied."""

    gv: GlobalVar
    held: tuple[Expr, ...]
    params: tuple[Var, ...]
    ty: FuncType
    copy: Copy


class _Lifter:
    """One function of the module, in A-normal form."""

    def __init__(self, gv: GlobalVar, func: Function, names: Names, wanted: Container[Function] | None = None) -> None:
        self._gv, self._func = gv, func
        self._scan = Scan(func, wanted)
        self._lifted = {
            local.var: _signature(local, names.new(f"{gv.name}_{local.var.name}"))
            for local in self._scan.locals
            if local.var is not None
        }
        self._by_node = {id(local.node): local for local in self._scan.locals}
        self._made: dict[GlobalVar, GlobalFunc] = {}

    def run(self) -> dict[GlobalVar, GlobalFunc]:
        """The function without local functions but closures, and those that were in it."""
        new: dict[int, Expr] = {}
        for node in post_order(self._func):
            local = self._by_node.get(id(node))
            if local is not None:
                new[id(node)] = self._lift(local, new[id(local.node.body)])
            elif isinstance(node, Let) and node.var in self._lifted:
                home = self._by_node[id(node.value)].parent
                assert home is not None
                body = new[id(node.body)]
                new[id(node)] = self._bound(node.var, body) if node.var in home.values else body
            elif isinstance(node, Call) and isinstance(node.op, Var) and node.op in self._lifted:
                new[id(node)] = self._call(node, tuple(new[id(a)] for a in node.args))
            else:
                new[id(node)] = rebuild(node, new)
        made = new[id(self._func)]
        assert isinstance(made, Function)
        return {self._gv: made, **self._made}

    def _lift(self, local: Local, body: Expr) -> Expr:
        """Defines the function of the module; what stands in its place is replaced where it is bound."""
        assert local.var is not None
        lifted = self._lifted[local.var]
        homes = (v for v in local.values if self._scan.by_var[v].parent is not local)
        for var in homes:
            body = self._bound(var, body)
        attrs = lifted.copy.function_attrs(local.node)
        made = lifted.copy.expr(body)
        self._made[lifted.gv] = Function(
            lifted.params, made, lifted.ty.ret, lifted.ty.type_params, attrs, ty=lifted.ty, span=local.node.span
        )
        return local.node

    def _bound(self, var: Var, body: Expr) -> Let:
        """`body` with the closure of a local function bound before it."""
        local, lifted = self._scan.by_var[var], self._lifted[var]
        ty = local.node.ty
        assert isinstance(ty, FuncType)
        made = closure(lifted.gv, lifted.held, _outer(local), ty, local.node.span)
        return Let(var, made, body, ty=body.ty, span=local.node.span)

    def _call(self, call: Call, args: tuple[Expr, ...]) -> Call:
        assert isinstance(call.op, Var)
        local, lifted = self._scan.by_var[call.op], self._lifted[call.op]
        given = (*_outer(local), *call.type_args)
        return Call(lifted.gv, (*lifted.held, *args), None, given, ty=call.ty, span=call.span)


def _outer(local: Local) -> tuple[Type | Dim, ...]:
    """The type variables and dims of its surroundings that a local function uses."""
    return (*local.type_vars, *local.dims)


def _signature(local: Local, name: str) -> _Lifted:
    """What a local function becomes; its types, dims and variables are its own."""
    func = local.node
    old = (*local.type_vars, *local.dims, *func.type_params)
    types = {v: TypeVar(v.name, v.kind) for v in old if isinstance(v, TypeVar)}
    dims = {d: fresh(d.name, d.lo, d.hi) for d in old if isinstance(d, DimVar)}
    copy = Copy(types, dims)
    known = bound_dims(v.ty for v in (*local.captured, *func.params) if v.ty is not None)
    unknown = tuple(d for d in local.dims if d not in known)
    shape = Shape(unknown, ty=ShapeType(unknown), span=func.span)
    passed = (Var("dims", ty=copy.type(ShapeType(unknown)), span=func.span),) if unknown else ()
    params = (*passed, *(copy.bind(v) for v in local.captured), *(copy.bind(p) for p in func.params))
    assert isinstance(func.ty, FuncType)
    own = tuple(types[v] if isinstance(v, TypeVar) else dims[v] for v in old)  # in the order in which calls give them
    ty = FuncType(tuple(p.ty for p in params if p.ty is not None), copy.type(func.ty.ret), own)
    held = ((shape,) if unknown else ()) + tuple(local.captured)
    return _Lifted(GlobalVar(name, ty=ty, span=func.span), held, params, ty, copy)
