"""What lies between `compiler_begin` and `compiler_end` becomes a function of the module, for its code generator.

end(exp(tanh(begin(%x))))      =>      @c_main_0(%x)      def @c_main_0(%x, Compiler="c", …) { exp(tanh(%x)) }

A region that gives several values gives a tuple. Constants belong to the function, or are passed. A region that uses
a dim that no parameter has as an extent stays in the program, without its annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.ir._dims import free_dims
from legato.ir.expr import Call, Constant, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var
from legato.ir.module import GlobalFunc, Module
from legato.ir.scope import operands, post_order
from legato.ir.types import FuncType, TupleType, Type
from legato.ir.visit import with_operands
from legato.transform._closures import Names
from legato.transform._compiler_regions import Regions, is_begin, is_end
from legato.transform._copy import Copy
from legato.transform._external import COMPILER, SYMBOL, is_closed, is_own
from legato.transform._types import bound_dims
from legato.transform.pass_ import Pass
from legato.transform.to_graph import named_dims

__all__ = ["PartitionGraph"]


@dataclass(frozen=True, slots=True)
class PartitionGraph(Pass):
    """Module → module with a function for every region, called `prefix` NAME_FUNCTION_NUMBER.

    bind_constants: constants that go into a region are in its function. CompileError where annotations do not fit each
    other.
    """

    name = "partition-graph"
    prefix: str = ""
    bind_constants: bool = True

    def __call__(self, mod: Module) -> Module:
        names = Names(mod)
        functions: dict[GlobalVar, GlobalFunc] = {}
        for gv, func in mod.functions.items():
            functions[gv] = func
            if is_own(func) and any(map(is_end, post_order(func.body))):
                cut = _Cut(self, gv, func, names)
                functions[gv] = replace(func, body=cut.run())
                functions.update(cut.made)
        return mod.with_functions(functions)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A region: its nodes, what goes into it, and the values that come out."""

    inside: Sequence[Expr]
    inputs: Sequence[Expr]
    outputs: Sequence[Expr]


class _Cut:
    """Cuts the regions out of one function."""

    def __init__(self, options: PartitionGraph, gv: GlobalVar, func: Function, names: Names) -> None:
        self._options, self._gv, self._func, self._names = options, gv, func, names
        self._regions = Regions(func)
        self._parts = self._found()
        self._results: dict[int, list[Expr]] = {}  # of the call of a region's function
        self.made: dict[GlobalVar, GlobalFunc] = {}

    def run(self) -> Expr:
        """The body of the function."""
        new: dict[int, Expr] = {}
        for node in self._in_turn():
            part = self._part(node)
            if part is not None:
                new[id(node)] = self._value(node, part, new)
            elif is_begin(node) or is_end(node):
                new[id(node)] = new[id(operands(node)[-1])]
            else:
                new[id(node)] = with_operands(node, new)
        return new[id(self._func.body)]

    def _found(self) -> dict[int, _Part]:
        """The regions that can be functions."""
        outputs: dict[int, dict[int, Expr]] = {}
        for end in filter(is_end, self._regions.order):
            value = operands(end)[-1]
            outputs.setdefault(self._regions.group(end), {})[id(value)] = value
        found: dict[int, _Part] = {}
        for region, inside in self._regions.inside().items():
            part = _Part(inside, self._inputs(inside), list(outputs[region].values()))
            told = bound_dims(e.ty for e in part.inputs if e.ty is not None)
            if told.issuperset(d for node in inside for d in (*named_dims(node), *_dims(node))):
                found[region] = part
        return found

    def _inputs(self, inside: Sequence[Expr]) -> list[Expr]:
        found: dict[int | Var, Expr] = {}
        for node in inside:
            for operand in operands(node):
                source = _source(operand)
                is_bound = isinstance(source, Constant) and self._options.bind_constants
                if isinstance(source, Var) or (is_begin(operand) and not is_bound):
                    found.setdefault(source if isinstance(source, Var) else id(source), source)
        return list(found.values())

    def _part(self, node: Expr) -> _Part | None:
        """The region that gives its value here."""
        return self._parts.get(self._regions.group(node)) if is_end(node) else None

    def _in_turn(self) -> list[Expr]:
        """The nodes outside of regions, operands first, and for a region all that goes into it."""
        found: list[Expr] = []
        seen: set[int] = set()
        stack: list[tuple[Expr, bool]] = [(self._func.body, False)]
        while stack:
            node, done = stack.pop()
            if done:
                found.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                part = self._part(node)
                below = () if is_closed(node) else operands(node) if part is None else part.inputs
                stack.append((node, True))
                stack += [(kid, False) for kid in reversed(below) if id(kid) not in seen]
        return found

    def _value(self, end: Expr, part: _Part, new: dict[int, Expr]) -> Expr:
        """What the call of a region's function gives here."""
        region = self._regions.group(end)
        if region not in self._results:
            if any(id(e) not in new for e in part.inputs):
                raise CompileError("a region for another code generator uses what is computed from it", span=end.span)
            self._results[region] = self._called(self._regions.compiler[region], part, new)
        at = next(n for n, value in enumerate(part.outputs) if value is operands(end)[-1])
        return self._results[region][at]

    def _called(self, compiler: str, part: _Part, new: dict[int, Expr]) -> list[Expr]:
        """The values of a region's call; its function is one of the module then."""
        prefix = f"{self._options.prefix}{compiler}_{self._gv.name}"
        name = self._names.new(f"{prefix}_{len(self.made)}")
        func, dims = _function(part, {COMPILER: compiler, SYMBOL: name, "Primitive": 1, "Inline": 1})
        gv = GlobalVar(name, ty=func.ty)
        self.made[gv] = func
        span = part.outputs[-1].span
        types = tuple(_type(e) for e in part.outputs)
        ty = types[0] if len(types) == 1 else TupleType(types)
        call = Call(gv, tuple(new[id(e)] for e in part.inputs), None, dims, ty=ty, span=span)
        if len(types) == 1:
            return [call]
        return [TupleGetItem(call, n, ty=t, span=span) for n, t in enumerate(types)]


def _function(part: _Part, attrs: dict[str, object]) -> tuple[Function, tuple[DimVar, ...]]:
    """The function of a region, and the dims around it that its own stand for."""
    told = tuple(dict.fromkeys(d for e in part.inputs for d in free_dims(_type(e))))
    copy = Copy(dims={d: fresh(d.name, d.lo, d.hi) for d in told})
    params = tuple(Var(_name(e, n), ty=copy.type(_type(e)), span=e.span) for n, e in enumerate(part.inputs))
    new: dict[int, Expr] = {id(e): p for e, p in zip(part.inputs, params, strict=True)}
    by_var = {e: p for e, p in zip(part.inputs, params, strict=True) if isinstance(e, Var)}
    for node in part.inside:
        for operand in operands(node):
            source = _source(operand)
            new[id(operand)] = by_var[source] if isinstance(source, Var) else new.get(id(source), source)
        kids = tuple(new[id(operand)] for operand in operands(node))
        new[id(node)] = copy.node(node, kids)
    results = tuple(new[id(e)] for e in part.outputs)
    body = results[0] if len(results) == 1 else Tuple(results, ty=TupleType(tuple(map(_type, results))))
    own = tuple(d for d in map(copy.dims.get, told) if isinstance(d, DimVar))
    ty = FuncType(tuple(map(_type, params)), _type(body), own)
    return Function(params, body, ty.ret, own, attrs, ty=ty, span=body.span), told


def _source(operand: Expr) -> Expr:
    return operands(operand)[-1] if is_begin(operand) else operand


def _name(e: Expr, n: int) -> str:
    return e.name if isinstance(e, Var) else f"i{n}"


def _type(e: Expr) -> Type:
    return e.checked_type


def _dims(node: Expr) -> tuple[DimVar, ...]:
    return () if node.ty is None else free_dims(node.ty)
