"""Whole programs, differentiated: @main, and functions on pairs for all that it calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from legato.infer.builder import Builder
from legato.ir.clauses import Clause, PatternConstructor, PatternVar
from legato.ir.expr import Call, Constructor, Expr, Function, GlobalVar, Let, Match, Var, tuple_of
from legato.ir.let import lets
from legato.ir.module import Module
from legato.ir.scope import post_order
from legato.ir.types import UNIT, FuncType, GlobalTypeVar, TupleType, Type, TypeData
from legato.transform._closures import Names
from legato.transform._external import is_own
from legato.transform._gradient.boundary import Conversion
from legato.transform._gradient.cotangents import made
from legato.transform._gradient.dual_types import DualTypes
from legato.transform._gradient.lift import Lifter
from legato.transform._gradient.modes import Forward, Mode, Reverse
from legato.transform._gradient.nodes import Fields, Leaf, Node, Opaque, leaves, opened, primal
from legato.transform._gradient.wanted import attrs_of
from legato.transform._values import written_out
from legato.transform.to_a_normal import ToANormal

__all__ = ["forward", "reverse"]


class _Tape:
    """The data type of a tape, and the function that runs one."""

    def __init__(self, names: Names) -> None:
        self.header = GlobalTypeVar(names.new("Tape"))
        self.empty = Constructor(names.constructor("TapeEnd"), (), self.header)
        self.step = Constructor(names.constructor("TapeStep"), (FuncType((), UNIT), self.header), self.header, tag=1)
        self.data = TypeData(self.header, (), (self.empty, self.step))
        self.run = GlobalVar(names.new("run_tape"), ty=FuncType((self.header,), UNIT))

    def function(self) -> Function:
        """Runs the steps, the last one first."""
        b = Builder()
        tape = Var("tape", ty=self.header)
        step, rest, u = Var("step", ty=FuncType((), UNIT)), Var("rest", ty=self.header), Var("u", ty=UNIT)
        unit = b.tuple_([])
        again = Let(u, Call(step, (), ty=UNIT), Call(self.run, (rest,), ty=UNIT), ty=UNIT)
        clauses = (
            Clause(PatternConstructor(self.empty), unit),
            Clause(PatternConstructor(self.step, (PatternVar(step), PatternVar(rest))), again),
        )
        return Function((tape,), Match(tape, clauses, ty=UNIT), UNIT, ty=self.run.ty)


class _Program:
    """A module in A-normal form whose functions are differentiated as they are called."""

    def __init__(self, mod: Module, names: Names, mode: Mode) -> None:
        own = {gv: f for gv, f in mod.graph_functions() if is_own(f)}
        normal = ToANormal()(
            mod.with_functions({**mod.functions, **{gv: written_out(f, mod) for gv, f in own.items()}})
        )
        self.mod, self.mode = normal, mode
        self.types = DualTypes(mod, names, mode.companion_type)
        self._own = {gv: f for gv, f in normal.graph_functions() if gv in own}
        self._twins = {gv: GlobalVar(names.new(f"{gv.name}_dual")) for gv in own}

    @property
    def main(self) -> Function:
        """@main."""
        return self._own[self.mod.var("main")]

    def lifter(self, func: Function) -> Lifter:
        """What differentiates a function of the module."""
        return Lifter(func, self._twins, self.types, self.mode)

    def finished(self, main: Function) -> Module:
        """The module with another @main, the twins of functions that the old one calls, and of their data types."""
        found = dict(self.mod.functions)
        found[self.mod.var("main")] = main
        todo, seen = [self.main], set[GlobalVar]()
        while todo:
            for node in post_order(todo.pop()):
                if isinstance(node, GlobalVar) and node in self._own and node not in seen:
                    seen.add(node)
                    todo.append(self._own[node])
                    found[self._twins[node]] = self.lifter(self._own[node]).function()
        return replace(self.mod.with_functions(found), types={**self.mod.types, **self.types.twins})

    def node(self, b: Builder, var: Var) -> Node:
        """The node of a parameter of @main. Its tensors have no companions yet, but for those inside of data."""
        return self._inwards(b, opened(b, var.ty, var, is_dual=False))

    def _inwards(self, b: Builder, node: Node) -> Node:
        if isinstance(node, Fields):
            return Fields(tuple(self._inwards(b, part) for part in node.parts))
        if not isinstance(node, Opaque):
            return node
        convert = self._conversion(lambda b, x: tuple_of((x, self.mode.constant(b, x))), inwards=True)
        assert node.expr.ty is not None
        return Opaque(convert(b, node.expr, node.expr.ty))

    def _conversion(self, leaf: Callable[[Builder, Expr], Expr], **options: Any) -> Conversion:
        return Conversion(self.types, self.mod.types, leaf, **options)

    def value(self, b: Builder, result: Node, ty: Type) -> Expr:
        """The result of the original @main, of type `ty`."""
        convert = self._conversion(lambda b, pair: b.let("p", b.get(pair, 0)), inwards=False)
        return self._outwards(b, result, ty, primal, convert)

    def companions(self, b: Builder, node: Node, ty: Type, read: Callable[[Builder, Expr], Expr]) -> Expr:
        """What `read` gives for the companions of a value, in its own type; zeros for what is no float."""
        convert = self._conversion(
            lambda b, pair: read(b, b.let("c", b.get(pair, 1))), inwards=False, rest=lambda b, x: made(b, None, x)
        )

        def of_tensor(part: Node) -> Expr:
            known = part.companion if isinstance(part, Leaf) else None
            return made(b, None, primal(part)) if known is None else read(b, known)

        return self._outwards(b, node, ty, of_tensor, convert)

    def _outwards(
        self, b: Builder, node: Node, ty: Type, of_tensor: Callable[[Node], Expr], convert: Conversion
    ) -> Expr:
        if isinstance(node, Fields):
            assert isinstance(ty, TupleType)
            pairs = zip(node.parts, ty.fields, strict=True)
            return b.tuple_([self._outwards(b, part, t, of_tensor, convert) for part, t in pairs])
        return convert(b, node.expr, ty) if isinstance(node, Opaque) else of_tensor(node)


def reverse(mod: Module, wrt: Sequence[Var], seed: Var | None, has_aux: bool) -> Module:
    """`mod` in A-normal form with an @main that gives (its value, the gradients of its parameters `wrt`).

    seed: the cotangent of the result, the last parameter; None: ones. has_aux: the first field is differentiated.
    """
    names = Names(mod)
    tape = _Tape(names)
    mode = Reverse(tape.step, tape.header)
    program = _Program(mod, names, mode)
    main, b = program.main, Builder(span=program.main.span)
    assert mode.extra is not None
    with b.bindings() as bound:
        b.let(mode.extra, b.ref(Call(tape.empty, (), ty=tape.header)))
        nodes = {p: program.node(b, p) for p in main.params}
        for p in wrt:
            for leaf in leaves(nodes[p]):
                leaf.companion = mode.constant(b, leaf.primal)
        result = program.lifter(main).inlined(b, nodes)
        output = result.parts[0] if has_aux and isinstance(result, Fields) else result
        _seed(b, mode, output, seed)
        b.let("u", Call(tape.run, (b.let("steps", b.read(mode.extra)),), ty=UNIT))
        gradients = b.tuple_([program.companions(b, nodes[p], _type(p), _read) for p in wrt])
        whole = b.tuple_([program.value(b, result, _type(main.body)), gradients])
    params = (*main.params, *(() if seed is None else (seed,)))
    new = program.finished(Function(params, lets(bound, whole), None, main.type_params, attrs_of(main), span=main.span))
    functions = {**new.functions, tape.run: tape.function()}
    return replace(new, functions=functions, types={**new.types, tape.header: tape.data})


def _seed(b: Builder, mode: Reverse, output: Node, seed: Expr | None) -> None:
    """Gives the cells of the result their cotangents: `seed`, or ones."""
    if isinstance(output, Fields):
        for n, part in enumerate(output.parts):
            _seed(b, mode, part, None if seed is None else b.let("dy", b.get(seed, n)))
    elif isinstance(output, Leaf) and output.companion is not None:
        mode.gather(b, output, b.let("dy", b.ones_like(output.primal)) if seed is None else seed)


def _read(b: Builder, cell: Expr) -> Expr:
    return b.let("d", b.read(cell))


def _type(node: Expr) -> Type:
    assert node.ty is not None
    return node.ty


def forward(mod: Module, wrt: Sequence[Var], tangents: Sequence[Var]) -> Module:
    """`mod` in A-normal form with an @main that gives (its value, its tangent), for those of the parameters `wrt`.

    The `tangents` become its last parameters. The tangent has the type of the value, with zeros for what is no float.
    """
    program = _Program(mod, Names(mod), Forward())
    main, b = program.main, Builder(span=program.main.span)
    with b.bindings() as bound:
        nodes = {p: program.node(b, p) for p in main.params}
        for p, tangent in zip(wrt, tangents, strict=True):
            _give(b, nodes[p], tangent)
        result = program.lifter(main).inlined(b, nodes)
        ty = _type(main.body)
        whole = b.tuple_([program.value(b, result, ty), program.companions(b, result, ty, lambda b, t: t)])
    params = (*main.params, *tangents)
    return program.finished(
        Function(params, lets(bound, whole), None, main.type_params, attrs_of(main), span=main.span)
    )


def _give(b: Builder, node: Node, tangent: Expr) -> None:
    if isinstance(node, Fields):
        for n, part in enumerate(node.parts):
            _give(b, part, b.let("dx", b.get(tangent, n)))
    elif isinstance(node, Leaf):
        node.companion = tangent
