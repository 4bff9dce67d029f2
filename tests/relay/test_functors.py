"""Visitors and mutators: what is visited, in which order, how often; and programs of any depth."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import pytest

from legato import relay
from legato.base.errors import TypeCheckError
from legato.relay._depth import depth


def op(name: str) -> Any:
    return relay.op.get(name)


def chain(length: int) -> Any:
    """relu(relu(…(x)))."""
    x = relay.var("x", shape=(2,))
    body = x
    for _ in range(length):
        body = relay.Call(op("nn.relu"), [body])
    return relay.Function([x], body)


def lets(length: int) -> Any:
    """let v0 = relu(x); let v1 = relu(v0); …"""
    x = relay.var("x", shape=(2,))
    bindings, last = [], x
    for n in range(length):
        v = relay.var(f"v{n}")
        bindings.append((v, relay.Call(op("nn.relu"), [last])))
        last = v
    body = last
    for v, value in reversed(bindings):
        body = relay.Let(v, value, body)
    return relay.Function([x], body)


def everything() -> relay.IRModule:
    """A program with every kind of expression."""
    text = """#[version = "0.0.5"]
def @f(%n: int32) -> int32 { if (less(%n, 1)) { 0 } else { @f(subtract(%n, 1)) } }
def @main(%x: int32, %l: List[int32]) {
  let %r = ref(%x);
  let %u = ref_write(%r, @f(%x));
  let %g = fn (%y: int32) { add(%y, ref_read(%r)) };
  let %t = (%g(%x), %u);
  match (%l) { Cons(%h, _) => add(%h, %t.0), Nil => 1, }
}
"""
    return relay.parse(text)


class Counter(relay.ExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def visit_call(self, call: Any) -> None:
        self.calls += 1
        super().visit_call(call)


class ToTanh(relay.ExprMutator):
    def visit_call(self, call: Any) -> Any:
        call = super().visit_call(call)
        return relay.Call(op("tanh"), call.args) if call.op is op("nn.relu") else call


class ToTanhFlat(relay.MixedModeMutator):
    def rewrite_call(self, pre: Any, post: Any) -> Any:
        return relay.Call(op("tanh"), post.args) if pre.op is op("nn.relu") else post


class CounterFlat(relay.MixedModeVisitor):
    calls = 0

    def visit_call(self, call: Any) -> None:
        self.calls += 1


@pytest.mark.parametrize(
    ("make", "visitor", "mutator"),
    [
        (partial(chain, 40_000), Counter, ToTanhFlat),
        (partial(chain, 5_000), CounterFlat, ToTanh),
        (partial(lets, 20_000), CounterFlat, ToTanhFlat),
        (partial(lets, 5_000), Counter, ToTanh),
    ],
)
def test_deep_programs_are_walked_and_changed(make: partial[Any], visitor: type, mutator: type) -> None:
    program, count, before = make(), make.args[0], sys.getrecursionlimit()
    walked = visitor()
    walked.visit(program)
    assert walked.calls == count
    assert relay.analysis.list_op_freqs(mutator().visit(program)) == {"tanh": count}
    assert sys.getrecursionlimit() == before


def test_both_mutators_do_the_same() -> None:
    for program in (chain(20), lets(20)):
        assert relay.structural_equal(ToTanh().visit(program), ToTanhFlat().visit(program))


def test_depth_is_that_of_the_longest_path() -> None:
    assert depth(chain(5)) == 7
    assert depth(relay.var("x")) == 1


def test_runaway_recursion_still_ends() -> None:
    class Runaway(relay.ExprVisitor):
        def visit_call(self, call: Any) -> None:
            self.visit_call(call)

    before = sys.getrecursionlimit()
    with pytest.raises(RecursionError):
        Runaway().visit(chain(3))
    assert sys.getrecursionlimit() == before


def test_every_kind_has_a_method_and_is_visited_once() -> None:
    seen: list[str] = []

    class Log(relay.ExprVisitor):
        def dispatch(self, expr: Any) -> Any:
            seen.append(type(expr).__name__)
            return super().dispatch(expr)

    visitor = Log()
    mod = everything()
    visitor.visit(mod["main"])
    visitor.visit(mod["f"])
    wanted = {"Function", "Var", "Let", "Call", "Op", "GlobalVar", "RefCreate", "RefWrite", "RefRead", "Tuple", "Match",
              "TupleGetItem", "Constant", "If"}  # fmt: skip
    assert wanted <= set(seen)
    assert len(seen) == len(visitor.memo_map)


@pytest.mark.parametrize("kind", [relay.ExprMutator, relay.MixedModeMutator])
def test_a_mutator_that_changes_nothing_gives_the_same_nodes(kind: type) -> None:
    mod = everything()
    for gv in ("f", "main"):
        assert kind().visit(mod[gv]) is mod[gv]


@pytest.mark.parametrize("kind", [relay.ExprMutator, relay.MixedModeMutator])
def test_a_change_reaches_every_kind(kind: type) -> None:
    class Double(kind):  # type: ignore[misc]
        def visit_constant(self, node: Any) -> Any:
            return relay.const(2 * node.data)

    mod = everything()
    new = relay.IRModule({gv: Double().visit(f) for gv, f in mod.functions.items()}, mod.type_definitions)
    text = relay.transform.InferType()(new).astext()
    assert "less(%n, 2)" in text
    assert "subtract(%n, 2)" in text
    assert "=> 2" in text


def test_order_is_that_of_plain_recursion() -> None:
    x = relay.var("x", shape=(2,))
    shared = relay.tanh(x)
    root = relay.add(relay.nn.relu(shared), shared)
    before: list[str] = []
    after: list[str] = []

    class Log(relay.ExprVisitor):
        def visit_call(self, call: Any) -> None:
            before.append(call.op.name)
            super().visit_call(call)
            after.append(call.op.name)

    Log().visit(root)
    assert (before, after) == (["add", "nn.relu", "tanh"], ["tanh", "nn.relu", "add"])


def test_a_subclass_decides_whether_to_go_on() -> None:
    class Shallow(relay.ExprVisitor):
        calls = 0

        def visit_call(self, call: Any) -> None:
            self.calls += 1

    visitor = Shallow()
    visitor.visit(chain(10))
    assert visitor.calls == 1


def test_a_changed_let_is_typed_anew() -> None:
    x = relay.var("x", shape=(2,))
    v = relay.var("v")
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Let(v, relay.nn.relu(x), relay.tanh(v))))

    class Halve(relay.ExprMutator):
        def visit_call(self, call: Any) -> Any:
            call = super().visit_call(call)
            return relay.cast(call, "float16") if call.op is op("nn.relu") else call

    body = Halve().visit(mod["main"].body)
    assert str(relay.testing.run_infer_type(body).checked_type) == "Tensor[(2,), float16]"


def test_lets_behind_a_change_are_typed_anew() -> None:
    text = "def @main(%x: Tensor[(2), float32]) { let %a = nn.relu(%x); let %b = tanh(%a); exp(%b) }"
    func = relay.parse('#[version = "0.0.5"]\n' + text)["main"]

    class Halve(relay.ExprMutator):
        def visit_call(self, call: Any) -> Any:
            call = super().visit_call(call)
            return relay.cast(call, "float16") if call.op is op("nn.relu") else call

    halve = Halve()
    new = halve.visit(func)
    assert halve.visit(func) is new
    typed = relay.testing.run_infer_type(relay.Function(new.params, new.body))
    assert str(typed.ret_type) == "Tensor[(2,), float16]"


def test_functors_without_methods_say_which_is_missing() -> None:
    with pytest.raises(NotImplementedError, match=r"ExprFunctor\.visit_var"):
        relay.ExprFunctor().visit(relay.var("x"))
    with pytest.raises(TypeCheckError, match="visited a TensorType, which is not an expression"):
        relay.ExprVisitor().visit(relay.TensorType((1,)))


# ------------------------------------------------------------------ types and patterns


def test_types_are_visited_and_changed() -> None:
    a = relay.TypeVar("a")
    tensor = relay.TensorType((2,), "float32")
    ty = relay.FuncType([a, relay.TupleType([tensor, relay.RefType(tensor)])], tensor, [a])
    seen: list[Any] = []

    class Log(relay.TypeVisitor):
        def visit_tensor_type(self, t: Any) -> None:
            seen.append(t)

        def visit_type_var(self, t: Any) -> None:
            seen.append(t)

    Log().visit(ty)
    assert seen == [a, tensor, tensor, tensor, a]

    class Narrow(relay.TypeMutator):
        def visit_tensor_type(self, t: Any) -> Any:
            return relay.TensorType(t.shape, "float16")

    assert "float32" not in str(Narrow().visit(ty))
    assert relay.TypeMutator().visit(ty) == ty
    with pytest.raises(NotImplementedError):
        relay.TypeFunctor().visit(a)


def test_patterns_are_visited_and_changed() -> None:
    v, w = relay.var("v"), relay.var("w")
    mod = everything()
    cons = mod.get_type("List")[1]
    pattern = relay.PatternConstructor(cons, [relay.PatternTuple([relay.PatternVar(v)]), relay.PatternWildcard()])
    seen: list[Any] = []

    class Log(relay.PatternVisitor):
        def visit_var(self, var: Any) -> None:
            seen.append(var)

    Log().visit_pattern(pattern)
    assert seen == [v]

    class Rename(relay.PatternMutator):
        def visit_var(self, var: Any) -> Any:
            return w

    new = Rename().visit_pattern(pattern)
    assert (new.constructor, new.patterns[0].patterns[0].var) == (cons, w)
    with pytest.raises(NotImplementedError):
        relay.PatternFunctor().visit_pattern(pattern)
    with pytest.raises(TypeCheckError, match="visited a int, which is not a pattern"):
        relay.PatternVisitor().visit_pattern(3)
