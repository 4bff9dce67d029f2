"""Inference of the whole language: functions as values, data types, polymorphism, arithmetic on dims."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.errors import RunError, TypeCheckError
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.clauses import PatternConstructor
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Function, GlobalVar, Match, Tuple, Var
from legato.ir.module import Module
from legato.ir.types import FuncType, TensorType, tensor_type
from legato.ir.verify import Stage, verify
from legato.ir.visit import nodes
from legato.ops import table

VERSION = '#[version = "0.0.5"]\n'

SIGNATURES = {
    "an operator as an argument": (
        "def @main(%xs: List[Tensor[(3,), float32]]) { @map(exp, %xs) }",
        "fn (List[Tensor[(3,), float32]]) -> List[Tensor[(3,), float32]]",
    ),
    "each use of an operator has a type of its own": (
        "def @main(%x: float32, %n: int32) { let %f = (negative, negative); (%f.0(%x), %f.1(%n)) }",
        "fn (float32, int32) -> (float32, int32)",
    ),
    "an operator that is chosen": (
        "def @main(%c: bool, %x: Tensor[(2, 3), float32]) { (if (%c) { sum } else { max })(%x) }",
        "fn (bool, Tensor[(2, 3), float32]) -> float32",
    ),
    "a constructor as an argument": (
        "def @main(%xs: List[int32]) { @foldr(Cons, Nil, %xs) }",
        "fn (List[int32]) -> List[int32]",
    ),
    "closures": (
        "def @main(%x: float32) { let %add = fn (%a) { fn (%b: float32) { %a + %b } }; %add(%x)(2f) }",
        "fn (float32) -> float32",
    ),
    "a polymorphic let": (
        "def @main(%x: float32, %n: int32) { let %same = fn [A](%a: A) -> A { %a }; (%same(%x), %same(%n)) }",
        "fn (float32, int32) -> (float32, int32)",
    ),
    "a let that is polymorphic by its annotation": (
        """def @main(%x: float32, %n: int32) {
             let %twice: fn [A](fn (A) -> A, A) -> A = fn (%f, %a) { %f(%f(%a)) };
             (%twice(exp, %x), %twice(negative, %n))
           }""",
        "fn (float32, int32) -> (float32, int32)",
    ),
    "a parameter that is polymorphic": (
        """def @both(%f: fn [A](A) -> A) { (%f(1), %f(1f)) }
           def @main() { @both(@id) }""",
        "fn () -> (int32, float32)",
    ),
    "mutual recursion without annotations": (
        """def @main(%x: float32) { (@f(%x, 3), @g(1, 2)) }
           def @f(%x, %n: int32) { if (%n < 1) { %x } else { @g(%x, %n - 1) } }
           def @g(%x, %n: int32) { @f(%x, %n) }""",
        "fn (float32) -> (float32, int32)",
    ),
    "polymorphic recursion": (
        """type Nest[A] { Flat(A), Deep(Nest[(A, A)]) }
           def @depth[A](%n: Nest[A]) -> int32 { match (%n) { Flat(_) => 0, Deep(%m) => 1 + @depth(%m) } }
           def @main(%x: float32) { @depth(Deep(Deep(Flat(((%x, %x), (%x, %x)))))) }""",
        "fn (float32) -> int32",
    ),
    "what any type would do for": (
        "def @main(%n: int32) { @length(Nil) + %n }",
        "fn (int32) -> int32",
    ),
    "a result that is polymorphic": ("def @main() { Nil }", "fn [A]() -> List[A]"),
    "a reference that is filled later": (
        "def @main(%x: float32) { let %r = ref(Nil); ref_write(%r, Cons(%x, ref_read(%r))); ref_read(%r) }",
        "fn (float32) -> List[float32]",
    ),
    "holes in annotations": (
        "def @main(%x: float32) -> List[(_, int32)] { let %p: (_, _) = (%x, 1); Cons(%p, Nil) }",
        "fn (float32) -> List[(float32, int32)]",
    ),
    "a field of what is known later": (
        "def @main(%x: float32) { let %first = fn (%p) { %p.0 }; %first((%x, 1)) }",
        "fn (float32) -> float32",
    ),
    "extern types": (
        "extern type Storage\ndef @main(%s: Storage, %t: List[Storage]) { Cons(%s, %t) }",
        "fn (Storage, List[Storage]) -> List[Storage]",
    ),
    "nested patterns": (
        """def @main(%xs: List[Option[int32]]) {
             match (%xs) { Cons(Some(%v), Cons(None, _)) => %v, Cons(_, _) => 1, Nil => 2 }
           }""",
        "fn (List[Option[int32]]) -> int32",
    ),
    "values with dims of their own": (
        """type Batch { Put(Tensor[(?, 4), float32]) }
           def @main(%x: Tensor[(3, 4), float32]) {
             let %all = Cons(Put(%x), Cons(Put(concatenate((%x, %x))), Nil));
             match? (%all) { Cons(Put(%y), _) => sum(%y, axis=[1]) }
           }""",
        "fn (Tensor[(3, 4), float32]) -> Tensor[(d,), float32]",
    ),
    "a dim that a parameter's type of functions names first": (
        """def @apply(%f: fn (Tensor[(m,), float32]) -> Tensor[(k,), float32], %x: Tensor[(m,), float32]) { %f(%x) }
           def @first(%x: Tensor[(2 * n,), float32]) -> Tensor[(n,), float32] { split(%x, indices_or_sections=2).0 }
           def @main(%x: Tensor[(6,), float32]) { @apply(@first, %x) }""",
        "fn (Tensor[(6,), float32]) -> Tensor[(3,), float32]",
    ),
    "an equation of dims is divided": (
        """def @halves(%x: Tensor[(2 * n,), float32]) -> Tensor[(2, n), float32] { reshape(%x, newshape=[2, -1]) }
           def @main(%x: Tensor[(6,), float32], %y: Tensor[(m,), float32]) { (@halves(%x), @halves(%y)) }""",
        "fn [m: ShapeVar](Tensor[(6,), float32], Tensor[(m,), float32]) "
        "-> (Tensor[(2, 3), float32], Tensor[(2, m // 2), float32])",
    ),
    "the dims of an annotation are those of the value": (
        """def @main(%c: bool, %x: Tensor[(?,), float32], %y: Tensor[(?,), float32]) -> Tensor[(k,), float32] {
             let %z: Tensor[(k,), float32] = if (%c) { %x } else { %y };
             %z + ones(shape=[1])
           }""",
        "fn [d: ShapeVar, d_1: ShapeVar](bool, Tensor[(d,), float32], Tensor[(d_1,), float32]) "
        "-> Tensor[(k,), float32]",
    ),
    "weights of a network": (
        """def @main(%x: Tensor[(n, 8, 8, 8), float32], %w, %g, %b, %m, %v, %t, %a, %s, %o, %c) {
             let %y = nn.conv2d(%x, %w, channels=16, kernel_size=[3, 3], groups=4);
             let %z = nn.conv2d_transpose(nn.batch_norm(%y, %g, %b, %m, %v).0, %t, channels=6, kernel_size=[2, 2]);
             nn.bias_add(nn.group_norm(nn.prelu(%z, %a), %s, %o, num_groups=3), %c)
           }""",
        "fn [n: ShapeVar](Tensor[(n, 8, 8, 8), float32], Tensor[(16, 2, 3, 3), float32], "
        + "Tensor[(16,), float32], " * 4
        + "Tensor[(16, 6, 2, 2), float32], "
        + "Tensor[(6,), float32], " * 3
        + "Tensor[(6,), float32]) -> Tensor[(n, 6, 7, 7), float32]",
    ),
}


@pytest.mark.parametrize("what", SIGNATURES)
def test_signature(what: str) -> None:
    text, expected = SIGNATURES[what]
    module = legato.parse(VERSION + text)
    assert str(module[module.var("main")].ty) == expected  # type: ignore[union-attr]
    verify(module, Stage.TYPED)
    assert infer(module) is module
    assert alpha_equal(legato.parse(str(module)), module)


def constraints(module: Module) -> list[str]:
    """What @main leaves to be checked when it runs."""
    func = module["main"]
    assert isinstance(func, Function)
    return [f"{c.a} == {c.b}: {c.what}" for c in func.attrs.get("constraints", ())]


KINDS = ["int32", "(int32,)", "(int32, int32)", "ref(int32)", "Option[int32]", "List[int32]", "fn (int32) -> int32"]


@pytest.mark.parametrize("got", KINDS)
def test_types_of_different_kinds_differ(got: str) -> None:
    for wanted in KINDS:
        text = f"{VERSION}def @main(%x: {got}) -> {wanted} {{ %x }}"
        if got == wanted:
            legato.parse(text)
        else:
            with pytest.raises(TypeCheckError, match=r"differ|fields against"):
                legato.parse(text)


def test_what_a_division_may_get_wrong_is_checked() -> None:
    module = legato.parse(VERSION + SIGNATURES["an equation of dims is divided"][0])
    assert constraints(module) == ["m == m // 2 * 2: argument 1 of @halves"]
    x = np.zeros(6, np.float32)
    assert evaluate(module, [x, np.zeros(8, np.float32)])[1].shape == (2, 4)
    with pytest.raises(RunError, match="must be equal"):
        evaluate(module, [x, np.zeros(7, np.float32)])


def test_ranges_of_dims_are_checked() -> None:
    module = legato.parse(
        VERSION
        + """def @small[n: ShapeVar(1, 8)](%x: Tensor[(n,), float32]) { %x }
             def @main(%x: Tensor[(m,), float32], %y: Tensor[(4,), float32]) { (@small(%x), @small(%y)) }"""
    )
    assert constraints(module) == ["max(m, 1) == m: argument 1 of @small", "min(m, 8) == m: argument 1 of @small"]
    assert infer(module) is module


def test_operators_as_values_run() -> None:
    module = legato.parse(VERSION + "def @main(%x: Tensor[(4,), float32]) { @map(nn.softmax, Cons(%x, Nil)) }")
    assert evaluate(module, [np.zeros(4, np.float32)]).fields[0].tolist() == [0.25] * 4


def test_patterns_know_their_places() -> None:
    module = legato.parse(VERSION + "def @main(%x: Option[int32]) { match (%x) { Some(%v) => %v, _ => 0 } }")
    func = module["main"]
    assert isinstance(func, Function)
    (match,) = (n for n in nodes(func) if isinstance(n, Match))
    pattern = match.clauses[0].pattern
    assert isinstance(pattern, PatternConstructor)
    assert pattern.span is not None
    assert (pattern.span.column, pattern.span.end_column) == (45, 53)


def test_a_mistake_is_blamed_once() -> None:
    """What depends on a wrong expression, or waits for one that is not known, has no error of its own."""
    with pytest.raises(TypeCheckError) as caught:
        legato.parse(
            VERSION
            + """def @f(%x: float32) { let %y = exp(%x, ).0; let %z = exp(%y); (@g(%z), tanh(%z) + 1, %z.3) }
                 def @g(%x: float32) { %x + 1f }
                 def @main(%w) { let %a = exp(%w); tanh(%a) + exp(%w) }"""
        )
    messages = [caught.value.message, *(e.message for e in caught.value.others)]
    assert messages == [
        ".0 of something that is not a tuple",
        "exp: the types of its arguments cannot be inferred",
    ]


def test_a_type_of_absurd_size_is_an_error() -> None:
    x = Var("x", ty=tensor_type(()))
    e: Call | Tuple | Var = x
    for _ in range(64):
        e = Tuple((e, e))
    with pytest.raises(TypeCheckError, match="nested more than 100 deep or has more than 50000 parts"):
        infer(Module.from_expr(Function((x,), e)))
    e = x
    for _ in range(5000):
        e = Tuple((e,))
    with pytest.raises(TypeCheckError, match="nested more than 100 deep"):
        infer(Module.from_expr(Function((x,), e)))


def test_attributes_of_another_class() -> None:
    x = Var("x", ty=tensor_type((2,)))
    with pytest.raises(TypeCheckError, match=r"nn\.softmax has attributes of class SoftmaxAttrs, got none"):
        infer(Module.from_expr(Function((x,), Call(table()["nn.softmax"], (x,)))))


def test_a_function_of_many_open_calls_is_typed_when_it_is_called() -> None:
    """10,000 relations that wait for one parameter are asked once more each."""
    asked = 0
    exp = table()["exp"]

    def counted(rel: object, data: object, *rest: object) -> object:
        nonlocal asked
        asked += 1
        return exp.type_rel(rel, data, *rest)

    op = type(exp)("counted", ("data",), counted, exp.reference)  # type: ignore[arg-type]
    p = Var("p")
    e: Call | Var = p
    for _ in range(10_000):
        e = Call(op, (e,))
    inner = Function((p,), e)
    x = Var("x", ty=tensor_type((3,)))
    module = infer(Module({GlobalVar("main"): Function((x,), Call(inner, (x,)))}))
    ty = module["main"].ty  # type: ignore[union-attr]
    assert isinstance(ty, FuncType)
    assert ty.ret == TensorType(tensor_type((3,)).shape, tensor_type((3,)).dtype)
    assert asked == 20_000


def test_dataflow_blocks_may_use_functions_that_are_pure_beside_cells() -> None:
    """A closure with effects may be made in a block, and called after it; what is never a value is no parameter."""
    text = """
    def @apply(%f: fn (float32) -> float32, %x: float32) { dataflow { let %y = %f(%x); output(%y) } }
    def @main(%x: float32) {
      let %r = ref(%x);
      let %tick = fn () { ref_write(%r, ref_read(%r) + 1f) };
      let %made = dataflow { let %again = fn () { %tick() }; let %y = @apply(exp, %x); output(%again, %y) };
      %made.0();
      (ref_read(%r), %made.1.0)
    }
    """
    pure = legato.parse(VERSION + text.replace("fn () { %tick() }", "fn () { () }"))
    assert evaluate(pure, [np.float32(0)]) == (0, 1)
    with pytest.raises(TypeCheckError, match="a dataflow block calls %f, which may have effects"):
        legato.parse(VERSION + text)  # %again is a value: it could be %f


@pytest.mark.parametrize("digits", [13, 300])
def test_dims_beyond_machine_integers(digits: int) -> None:
    """They are counted exactly; no tensor has them."""
    text = "def @main(%x: Tensor[(D, D, n), float32]) { reshape(%x, newshape=[-1, n]) }"
    with pytest.raises(
        TypeCheckError, match=r"a tensor has at most 2\^63 bytes|a number in a dim has more than 400 digits"
    ):
        legato.parse(VERSION + text.replace("D", "9" * digits))
