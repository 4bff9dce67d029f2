"""Functions of the language, differentiated: closures, branches, matches, cells, recursion and all.

Every tensor of floats gets a companion beside it (`dual_types`), wherever it goes: into closures, data, cells. Runs of
operators between two calls or branches are straight-line code, which `modes` closes with what gives their results
companions; everything else only passes pairs of tensor and companion on. After Wang et al., "Demystifying
differentiable programming: shift/reset the penultimate backpropagator" (2019), with runs in place of single operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from legato.base.errors import UnsupportedError
from legato.infer.builder import Builder
from legato.ir.clauses import Clause, Pattern
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Match,
    MatchCast,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
)
from legato.ir.let import Binding, chain, lets
from legato.ir.scope import binders, pattern_vars, post_order
from legato.ir.types import Type
from legato.transform._copy import Copy
from legato.transform._gradient.dual_types import DualTypes, is_float
from legato.transform._gradient.modes import Mode
from legato.transform._gradient.nodes import Fields, Leaf, Node, Opaque, Plain, is_data, leaves, lifted, opened, primal
from legato.transform._gradient.runs import Escapes, is_straight
from legato.transform._partial.code import Steps, run

__all__ = ["Lifter"]


class Lifter(Copy):
    """Differentiates one function of the module, in A-normal form; `names` are the twins of those it may call."""

    def __init__(self, func: Function, names: Mapping[GlobalVar, GlobalVar], types: DualTypes, mode: Mode) -> None:
        super().__init__()
        self._names, self._dual, self._mode = names, types, mode
        self._b = Builder(span=func.span)
        self._func = func
        self._nodes: dict[Var, Node] = {}
        self._escapes = Escapes(func)
        self._run: list[Binding] = []  # of the new program
        self._inputs: dict[Var, Leaf] = {}
        self._results: list[tuple[Var, Node]] = []  # variables that the run binds
        for node in post_order(func):
            for scope in binders(node):
                for var in scope:
                    self.bind(var)

    # ------------------------------------------------------------------ whole functions

    def type(self, ty: Type) -> Type:
        """What a type becomes."""
        return self._dual.type(ty)

    def pattern(self, pattern: Pattern) -> Pattern:
        """A pattern of the new program."""
        return self._dual.pattern(super().pattern(pattern))

    def function(self) -> Function:
        """The function on pairs: of the new parameters, and what the mode adds to them."""
        made = run(self._closure(self._func))
        assert isinstance(made, Function)
        extra = () if self._mode.extra is None else (self._mode.extra,)
        return replace(made, params=(*made.params, *extra), ty=None)

    def inlined(self, b: Builder, arguments: Mapping[Var, Node]) -> Node:
        """The result for these arguments, with everything bound by `b`."""
        self._b = b
        self._nodes.update(arguments)
        return run(self._block(self._func.body))  # type: ignore[no-any-return]  # a stack of generators

    def _closure(self, func: Function) -> Steps:
        with self._b.bindings() as bound:
            for param in func.params:
                self._open(param)
            result = yield self._block(func.body)
            value = self._lifted(result)
        assert value.ty is not None
        params = tuple(map(self._bound, func.params))
        return Function(params, lets(bound, value), value.ty, func.type_params, func.attrs, span=func.span,
                        ty=None if func.ty is None else self.type(func.ty))  # fmt: skip

    def _open(self, var: Var) -> None:
        """Takes a variable of the new program, with its pairs, apart."""
        self._nodes[var] = opened(self._b, var.ty, self._bound(var), is_dual=True)

    # ------------------------------------------------------------------ blocks

    def _block(self, body: Expr) -> Steps:
        """The node of a block's result, with its bindings emitted."""
        outer = self._run, self._inputs, self._results
        self._run, self._inputs, self._results = [], {}, []
        bindings, result = chain(body)
        for var, value in bindings:
            with self._b.at(value.span):
                if is_straight(var, value):
                    self._straight(var, value)
                    continue
                self._close()
                if isinstance(value, Call) and self._is_foreign(value):
                    self._foreign(var, value)
                else:
                    made = yield self._complex(value)
                    self._b.let(self._bound(var), made)
                    self._open(var)
        self._close()
        self._run, self._inputs, self._results = outer
        return self._node(result)

    def _is_foreign(self, call: Call) -> bool:
        """Whether a call is that of a function of another language, which takes nothing that has a derivative; runs
        before it have ended."""
        return (isinstance(call.op, GlobalVar) and call.op not in self._names
                and all(is_data(arg.ty) for arg in (*call.args, call))
                and all(leaf.companion is None for arg in call.args for leaf in leaves(self._node(arg))))  # fmt: skip

    def _foreign(self, var: Var, call: Call) -> None:
        """Binds what such a call gives: a constant, as far as derivatives are concerned."""
        args = tuple(primal(self._node(arg)) for arg in call.args)
        new = self._b.let(Var(var.name, ty=var.ty, span=var.span), replace(call, args=args))
        self._nodes[var] = opened(self._b, var.ty, new, is_dual=False)

    def _straight(self, var: Var, value: Expr) -> None:
        """Adds a binding to the run."""
        if isinstance(value, Tuple | TupleGetItem):
            node = self._node(value)
        else:
            new = self._emit(Var(var.name, ty=var.ty, span=var.span), self._of_operands(value))
            with self._b.bindings() as parts:
                node = opened(self._b, var.ty, new, is_dual=False)
            for part, field in parts:
                self._emit(part, field)
        self._nodes[var] = node
        self._results.append((var, node))

    def _emit(self, var: Var, value: Expr) -> Var:
        self._b.let(var, value)
        self._run.append((var, value))
        return var

    def _of_operands(self, value: Expr) -> Expr:
        """A value of the original program with operands of the new one."""
        if isinstance(value, Call):
            return replace(value, args=tuple(map(self._operand, value.args)))
        if isinstance(value, MatchCast):
            return replace(value, value=self._operand(value.value))
        return value

    def _operand(self, operand: Expr) -> Expr:
        node = self._node(operand)
        for leaf in leaves(node):
            if leaf.companion is not None and isinstance(leaf.primal, Var):
                self._inputs[leaf.primal] = leaf
        return primal(node)

    def _close(self) -> None:
        """Ends a run."""
        escaping = (leaf for var, node in self._results if var in self._escapes for leaf in leaves(node))
        own = {var for var, _ in self._run}
        results = list(dict.fromkeys(leaf for leaf in escaping if leaf.primal in own))
        if results:
            self._mode.close(self._b, self._run, self._inputs, results)
        self._run, self._inputs, self._results = [], {}, []

    # ------------------------------------------------------------------ operands

    def _node(self, operand: Expr) -> Node:
        """The node of an operand, or of a field of one."""
        match operand:
            case Var():
                return self._nodes[operand] if operand in self._nodes else Opaque(self._bound(operand))
            case Tuple(fields):
                return Fields(tuple(map(self._node, fields)))
            case TupleGetItem(of, index):
                node = self._node(of)
                assert isinstance(node, Fields)
                return node.parts[index]
            case Constant() if is_float(operand.ty):
                return Leaf(operand)
            case Constant() | Shape():
                return Plain(operand)
            case Constructor():
                return Opaque(self._dual.constructor(operand))
            case _:
                return Opaque(operand)

    def _lifted(self, node: Node) -> Expr:
        return lifted(node, self._companion)

    def _companion(self, leaf: Leaf) -> Expr:
        return self._mode.constant(self._b, leaf.primal) if leaf.companion is None else leaf.companion

    # ------------------------------------------------------------------ everything else

    def _complex(self, value: Expr) -> Steps:
        """The value of the new program for one that is no operator's."""
        match value:
            case Function():
                return (yield self._closure(value))
            case If():
                cond = primal(self._node(value.cond))
                then = yield self._branch(value.then)
                orelse = yield self._branch(value.orelse)
                return If(cond, then, orelse, ty=then.ty, span=value.span)
            case Match():
                return (yield self._match(value))
            case Call():
                return self._call(value)
            case _:
                kids = tuple(self._lifted(self._node(kid)) for kid in value.children())
                return self.node(value, kids)

    def _branch(self, body: Expr) -> Steps:
        with self._b.bindings() as bound:
            result = yield self._block(body)
            value = self._lifted(result)
        return lets(bound, value)

    def _match(self, match: Match) -> Steps:
        data = self._lifted(self._node(match.data))
        clauses = []
        for clause in match.clauses:
            with self._b.bindings() as bound:
                for var in pattern_vars(clause.pattern):
                    self._open(var)
                result = yield self._block(clause.body)
                value = self._lifted(result)
            clauses.append(Clause(self.pattern(clause.pattern), lets(bound, value)))
        ty = None if match.ty is None else self.type(match.ty)
        return replace(match, data=data, clauses=tuple(clauses), ty=ty)

    def _call(self, call: Call) -> Expr:
        args = [self._lifted(self._node(arg)) for arg in call.args]
        callee = call.op
        if isinstance(callee, GlobalVar):
            if callee not in self._names:
                message = f"@{callee.name} cannot be differentiated: it is no function of this language"
                hint = f"give it stop_gradient(…): @{callee.name}(stop_gradient(…))"
                raise UnsupportedError(message, span=call.span, hint=hint)
            args += [] if self._mode.extra is None else [self._mode.extra]
            callee = self._names[callee]
        else:
            callee = self._lifted(self._node(callee))
        type_args = tuple(self.type(a) if isinstance(a, Type) else a for a in call.type_args)
        ty = None if call.ty is None else self.type(call.ty)
        return Call(callee, tuple(args), call.attrs, type_args, ty=ty, span=call.span)
