"""Whether a module is well-formed. What every pass may assume and must leave:

Module     functions and data types are called by different names; a data type's constructors know their type and
           position; every function that is named is defined, and call_tir names a tensor program.
Scoping    a variable is bound once in a function, and used only inside what binds it: a node that is used in several
           places sees the variables that all of them see. A let's own variable is seen by its value too.
Calls      an operator has one argument per name of its record and attributes of its class; other callees have none.
Patterns   a constructor has one pattern per input; constructors are those of the module's data types.
Dataflow   no references are made, read or written in it, nor by functions that it calls, but in such as it defines.
Types      where nodes have types, these agree in structure, rank and dtype: a tuple's with its fields', a let's with
           its body's, a function's with its parameters' and result's, …; a variable's uses with its binding. Constants
           are read-only and have the type of their array. Dims are of dtype index. Kinds are right: data types are
           those of the module and have the arguments that they take.

A stage promises more, see `Stage`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from legato.base import dtype as dt
from legato.base.errors import VerifyError
from legato.ir._check_types import agree, disagreement, has_hole, stated
from legato.ir.atoms import is_operand, is_primitive
from legato.ir.call_tir import CALL_TIR
from legato.ir.clauses import Pattern, PatternConstructor
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    Match,
    Shape,
    TupleGetItem,
    Var,
)
from legato.ir.kinds import data_kind_fault, kind_fault
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.purity import Purity, effects_in_dataflow
from legato.ir.scope import Placement, Scope, binders, bound_twice, operands, place, slots
from legato.ir.types import (
    Dim,
    FuncType,
    GlobalTypeVar,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeData,
    TypeVar,
    walk,
)

__all__ = ["Stage", "verify"]


class Stage(enum.Enum):
    """What holds beyond well-formedness.

    TYPED     every node but operators, constructors and globals has a type, without holes.
    A_NORMAL  operands are atoms: variables, globals, constants, operators, constructors, shapes, tuples of atoms, and
              functions with the attribute Primitive (whose bodies may be anything).
    """

    TYPED = "typed"
    A_NORMAL = "a-normal"


def verify(module: Module, stage: Stage | None = None) -> None:
    """Returns if the module is well-formed and keeps the promises of `stage`, else raises VerifyError."""
    constructors: dict[int, Constructor] = {}
    names: set[str] = set()
    for header, data in module.types.items():
        if header.name in names:
            raise VerifyError(f"two data types are called {header.name}")
        names.add(header.name)
        _type_data(header, data, module.types)
        constructors.update((id(c), c) for c in data.constructors)
    purity = cache(lambda: Purity(module.functions))  # looked at once, and only where there is a dataflow block
    for gv, func in module.functions.items():
        if isinstance(func, Function):
            _Function(module, constructors, gv, stage, purity).check(func)
        elif func.name != gv.name:
            raise VerifyError(f"the tensor program at @{gv.name} is called @{func.name}")


def _type_data(header: GlobalTypeVar, data: TypeData, types: Mapping[GlobalTypeVar, TypeData]) -> None:
    if data.header is not header:
        raise VerifyError(f"data type {header.name} is defined under the name of another type, {data.header.name}")
    names: set[str] = set()
    for i, c in enumerate(data.constructors):
        if c.belongs_to is not header or c.tag != i or c.name in names:
            got = f"{c.name} of {c.belongs_to.name} with tag {c.tag}"
            raise VerifyError(f"constructor {i} of data type {header.name} is {got}")
        names.add(c.name)
    fault = data_kind_fault(data, types)
    if fault is not None:
        raise VerifyError(fault.message, span=fault.span)


class _Function:
    """The check of one function."""

    def __init__(
        self,
        module: Module,
        constructors: dict[int, Constructor],
        gv: GlobalVar,
        stage: Stage | None,
        purity: Callable[[], Purity],
    ) -> None:
        self._module = module
        self._purity = purity
        self._constructors = constructors
        self._gv = gv
        self._stage = stage
        self._sound: set[int] = set()  # types that were checked, by identity; the program keeps them alive

    def check(self, func: Function) -> None:
        """Checks the function and everything in it."""
        placement = place(func)
        self._scoping(placement)
        self._pure_blocks(placement)
        for node in placement.order:
            self._node(node)
            for ty in (node.ty, *stated(node)):
                if ty is not None:
                    self._type(node, ty)
            self._agreement(node)
        if self._stage is Stage.A_NORMAL:
            self._a_normal(placement.order)

    def _error(self, node: Expr | None, message: str, details: Sequence[str] = ()) -> VerifyError:
        return VerifyError(f"@{self._gv.name}: {message}", span=None if node is None else node.span, details=details)

    # ------------------------------------------------------------------ scoping

    def _scoping(self, placement: Placement) -> None:
        twice = bound_twice(placement)
        if twice is not None:
            var, places = twice
            raise self._error(var, f"variable %{var.name} is bound twice", places)
        home: dict[Var, tuple[Scope, Var]] = {}
        for node in placement.order:
            for scope, variables in zip(placement.inner.get(id(node), ()), binders(node), strict=True):
                home.update((var, (scope, var)) for var in variables)
        for node in placement.order:
            own = placement.of[id(node)]
            for kid, slot in zip(operands(node), slots(node), strict=True):
                if isinstance(kid, Var):
                    self._use(kid, own if slot < 0 else placement.inner[id(node)][slot], home)

    def _use(self, var: Var, scope: Scope, home: dict[Var, tuple[Scope, Var]]) -> None:
        if var not in home:
            raise self._error(var, f"variable %{var.name} is not bound")
        bound_in, bound = home[var]
        if not bound_in.encloses(scope):
            raise self._error(var, f"variable %{var.name} is used outside the scope that binds it")
        if not agree(var.ty, bound.ty):
            details = [f"bound with {bound.ty}", f"used with  {var.ty}"]
            raise self._error(var, f"variable %{var.name} has two types", details)

    # ------------------------------------------------------------------ nodes

    def _node(self, node: Expr) -> None:
        match node:
            case GlobalVar() if node not in self._module.functions:
                raise self._error(node, f"function @{node.name} is not defined")
            case Call():
                self._call(node)
            case TupleGetItem():
                self._projection(node)
            case Match(_, clauses):
                for clause in clauses:
                    self._pattern(node, clause.pattern)
            case Constructor():
                self._constructor(node, node)
            case Constant(data) if data.flags.writeable:
                raise self._error(node, "a constant's array can be written", ["build constants with ir.constant"])
            case Shape(dims):
                self._dims(node, dims)

    def _call(self, node: Call) -> None:
        op = node.op
        if not isinstance(op, Op):
            if node.attrs is not None:
                raise self._error(node, f"only operators take attributes, got {node.attrs!r}")
            self._type_args(node)
            return
        if len(node.args) != len(op.args):
            names = ", ".join(op.args) or "none"
            raise self._error(node, f"{op.name} has {len(node.args)} arguments, wanted {len(op.args)}: {names}")
        wanted = type(None) if op.attrs is None else op.attrs
        if type(node.attrs) is not wanted:
            got = type(node.attrs).__name__
            raise self._error(node, f"{op.name} has attributes of class {got}, wanted {wanted.__name__}")
        if op is CALL_TIR and not self._is_program(node.args[0]):
            raise self._error(node, f"call_tir needs a tensor program of the module, got {node.args[0]!r}")

    def _type_args(self, node: Call) -> None:
        callee = self._module.functions.get(node.op) if isinstance(node.op, GlobalVar) else node.op
        func = callee if isinstance(callee, Function) else node.op.ty
        params = func.type_params if isinstance(func, Function | FuncType) else ()
        if len(params) != len(node.type_args):
            return  # none are stated before inference
        for param, arg in zip(params, node.type_args, strict=True):
            if isinstance(param, TypeVar) != isinstance(arg, Type):
                wanted = "a type" if isinstance(param, TypeVar) else "a dim"
                raise self._error(node, f"type parameter {param.name} of {node.op!r} is given {arg}, wanted {wanted}")

    def _projection(self, node: TupleGetItem) -> None:
        count = len(node.value.ty.fields) if isinstance(node.value.ty, TupleType) else None
        if node.index < 0 or (count is not None and node.index >= count):
            raise self._error(node, f"there is no field {node.index} in a tuple of type {node.value.ty}")

    def _is_program(self, callee: Any) -> bool:
        return isinstance(callee, GlobalVar) and not isinstance(self._module.functions.get(callee), Function | None)

    def _pattern(self, node: Expr, pattern: Pattern) -> None:
        todo = [pattern]
        while todo:
            top = todo.pop()
            if isinstance(top, PatternConstructor):
                self._constructor(node, top.constructor)
                got, wanted = len(top.patterns), len(top.constructor.inputs)
                if got != wanted:
                    name = top.constructor.name
                    raise self._error(node, f"a pattern of constructor {name} has {got} parts, wanted {wanted}")
            todo += top.children()

    def _constructor(self, node: Expr, constructor: Constructor) -> None:
        if id(constructor) not in self._constructors:
            type_name = constructor.belongs_to.name
            raise self._error(node, f"constructor {constructor.name} of {type_name} is not one of the module's")

    def _pure_blocks(self, placement: Placement) -> None:
        if any(isinstance(node, Dataflow) for node in placement.order):
            for node, effect in effects_in_dataflow(placement, self._purity()):
                raise self._error(node, f"a dataflow block {effect}", [f"it evaluates {node!r}"])

    def _a_normal(self, order: Sequence[Expr]) -> None:
        inside: set[int] = set()  # what only primitive functions hold
        for node in reversed(order):
            if id(node) in inside or is_primitive(node):
                inside.update(id(kid) for kid in operands(node))
                continue
            for kid, slot in zip(operands(node), slots(node), strict=True):
                if slot < 0 and not is_operand(kid):
                    raise self._error(node, f"an operand of {node!r} is no atom: {kid!r}")

    # ------------------------------------------------------------------ types

    def _type(self, node: Expr, ty: Type) -> None:
        if id(ty) in self._sound:
            return
        self._sound.add(id(ty))
        if self._stage is Stage.TYPED and has_hole(ty):
            raise self._error(node, f"type {ty} has holes")
        fault = kind_fault(ty, self._module.types)
        if fault is not None:
            raise self._error(node, fault)
        for part in walk(ty):
            if isinstance(part, TensorType):
                self._dims(node, part.shape)
            elif isinstance(part, ShapeType):
                self._dims(node, part.dims or ())

    def _dims(self, node: Expr, dims: Sequence[Dim]) -> None:
        for dim in dims:
            if dim.dtype != dt.index:
                raise self._error(node, f"dim {dim} has dtype {dim.dtype}, wanted index")

    def _agreement(self, node: Expr) -> None:
        if self._stage is Stage.TYPED and node.ty is None and not isinstance(node, Op | Constructor | GlobalVar):
            raise self._error(node, f"{node!r} has no type")
        found = disagreement(node)
        if found is not None:
            carried, wanted = found
            details = [f"it carries   {carried}", f"its parts say {wanted}"]
            raise self._error(node, f"the type of {node!r} does not fit its parts", details)
