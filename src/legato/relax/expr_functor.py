"""Visitors and mutators of expressions, to be subclassed: one method for each kind of node and of binding.

    @relax.expr_functor.mutator
    class ReluToGelu(relax.PyExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            return relax.op.nn.gelu(call.args[0]) if call.op.name == "nn.relu" else call

    new = ReluToGelu(mod).visit_expr(mod["main"])

Bodies are walked block by block (`blocks.seq_of`), without recursion; in graphs, a node that is used in several places
is visited once, and its result is that of all of them. Programs of any depth can be walked as `relay.ExprVisitor` can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar

from legato.base.errors import TypeCheckError
from legato.ir import expr as ir
from legato.ir.expr import Constant, Expr, Function, GlobalVar, Var
from legato.ir.op import Op
from legato.ir.types import Type
from legato.relax.block_builder import BlockBuilder
from legato.relax.blocks import Binding, BindingBlock, DataflowBlock, MatchCast, SeqExpr, VarBinding, seq_of
from legato.relay._depth import room

__all__ = ["ExprFunctor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]

C = TypeVar("C", bound=type)

METHODS: Final[dict[type, str]] = {
    ir.Function: "visit_function_",
    ir.Call: "visit_call_",
    ir.If: "visit_if_",
    ir.Match: "visit_match_",
    ir.Tuple: "visit_tuple_",
    ir.TupleGetItem: "visit_tuple_getitem_",
    ir.Constant: "visit_constant_",
    ir.GlobalVar: "visit_global_var_",
    ir.Shape: "visit_shape_expr_",
    Op: "visit_op_",
}
_LEAVES: Final = (Var, GlobalVar, Constant, Op, ir.Shape, ir.Constructor)


def visitor(cls: C) -> C:
    """A decorator of visitors: the class itself."""
    return cls


def mutator(cls: C) -> C:
    """A decorator of mutators: the class itself."""
    return cls


class ExprFunctor:
    """Finds the method for each kind of node, and calls it once per node.

    Subclass it and write them: here each raises NotImplementedError, as in the original.
    """

    _is_walking = False

    def _start(self) -> None:
        self._memo: dict[Expr, Any] = {}  # in order of visits
        self._inner: set[Var] = set()  # variables of dataflow blocks that are no outputs
        self._expected = 0  # bindings that were visited

    def visit_expr(self, expr: Expr) -> Any:
        """What the method for `expr` returns. TypeCheckError for what is no expression."""
        if not isinstance(expr, Expr):
            raise TypeCheckError(f"visited a {type(expr).__name__}, which is not an expression")
        if not hasattr(self, "_memo"):
            self._start()
        if not self._is_walking:
            return self._walk(expr)
        if isinstance(expr, _LEAVES):
            return self._method(expr)(expr)
        if expr not in self._memo:
            self._memo[expr] = self._method(expr)(expr)
        return self._memo[expr]

    def _walk(self, expr: Expr) -> Any:
        self._is_walking = True
        self._memo = {}
        try:
            with room(expr):
                return self.visit_expr(expr)
        finally:
            self._is_walking = False

    def _method(self, expr: Expr) -> Callable[[Any], Any]:
        if isinstance(expr, ir.Let | ir.Dataflow):
            return self._visit_body
        if isinstance(expr, Var):
            name = "visit_dataflow_var_" if expr in self._inner else "visit_var_"
        else:
            name = METHODS.get(type(expr), "visit_expr_fallback_")
        found: Callable[[Any], Any] = getattr(self, name)
        return found

    def _visit_body(self, expr: Expr) -> Any:
        """What becomes of bindings and a result."""
        return self._visit_seq(_seq(expr))

    def _visit_seq(self, seq: SeqExpr) -> Any:
        self._expected += sum(len(block.bindings) for block in seq.blocks)
        return self.visit_seq_expr_(seq)

    def visit_binding(self, binding: Binding) -> None:
        """Calls the method of the binding's kind."""
        if isinstance(binding, MatchCast):
            self.visit_match_cast_(binding)
        else:
            assert isinstance(binding, VarBinding)
            self.visit_var_binding_(binding)

    def visit_binding_block(self, block: BindingBlock) -> None:
        """Calls the method of the block's kind."""
        if isinstance(block, DataflowBlock):
            with self._block(block):
                self.visit_dataflow_block_(block)
        else:
            self.visit_binding_block_(block)

    @contextmanager
    def _block(self, block: DataflowBlock) -> Iterator[None]:
        before, self._inner = self._inner, self._inner | ({b.var for b in block.bindings} - set(block.outputs))
        try:
            yield
        finally:
            self._inner = before

    def visit_var_def(self, var: Var) -> Any:
        """Calls the method of a variable that is bound, of a dataflow block or not."""
        return self.visit_dataflow_var_def_(var) if var in self._inner else self.visit_var_def_(var)

    def _missing(self, node: Any, /) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no method for a {type(node).__name__}")

    visit_seq_expr_ = visit_binding_block_ = visit_dataflow_block_ = visit_var_binding_ = visit_match_cast_ = _missing
    visit_function_ = visit_call_ = visit_if_ = visit_match_ = visit_tuple_ = visit_tuple_getitem_ = _missing
    visit_constant_ = visit_shape_expr_ = visit_op_ = visit_global_var_ = visit_expr_fallback_ = _missing
    visit_var_ = visit_dataflow_var_ = visit_var_def_ = visit_dataflow_var_def_ = _missing


def _seq(expr: Expr) -> SeqExpr:
    """The view of an expression, also of a dataflow block that no let binds."""
    if isinstance(expr, ir.Dataflow):
        whole = Var("gv", ty=expr.ty)
        return seq_of(ir.Let(whole, expr, whole, ty=expr.ty))
    return seq_of(expr)


class PyExprVisitor(ExprFunctor):
    """Visits every node, operands in order of evaluation; methods return nothing."""

    def visit_seq_expr_(self, op: SeqExpr) -> Any:
        """Visits the blocks, then the result."""
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)

    def visit_function_(self, op: Function) -> Any:
        """Visits the parameters, then the body."""
        for p in op.params:
            self.visit_var_def(p)
        self._visit_body(op.body)

    def visit_binding_block_(self, block: BindingBlock) -> Any:
        """Visits the bindings."""
        for b in block.bindings:
            self.visit_binding(b)

    visit_dataflow_block_ = visit_binding_block_

    def visit_var_binding_(self, binding: VarBinding) -> Any:
        """Visits the value, then the variable."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_match_cast_(self, binding: MatchCast) -> Any:
        """Visits the value, then the variable."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_expr_fallback_(self, op: Expr) -> Any:
        """Visits the operands."""
        for child in op.children():
            self.visit_expr(child)

    visit_call_ = visit_if_ = visit_match_ = visit_tuple_ = visit_tuple_getitem_ = visit_expr_fallback_

    def visit_leaf_(self, op: Any) -> Any:
        """Nothing to go on to."""

    visit_var_ = visit_dataflow_var_ = visit_global_var_ = visit_constant_ = visit_shape_expr_ = visit_op_ = visit_leaf_
    visit_var_def_ = visit_dataflow_var_def_ = visit_leaf_


class PyExprMutator(ExprFunctor):
    """Rebuilds expressions: each method returns what takes the node's place; what did not change is the same node.

    `builder_` holds the module, and binds: what a method emits comes before the binding that is visited. New nodes are
    typed when they are made, and so are the variables that they are bound to.
    """

    def __init__(self, mod: Any = None) -> None:
        self.builder_ = BlockBuilder(mod)
        self._remap: dict[Var, Expr] = {}
        self._edits = 0  # bindings that are not what they were
        self._bound: set[Var] = set()
        self._start()

    def _walk(self, expr: Expr) -> Any:
        self._bound.clear()
        return super()._walk(expr)

    # ------------------------------------------------------------------ bodies

    def visit_function_(self, op: Function) -> Any:
        """Rebuilds a function; its type is inferred anew where the body changed."""
        params = tuple(self.visit_var_def(p) for p in op.params)
        body = self.visit_with_new_scope(op.body, params)
        if body is op.body and all(a is b for a, b in zip(params, op.params, strict=True)):
            return op
        return replace(op, params=params, body=body, ret_type=None, ty=None)

    def visit_with_new_scope(self, expr: Expr, params: tuple[Var, ...] = ()) -> Expr:
        """An expression, with what is bound on the way inside of it: of a branch, or of a function."""
        seq = _seq(expr)
        known, edits, extra = len(self._memo), self._edits, self._extra()
        result: Expr = expr

        def make() -> Expr:
            nonlocal result
            result = self._visit_seq(seq)
            return result

        found = self.builder_.body(make, params)
        if self._extra() != extra:  # what was visited inside may name what was bound there, which is not known outside
            while len(self._memo) > known:
                self._memo.popitem()
        return expr if result is seq.body and (self._edits, self._extra()) == (edits, extra) else found

    def _visit_body(self, expr: Expr) -> Any:
        """Bindings inside of an expression stay there: what stands beside them is computed in its turn."""
        return self.visit_with_new_scope(expr)

    def _extra(self) -> int:
        """The bindings that were made beside those that were visited."""
        return self.builder_.count - self._expected

    def visit_seq_expr_(self, op: SeqExpr) -> Any:
        """Rebuilds the blocks, which are bound by then; returns the result."""
        for block in op.blocks:
            self.visit_binding_block(block)
        return self.visit_expr(op.body)

    def visit_binding_block_(self, block: BindingBlock) -> Any:
        """Rebuilds the bindings."""
        for b in block.bindings:
            self.visit_binding(b)

    def visit_dataflow_block_(self, block: DataflowBlock) -> Any:
        """Rebuilds the bindings, in a dataflow block."""
        with self.builder_.dataflow():
            for b in block.bindings:
                self.visit_binding(b)
            for v in block.outputs:
                self._output(v)

    def _output(self, var: Var) -> None:
        new = self._remap.get(var, var)
        found = self.builder_.emit_output(new, var.name)
        if found is not new:
            self._remap[var] = found

    def visit_var_binding_(self, binding: VarBinding) -> Any:
        """Binds the rebuilt value to the variable, or to one of its name where the type is another."""
        value = self.builder_.normalize(self.visit_expr(binding.value))
        var = self.visit_var_def(binding.var)
        self._bind(binding, VarBinding(var if value.ty is None else self.with_type(var, value.ty), value))

    def visit_match_cast_(self, binding: MatchCast) -> Any:
        """Binds the rebuilt value, checked as before."""
        value = self.builder_.normalize(self.visit_expr(binding.value))
        self._bind(binding, MatchCast(self.visit_var_def(binding.var), value, binding.ty))

    def _bind(self, old: Binding, new: Binding) -> None:
        if new.var in self._bound:  # a part that is visited again, in another scope
            new = replace(new, var=Var(new.var.name, ty=new.var.ty, span=new.var.span))
        self._bound.add(new.var)
        self.builder_.emit_normalized(new)
        if new.var is not old.var:
            self._remap[old.var] = new.var
        if new.var is not old.var or new.value is not old.value:
            self._edits += 1

    def visit_var_def_(self, var: Var) -> Any:
        """What is bound in the place of a variable: the same."""
        return var

    visit_dataflow_var_def_ = visit_var_def_

    # ------------------------------------------------------------------ expressions

    def visit_expr_fallback_(self, op: Expr) -> Any:
        """Rebuilds a node of rebuilt operands; it is typed again."""
        old = op.children()
        new = tuple([self.visit_expr(c) for c in old])
        if all(a is b for a, b in zip(new, old, strict=True)):
            return op
        return self.builder_.normalize(replace(op.with_children(new), ty=None))

    visit_call_ = visit_tuple_ = visit_tuple_getitem_ = visit_expr_fallback_

    def visit_expr_post_order(self, expr: Expr) -> Any:
        """`expr`, of rebuilt operands."""
        return self.visit_expr_fallback_(expr) if expr.children() else expr

    def visit_if_(self, op: ir.If) -> Any:
        """Rebuilds the condition, then the branches, each with its own bindings."""
        cond = self.visit_expr(op.cond)
        then, orelse = self.visit_with_new_scope(op.then), self.visit_with_new_scope(op.orelse)
        if cond is op.cond and then is op.then and orelse is op.orelse:
            return op
        return self.builder_.normalize(replace(op, cond=cond, then=then, orelse=orelse, ty=None))

    def visit_var_(self, op: Var) -> Any:
        """What the variable stands for now."""
        return self._remap.get(op, op)

    visit_dataflow_var_ = visit_var_

    def visit_leaf_(self, op: Any) -> Any:
        """The node itself."""
        return op

    def visit_match_(self, op: ir.Match) -> Any:
        """Rebuilds what is matched, then the clauses, each with its own bindings."""
        data, *bodies = op.children()
        new = (self.visit_expr(data), *(self.visit_with_new_scope(b) for b in bodies))
        if all(a is b for a, b in zip(new, (data, *bodies), strict=True)):
            return op
        return replace(op.with_children(new), ty=None)

    visit_global_var_ = visit_constant_ = visit_shape_expr_ = visit_op_ = visit_leaf_

    # ------------------------------------------------------------------ variables

    def lookup_binding(self, var: Var) -> Expr | None:
        """The rebuilt value that was bound to `var`, or None."""
        return self.builder_.lookup_binding(var)

    def set_var_remap(self, old_var: Var, new_var: Var) -> None:
        """From here on, a variable stands for another one."""
        self._remap[old_var] = new_var

    def get_var_remap(self, var: Var) -> Expr:
        """What a variable stands for."""
        return self._remap.get(var, var)

    def with_type(self, var: Var, ty: Type) -> Var:
        """A variable of the same name and another type; the same one, where it has that type."""
        return var if var.ty == ty else Var(var.name, ty=ty, span=var.span)

    with_struct_info = with_type
