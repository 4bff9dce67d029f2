"""Products with constant weights of parts of a tensor that a recursion passes on are made before it, all at once.

    @node(%xs, %tree) { … nn.dense(take(%xs, %i, axis=0), W) … @node(%xs, …) … }
    @node(%xs, %tree)

    =>      @node(%xs, %xs_w, %tree) { … take(%xs_w, %i, axis=0) … @node(%xs, %xs_w, …) … }
            @node(%xs, nn.dense(%xs, W), %tree)

One product of many rows reads the weight once, and not once per row. It pays where the recursion comes to most rows of
the tensor, which no type says: the pass is not among the default ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.graph import components
from legato.base.node import post_order, rebuild
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Expr, Function, GlobalVar, Var
from legato.ir.module import GlobalFunc, Module
from legato.ir.types import FuncType, TensorType
from legato.ops.index import take
from legato.ops.linalg import dense
from legato.transform._call_graph import callees, values
from legato.transform._projection import projected, projected_type
from legato.transform.pass_ import Pass

__all__ = ["HoistProjections"]


@dataclass(frozen=True, slots=True)
class HoistProjections(Pass):
    """Module → module; after passes that leave no functions as values, in graph form (no lets)."""

    name = "hoist-projections"

    def __call__(self, mod: Module) -> Module:
        for gv in mod.functions:
            stay = 0
            while stay < len(products := _products(mod[gv])):
                new = _hoisted(mod, gv, products[stay])
                stay += new is mod
                mod = new  # where what was hoisted is no product any more
        return mod


def _products(func: GlobalFunc) -> list[Call]:
    """The products with constants of parts of parameters of `func`."""
    nodes = post_order([func.body]) if isinstance(func, Function) else ()
    return [node for node in nodes if isinstance(node, Call) and _is_product(node, func.params)]


def _is_product(node: Call, params: Sequence[object]) -> bool:
    if node.op is not dense or not isinstance(node.args[1], Constant):
        return False
    data = node.args[0]
    return isinstance(data, Call) and data.op is take and data.attrs.axis == 0 and data.args[0] in params


def _hoisted(mod: Module, gv: GlobalVar, product: Call) -> Module:
    """`mod` with `product`, in function `gv`, made before the recursion; `mod` itself if there is none."""
    calls = callees(mod)
    circle = next(set(c) for c in components(calls) if gv in c)
    part = product.args[0]
    assert isinstance(part, Call)
    source = part.args[0]
    assert isinstance(source, Var)
    is_recursive = len(circle) > 1 or gv in calls[gv]
    passed = _passed_on(mod, circle, gv, source) if is_recursive else None
    named = values(mod)
    if passed is None or any(g.name == "main" or g in named for g in passed):
        return mod
    own = {g: _projection(var, product) for g, var in passed.items()}
    functions = dict(mod.functions)
    for g, func in mod.graph_functions():
        functions[g] = _Rewrite(mod, circle, passed, own, product).function(g, func)
    return mod.with_functions(functions)


def _passed_on(mod: Module, circle: set[GlobalVar], gv: GlobalVar, source: Var) -> dict[GlobalVar, Var] | None:
    """The parameters, by their functions, that within the `circle` of functions always are what `source` of `gv` is;
    None if something else may be passed for it."""
    found, todo = {gv: source}, [gv]
    while todo:
        callee = todo.pop()
        func = mod[callee]
        assert isinstance(func, Function)
        place = func.params.index(found[callee])
        for g in circle:
            caller = mod[g]
            assert isinstance(caller, Function)
            for call in _calls(caller, callee):
                given = call.args[place]
                if not isinstance(given, Var) or given not in caller.params or found.get(g, given) is not given:
                    return None
                if g not in found:
                    found[g] = given
                    todo.append(g)
    return found


def _calls(func: Function, callee: GlobalVar) -> list[Call]:
    return [node for node in post_order([func.body]) if isinstance(node, Call) and node.op == callee]


def _projection(source: Var, product: Call) -> Var:
    assert isinstance(source.ty, TensorType)
    return Var(f"{source.name}_w", ty=projected_type(source.ty, product))


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Functions with the projection as a parameter of those of the circle."""

    mod: Module
    circle: set[GlobalVar]
    passed: Mapping[GlobalVar, Var]
    own: Mapping[GlobalVar, Var]
    product: Call

    def function(self, gv: GlobalVar, func: Function) -> Function:
        """Function `gv` anew; the same object where nothing changes."""
        new: dict[int, Expr] = {}
        for node in post_order([func.body]):
            done = rebuild(node, new)
            if node is self.product:
                done = self._part(self.own[gv], done)
            elif isinstance(done, Call) and isinstance(done.op, GlobalVar) and done.op in self.passed:
                done = replace(done, args=(*done.args, self._given(gv, done)))
            new[id(node)] = done
        body = new[id(func.body)]
        if gv not in self.own:
            return func if body is func.body else replace(func, body=body)
        param = self.own[gv]
        ty = func.ty
        assert isinstance(ty, FuncType)
        assert param.ty is not None
        ty = FuncType((*ty.params, param.ty), ty.ret, ty.type_params)
        return replace(func, params=(*func.params, param), body=body, ty=ty)

    def _part(self, projection: Var, product: Expr) -> Expr:
        """The part of the projection that `product` is."""
        assert isinstance(product, Call)
        part = product.args[0]
        assert isinstance(part, Call)
        return replace(part, args=(projection, part.args[1]), ty=product.ty)

    def _given(self, gv: GlobalVar, call: Call) -> Expr:
        """The projection for a call from function `gv`."""
        if gv in self.circle:
            return self.own[gv]
        assert isinstance(call.op, GlobalVar)
        callee = self.mod[call.op]
        assert isinstance(callee, Function)
        data = call.args[callee.params.index(self.passed[call.op])]
        return projected(Builder(), data, self.product.args[1], self.product)
