"""Whole programs in first-order form: the passes together, on programs of every kind, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

import legato
from legato.base.errors import RunError, UnsupportedError
from legato.infer.infer import infer
from legato.interp import Data, evaluate
from legato.ir.expr import Call, Expr, Function, GlobalVar, Let, Var
from legato.ir.module import Module
from legato.ir.types import FuncType, scalar_type
from legato.ir.verify import Stage, verify
from legato.ir.visit import nodes
from legato.ops import table as operators
from legato.prelude import library, parse
from legato.transform._first_order import first_order
from legato.transform.defunctionalize import Defunctionalize
from legato.transform.flatten_match import FlattenMatch
from legato.transform.inline import Inline
from legato.transform.lambda_lift import LambdaLift
from legato.transform.pass_ import run
from legato.transform.specialize import Specialize, is_polymorphic
from legato.transform.to_graph import ToGraph
from tests.graphs import programs as graphs
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs
from tests.programs.values import same

PASSES = (FlattenMatch(), LambdaLift(), Specialize(), Defunctionalize(), Inline())


def typed(text: str) -> Module:
    return infer(parse(f'#[version = "0.0.5"]\n{text}', ops=operators()))


def first(mod: Module) -> Module:
    """`mod` in first-order form, checked to be so."""
    new = run(mod, PASSES)
    verify(new, Stage.TYPED)
    assert [what for _, _, what in first_order(new)] == []
    return new


def int32(n: int) -> Any:
    return np.asarray(n, np.int32)


def ints(mod: Module, *values: int) -> Data:
    """A list of the prelude."""
    cons, nil = next(data for header, data in mod.types.items() if header.name == "List").constructors
    made = Data(nil, ())
    for v in reversed(values):
        made = Data(cons, (int32(v), made))
    return made


@examples(40)
@given(programs(size=40))
def test_language_programs_become_first_order(program: Program) -> None:
    assume(not program.gives_functions)
    new = first(program.module)
    assert same(evaluate(new, program.args), evaluate(program.module, program.args))
    verify(infer(new), Stage.TYPED)
    assert run(new, PASSES) is new


@examples(10)
@given(graphs(steps=16, limit=512))
def test_plain_models_stay(program: Any) -> None:
    assert run(program.module, PASSES) is program.module


# ------------------------------------------------------------------ the prelude

LIST = "%xs: List[int32]"
SEED = "fn (%s: int32) -> Option[(int32, int32)] { if (%s > 5) { None } else { Some((%s + 1, %s)) } }"
USES = {
    "id": "@id(%n)",
    "compose": "@compose(negative, fn (%x: int32) -> int32 { %x + %n })(%n)",
    "flip": "@flip(fn (%a: int32, %b: int32) -> int32 { %a - %b })(%n, 5)",
    "iterate": "@iterate(fn (%x: int32) -> int32 { %x * 2 }, %n)(1)",
    "hd": "@hd(%xs)",
    "tl": "@tl(%xs)",
    "nth": "@nth(%xs, 1)",
    "update": "@update(%xs, 1, %n)",
    "length": "@length(%xs)",
    "map": "@map(fn (%x: int32) -> int32 { %x + %n }, %xs)",
    "foldl": "@foldl(fn (%a: int32, %b: int32) -> int32 { %a * 2 + %b }, %n, %xs)",
    "foldr": "@foldr(fn (%a: int32, %b: int32) -> int32 { %a - %b }, %n, %xs)",
    "foldr1": "@foldr1(fn (%a: int32, %b: int32) -> int32 { %a - %b }, %xs)",
    "sum": "@sum(%xs)",
    "concat": "@concat(%xs, %xs)",
    "filter": "@filter(fn (%x: int32) -> bool { %x > %n }, %xs)",
    "zip": "@zip(%xs, @map(fn (%x: int32) -> (int32, int32) { (%x, %n) }, %xs))",
    "rev": "@rev(%xs)",
    "map_accuml": "@map_accuml(fn (%a: int32, %b: int32) -> (int32, int32) { (%a + %b, %a) }, %n, %xs)",
    "map_accumr": "@map_accumr(fn (%a: int32, %b: int32) -> (int32, int32) { (%a + %b, %a) }, %n, %xs)",
    "unfoldr": f"@unfoldr({SEED}, %n)",
    "unfoldl": f"@unfoldl({SEED}, %n)",
    "tmap": "@tmap(fn (%x: int32) -> int32 { %x + %n }, Rose(%n, Cons(Rose(1, Nil), Nil)))",
    "size": "@size(Rose(%n, Cons(Rose(1, Nil), Nil)))",
}


def test_every_function_of_the_prelude_is_used() -> None:
    assert {gv.name for gv in library().functions} == set(USES)


@pytest.mark.parametrize("name", USES)
def test_the_prelude(name: str) -> None:
    mod = typed(f"def @main({LIST}, %n: int32) {{ {USES[name]} }}")
    new = first(mod)
    args = (ints(mod, 3, 1, 4, 1, 5), int32(2))
    assert same(evaluate(new, args), evaluate(mod, args))


# ------------------------------------------------------------------ what is left, and what is not


def callees(mod: Module) -> list[str]:
    """The names of the functions that a module calls."""
    calls = (n.op for _, f in mod.graph_functions() for n in nodes(f) if isinstance(n, Call))
    return [op.name for op in calls if isinstance(op, GlobalVar)]


def test_functions_that_are_known_are_no_values() -> None:
    mod = typed(f"""def @main({LIST}, %k: int32) {{
      let %add = fn (%x: int32) -> int32 {{ %x + %k }};
      let %twice = @compose(%add, %add);
      let %large = @filter(fn (%x: int32) -> bool {{ %x > %k }}, %xs);
      (@map(%twice, %xs), @foldl(fn (%a: int32, %x: int32) -> int32 {{ %a + %add(%x) }}, 0, %large))
    }}""")
    new = first(mod)
    assert not any("apply" in name for name in callees(new))
    assert [t.name for t in new.types] == [t.name for t in mod.types]
    args = (ints(mod, 3, 1, 4), int32(2))
    assert same(evaluate(new, args), evaluate(mod, args))


def test_dims_that_a_closure_holds() -> None:
    """Neither what the function holds nor what it takes has the dim n: it is passed as a shape."""
    mod = typed("""def @main(%x: Tensor[(n, 2), float32], %c: bool) {
      let %f = if (%c) { fn () -> Tensor[(n,), float32] { zeros(shape=(n,), dtype="float32") } }
               else { fn () -> Tensor[(n,), float32] { ones(shape=(n,), dtype="float32") } };
      %f()
    }""")
    new = first(mod)
    for c in (True, False):
        args = (np.zeros((3, 2), np.float32), np.asarray(c))
        assert same(evaluate(new, args), evaluate(mod, args))


DIMS = {
    "type_argument": """
    def @ones[k: ShapeVar]() -> float32 { sum(ones(shape=(k,), dtype="float32")) }
    def @main(%x: Tensor[(n,), float32], %c: bool) {
      let %f = if (%c) { fn () -> float32 { @ones[n * 2]() } } else { fn () -> float32 { 0f } };
      %f()
    }""",
    "result": """
    def @twice(%x: Tensor[(n,), float32], %c: bool) -> Tensor[(?,), float32] {
      if (%c) { concatenate((%x, %x)) } else { %x }
    }
    def @ones[k: ShapeVar]() -> float32 { sum(ones(shape=(k,), dtype="float32")) }
    def @main(%x: Tensor[(n,), float32], %c: bool) {
      let %u: Tensor[(k,), float32] = @twice(%x, %c);
      let %a = @ones[k]();
      (%a, %u)
    }""",
    "captured": """
    def @main(%x: Tensor[(n,), float32], %c: bool) {
      let %f = fn [T](%a: T) -> T {
        let %sizes = ref(zeros(shape=[n + 1], dtype="float32"));
        @foldl(fn (%b: T, %rest: List[T]) -> T { %a }, %a, Nil)
      };
      if (%c) { %f(%x) } else { %x }
    }""",
    "value": """
    def @half(%x: Tensor[(2 * k,), float32]) -> float32 { sum(ones(shape=(k,), dtype="float32")) }
    def @apply[m: ShapeVar](%f: fn (Tensor[(m,), float32]) -> float32, %x: Tensor[(m,), float32]) { %f(%x) }
    def @main(%x: Tensor[(n,), float32], %c: bool) { @apply(@half, concatenate((%x, %x))) }""",
}


@pytest.mark.parametrize("text", DIMS.values(), ids=DIMS)
def test_dims_that_calls_state_and_bring(text: str) -> None:
    """A type argument needs a dim though no type says it; what the result of an inlined function brings is known; of a
    value, the type that is wanted says the dims."""
    mod = typed(text)
    for new in (ToGraph()(mod), first(mod), ToGraph()(first(mod))):
        for c in (True, False):
            args = (np.ones(3, np.float32), np.asarray(c))
            assert same(evaluate(new, args), evaluate(mod, args))


def test_effects_keep_their_order() -> None:
    mod = typed(f"""def @main({LIST}) {{
      let %cell = ref(1);
      let %step = fn (%x: int32) -> int32 {{ ref_write(%cell, ref_read(%cell) * 2 + %x); ref_read(%cell) }};
      let %ys = @map(%step, %xs);
      let %later = if (@hd(%xs) > 2) {{ %step }} else {{ fn (%x: int32) -> int32 {{ ref_write(%cell, %x); %x }} }};
      (%step(1), %later(5), ref_read(%cell), %ys)
    }}""")
    new = first(mod)
    for values in ((3, 1, 4), (1,)):
        assert same(evaluate(new, (ints(mod, *values),)), evaluate(mod, (ints(mod, *values),)))


def test_functions_that_call_each_other_become_loops() -> None:
    mod = typed("""
    def @a(%n: int32) -> int32 { if (%n <= 0) { 0 } else { @b(%n - 1) } }
    def @b(%n: int32) -> int32 { if (%n <= 0) { 1 } else { @c(%n - 1) } }
    def @c(%n: int32) -> int32 { if (%n <= 0) { 2 } else { @a(%n - 1) } }
    def @main(%n: int32) -> int32 { @a(%n) }""")
    new = Inline()(mod)
    assert callees(new).count("a") == len(callees(new)) == 2  # from @main and from itself
    for n in range(8):
        assert same(evaluate(new, (int32(n),)), evaluate(mod, (int32(n),)))


def test_a_function_with_constraints_is_entered() -> None:
    mod = typed("""
    def @f(%x: Tensor[(a,), float32], %y: Tensor[(b,), float32]) { add(%x, %y) }
    def @main(%c: bool, %x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) {
      if (%c) { @f(%x, %y) } else { %x }
    }""")
    assert Inline()(mod) is mod


def test_a_function_with_constraints_that_gives_a_closure_is_entered() -> None:
    mod = typed("""
    def @f(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) {
      let %z = %x + match_cast(%y, Tensor[(k,), float32]);
      fn () -> Tensor[(n,), float32] { %z }
    }
    def @main(%x: Tensor[(a,), float32], %y: Tensor[(b,), float32]) { @id(@f(%x, %y)()) }""")
    for program in (mod, first(mod)):
        with pytest.raises(RunError, match="n = 3 and k = 2 must be equal"):
            evaluate(program, (np.ones(3, np.float32), np.ones(2, np.float32)))


def test_a_clause_that_is_reached_on_several_ways_keeps_its_constraints() -> None:
    text = """
    type Rows { One(Tensor[(?,), float32]), Zero, Other }
    def @f(%a: Rows, %b: Rows, %y: Tensor[(m,), float32]) -> float32 {
      match ((%a, %b)) { (One(_), Zero) => 1f, (Zero, _) => 2f, (_, One(%z)) => { BODY }, _ => 3f }
    }
    def @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32], %c: bool) {
      @f(if (%c) { One(%y) } else { Other }, One(%x), %y)
    }"""
    for body in ("sum(%z + %y)", "let %s = exp(%z + %y); sum(%s) + sum(tanh(%s))"):
        mod = typed(text.replace("BODY", body))
        new = first(mod)
        for c in (True, False):
            args = (np.ones(3, np.float32), np.ones(3, np.float32), np.asarray(c))
            assert same(evaluate(new, args), evaluate(mod, args))
            for program in (mod, new):
                with pytest.raises(RunError, match="= 3 and m = 2 must be equal"):
                    evaluate(program, (np.ones(3, np.float32), np.ones(2, np.float32), np.asarray(c)))


def test_closures_that_double_in_every_step_stay_values() -> None:
    """A key that described all of them would have twice as many parts for every step that is known."""
    mod = typed("""
    def @rep[A](%n: int32, %f: fn (A) -> A, %x: A) -> A {
      if (%n == 0) { %x } else { @rep(%n - 1, @compose(%f, %f), %f(%x)) }
    }
    def @main(%n: int32, %x: int32) { @rep(%n, fn (%a: int32) -> int32 { %a + 1 }, %x) }""")
    new = first(mod)
    assert len(new.functions) < 300
    assert same(evaluate(new, (int32(4), int32(1))), int32(16))


# ------------------------------------------------------------------ what is refused


def refused(text: str) -> list[str]:
    with pytest.raises(UnsupportedError) as error:
        run(typed(text), PASSES)
    return str(error.value).splitlines()


def test_functions_from_outside() -> None:
    assert refused("type Box { Box(fn () -> int32) }\ndef @main(%b: Box, %x: int32) { %x }") == [
        "unsupported: @main takes or gives functions, which compiled code cannot pass to or from Python",
        "  at <text>:3:1",
        "  %b : Box",
        "  hint: call them inside, or let @main take and give what they take and give",
    ]


def test_polymorphic_recursion() -> None:
    assert refused("""
    def @f[A](%x: A, %n: int32) -> int32 { if (%n <= 0) { 0 } else { @f((%x, %n), %n - 1) } }
    def @main(%n: int32) { @f(%n, %n) }""") == [
        "unsupported: @f is called at ever more types, one from within the other",
        "  at <text>:3:5",
        "  hint: polymorphic recursion needs endlessly many copies: give the function types of its own",
    ]


BOTH = "def @both(%f: fn [A](A) -> A, %n: int32) { (%f(%n), %f(True)) }\n"
AT_ANY_TYPE = {
    "a function of the module": f"{BOTH}def @main(%n: int32) {{ @both(@id, %n) }}",
    "a variable": "def @main(%n: int32) { let %f: fn [A](A) -> A = @id; (%f(%n), %f(True)) }",
    "a local function": f"{BOTH}def @main(%n: int32) {{ @both(fn [A](%a: A) -> A {{ %a }}, %n) }}",
    "one that holds values": BOTH + "def @main(%n: int32) { let %p = (%n, 2); "
    "@both(fn [A](%a: A) -> A { if (%p.0 == %p.1) { %a } else { @id(%a) } }, %n) }",
    "one that holds one": BOTH + "def @main(%n: int32) { let %f = fn [A](%a: A) -> A { %a }; "
    "@both(fn [B](%b: B) -> B { %f(%f(%b)) }, %n) }",
    "passed on": BOTH + "def @again(%g: fn [A](A) -> A, %n: int32) { if (%n <= 0) { @both(%g, %n) } "
    "else { @again(%g, %n - 1) } }\ndef @main(%n: int32) { @again(@id, %n) }",
    "over data": "def @all[C](%f: fn [A](A) -> A, %t: Tree[(C, int32)]) -> int32 { match (%t) "
    "{ Rose(%p, %ts) => %f(%p.1) + %f(@all_of(%f, %ts)) } }\n"
    "def @all_of[C](%f: fn [A](A) -> A, %ts: List[Tree[(C, int32)]]) -> int32 { match (%ts) "
    "{ Nil => 0, Cons(%t, %rest) => @all(%f, %t) + @all_of(%f, %rest) } }\n"
    "def @main(%n: int32) { @all(@id, Rose((True, %n), Cons(Rose((False, 3), Nil), Nil))) }",
    "numerals": "def @two[A](%f: fn (A) -> A) -> fn (A) -> A { fn (%x: A) { %f(%f(%x)) } }\n"
    "def @use(%k: fn [A](fn (A) -> A) -> fn (A) -> A, %x: int32) { %k(%k(fn (%y: int32) { 3 * %y }))(%x) }\n"
    "def @main(%n: int32) { @use(@two, %n) }",
    "of any size": "def @on(%f: fn [k: ShapeVar](Tensor[(k,), int32]) -> int32, %n: int32) "
    "{ %f(reshape(%n, newshape=[1])) + %f(stack((%n, %n), axis=0)) }\n"
    "def @main(%n: int32) { @on(fn [k: ShapeVar](%x: Tensor[(k,), int32]) { sum(%x) }, %n) }",
}


@pytest.mark.parametrize("what", AT_ANY_TYPE)
def test_parameters_that_are_functions_of_any_type(what: str) -> None:
    mod = typed(AT_ANY_TYPE[what])
    new = first(mod)
    for n in (0, 2, 5):
        wanted = evaluate(mod, (int32(n),))
        assert same(evaluate(new, (int32(n),)), wanted)
        assert same(legato.compile(mod, threads=1)(int32(n)), wanted)


def test_functions_of_any_type_that_nobody_knows() -> None:
    """Which of two, or what data holds, only the running program can tell."""
    for text in (
        "def @main(%n: int32) { let %f = if (%n > 0) { fn [A](%a: A, %b: A) -> A { %a } } "
        "else { fn [A](%a: A, %b: A) -> A { %b } }; (%f(%n, 1), %f(True, False)) }",
        "type Box { Box(fn [A](A) -> A) }\n"
        "def @main(%n: int32) { match (Box(fn [A](%a: A) -> A { %a })) { Box(%f) => (%f(%n), %f(True)) } }",
    ):
        first_line, *_, hint = refused(text)
        assert first_line.startswith("unsupported: a polymorphic function is a value that is not known where")
        assert hint.startswith(
            "  hint: wrap it, in each branch that gives it, in a function whose parameters have types"
        )


@pytest.mark.parametrize("result", ["(%n,)", "(%f(%n), %f(True))"], ids=["unused", "called"])
def test_polymorphic_functions_within_others(result: str) -> None:
    mod = typed(f"def @main(%n: int32) {{ let %f = fn [A](%x: A) -> A {{ %x }}; {result} }}")
    new = Defunctionalize()(mod)
    assert not is_polymorphic(new)
    assert Defunctionalize()(new) is new
    assert same(evaluate(new, (int32(3),)), evaluate(mod, (int32(3),)))


@pytest.mark.parametrize("ty", ["", ": fn (Tensor[(6,), int32]) -> Tensor[(6,), int32]"])
def test_branches_that_are_polymorphic_functions(ty: str) -> None:
    text = f"""
    def @f(%x: Tensor[(n,), int32]) {{ %x }}
    def @g(%x: Tensor[(k,), int32]) {{ negative(%x) }}
    def @main(%c: bool, %x: Tensor[(6,), int32]) {{ let %h{ty} = if (%c) {{ @f }} else {{ @g }}; %h(%x) }}"""
    assert refused(text) == [
        "unsupported: a polymorphic function is a value that is not known where it is called: "
        "fn [k: ShapeVar](Tensor[(k,), int32]) -> Tensor[(k,), int32]",
        "  hint: wrap it, in each branch that gives it, in a function whose parameters have types: "
        "fn (%x: …) { @f(%x) }",
    ]
    for name in "fg":
        text = text.replace(f"{{ @{name} }}", f"{{ fn (%x: Tensor[(6,), int32]) {{ @{name}(%x) }} }}")
    first(typed(text))


def test_values_whose_dims_nothing_tells() -> None:
    assert refused("""
    def @root(%x: Tensor[(k * k,), float32]) -> float32 { sum(ones(shape=(k,), dtype="float32")) }
    def @apply(%f: fn (Tensor[(4,), float32]) -> float32, %x: Tensor[(4,), float32]) { %f(%x) }
    def @main(%x: Tensor[(4,), float32]) { @apply(@root, %x) }""") == [
        "unsupported: nothing tells the dims of a function that is a value: fn [k: ShapeVar](Tensor[(k * k,), float32])"
        " -> float32",
        "  at <text>:5:44",
        "  wanted : fn (Tensor[(4,), float32]) -> float32",
        "  hint: wrap it in a function whose parameters have types, and state the dims in its call: @f[3](%x)",
    ]


# ------------------------------------------------------------------ size

INT = scalar_type("int32")
FUNC = FuncType((INT,), INT)


def plus(a: Expr, b: Expr) -> Call:
    return Call(operators()["add"], (a, b), ty=INT)


def of(x: Var, body: Expr) -> Module:
    return Module({GlobalVar("main"): Function((x,), body, INT, ty=FUNC)})


def test_long_programs() -> None:
    """4,000 calls in a row, half of them of a closure, and 400 local functions inside each other."""
    x, f, y = Var("x", ty=INT), Var("f", ty=FUNC), Var("y", ty=INT)
    body: Expr = x
    for _ in range(2000):
        body = plus(Call(f, (body,), ty=INT), x)
    chain = of(x, Let(f, Function((y,), plus(y, x), INT, ty=FUNC), body, ty=INT))
    first(chain)

    params = [x, *(Var(f"p{n}", ty=INT) for n in range(400))]
    body = plus(params[-1], x)
    for n in reversed(range(400)):
        name = Var(f"f{n}", ty=FUNC)
        inner = Function((params[n + 1],), body, INT, ty=FUNC)
        body = Let(name, inner, Call(name, (params[n],), ty=INT), ty=INT)
    nest = of(x, body)
    assert same(evaluate(first(nest), (int32(7),)), int32(14))
