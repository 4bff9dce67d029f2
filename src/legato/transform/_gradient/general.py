"""Whole programs, differentiated: @main, and functions on pairs for all that it calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from legato.base.errors import UnsupportedError
from legato.infer.builder import Builder
from legato.ir.clauses import Clause, PatternConstructor, PatternVar
from legato.ir.expr import Call, Constructor, Expr, Function, GlobalVar, Let, Match, Var
from legato.ir.let import lets
from legato.ir.module import Module
from legato.ir.scope import post_order
from legato.ir.types import UNIT, FuncType, GlobalTypeVar, TypeData
from legato.transform._closures import Names
from legato.transform._external import is_own
from legato.transform._gradient.dual_types import DualTypes
from legato.transform._gradient.lift import Lifter
from legato.transform._gradient.modes import Forward, Mode, Reverse
from legato.transform._gradient.nodes import Fields, Leaf, Node, Opaque, leaves, opened, primal
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
        """The node of a parameter of @main, whose tensors have no companions yet."""
        return self._plain(opened(b, var.ty, var, is_dual=False))

    def _plain(self, node: Node) -> Node:
        for part in _opaque(node):
            ty = part.expr.ty
            if ty is not None and self.types.type(ty) is not ty:
                raise UnsupportedError(
                    f"@main takes or gives a value of type {ty}, which holds floats and is no tensor or tuple",
                    hint="take it apart inside, or pass its tensors",
                )
        return node

    def value(self, result: Node) -> Expr:
        """The result of the original @main."""
        return primal(self._plain(result))


def _opaque(node: Node) -> list[Opaque]:
    if isinstance(node, Fields):
        return [part for field in node.parts for part in _opaque(field)]
    return [node] if isinstance(node, Opaque) else []


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
        gradients = b.tuple_([_gathered(b, nodes[p]) for p in wrt])
        whole = b.tuple_([program.value(result), gradients])
    params = (*main.params, *(() if seed is None else (seed,)))
    made = program.finished(Function(params, lets(bound, whole), None, main.type_params, main.attrs, span=main.span))
    functions = {**made.functions, tape.run: tape.function()}
    return replace(made, functions=functions, types={**made.types, tape.header: tape.data})


def _seed(b: Builder, mode: Reverse, output: Node, seed: Expr | None) -> None:
    """Gives the cells of the result their cotangents: `seed`, or ones."""
    if isinstance(output, Fields):
        for n, part in enumerate(output.parts):
            _seed(b, mode, part, None if seed is None else b.let("dy", b.get(seed, n)))
    elif isinstance(output, Leaf) and output.companion is not None:
        mode.gather(b, output, b.let("dy", b.ones_like(output.primal)) if seed is None else seed)


def _gathered(b: Builder, node: Node) -> Expr:
    """What the cells of a parameter hold in the end; zeros for what is no float."""
    if isinstance(node, Fields):
        return b.tuple_([_gathered(b, part) for part in node.parts])
    if isinstance(node, Leaf) and node.companion is not None:
        return b.let("d", b.read(node.companion))
    return b.let("zero", b.zeros_like(primal(node)))


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
        whole = b.tuple_([program.value(result), _tangent(b, result)])
    params = (*main.params, *tangents)
    return program.finished(Function(params, lets(bound, whole), None, main.type_params, main.attrs, span=main.span))


def _give(b: Builder, node: Node, tangent: Expr) -> None:
    if isinstance(node, Fields):
        for n, part in enumerate(node.parts):
            _give(b, part, b.let("dx", b.get(tangent, n)))
    elif isinstance(node, Leaf):
        node.companion = tangent


def _tangent(b: Builder, node: Node) -> Expr:
    if isinstance(node, Fields):
        return b.tuple_([_tangent(b, part) for part in node.parts])
    if isinstance(node, Leaf) and node.companion is not None:
        return node.companion
    return b.let("zero", b.zeros_like(primal(node)))
