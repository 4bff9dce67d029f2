"""What generators take of a program: golden cases, and that programs mean what they meant."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.base.errors import CompileError, GeneratorError
from legato.generators import MergeComposite, partition
from legato.generators.annotate_target import AnnotateTarget
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Function
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.ir.verify import verify
from legato.ops import table
from legato.patterns import is_op, wildcard
from legato.transform._external import compiler_of
from legato.transform.merge_compiler_regions import MergeCompilerRegions
from legato.transform.partition_graph import PartitionGraph
from tests.generators.samples import Interpreting, dense_relu
from tests.graphs import Program, compare, programs
from tests.programs import strategy as language
from tests.programs.settings import examples
from tests.programs.values import same

TAKES = AnnotateTarget((("c", lambda call: call.op.name in ("exp", "negative", "add", "log", "split")),))
STEPS = (TAKES, MergeCompilerRegions(), PartitionGraph())

AROUND = "def @main(%x: Tensor[(n, 4), float32]) { %0 = exp(%x); %1 = tanh(%0); add(%0, %1) }"
GOLDEN = {
    # one region: the second output is used outside, in the middle there is nothing
    "def @main(%x: Tensor[(n, 4), float32]) { %0 = exp(%x); (log(%0), tanh(%0)) }": """
    def @main(%x: Tensor[(n, 4), float32]) { %0 = @c_main_0[n](%x); (%0.0, tanh(%0.1)) }
    def @c_main_0(%x: Tensor[(n, 4), float32], ATTRS_0) { %0 = exp(%x); (log(%0), %0) }""",
    # two regions: a way from one to the other leads through tanh
    AROUND: """
    def @main(%x: Tensor[(n, 4), float32]) { %0 = @c_main_0[n](%x); @c_main_1[n](%0, tanh(%0)) }
    def @c_main_0(%x: Tensor[(n, 4), float32], ATTRS_0) { exp(%x) }
    def @c_main_1(%x: Tensor[(n, 4), float32], %y: Tensor[(n, 4), float32], ATTRS_1) { add(%x, %y) }""",
    # fields of a tuple that the region itself makes belong to it; those of others do not
    "def @main(%x: Tensor[(2, 4), float32]) { %0 = split(%x, indices_or_sections=2); (log(%0.0), %0.1) }": """
    def @main(%x: Tensor[(2, 4), float32]) { %0 = @c_main_0(%x); (%0.0, %0.1) }
    def @c_main_0(%x: Tensor[(2, 4), float32], ATTRS_0) {
      %0 = split(%x, indices_or_sections=2); (log(%0.0), %0.1)
    }""",
    # a branch is computed where it is chosen
    """def @main(%x: Tensor[(2), float32], %b: bool) {
      %0 = exp(%x); if (%b) { log(%0) } else { negative(exp(%0)) }
    }""": """
    def @main(%x: Tensor[(2), float32], %b: bool) {
      %0 = @c_main_0(%x); if (%b) { @c_main_1(%0) } else { @c_main_2(%0) }
    }
    def @c_main_0(%x: Tensor[(2), float32], ATTRS_0) { exp(%x) }
    def @c_main_1(%x: Tensor[(2), float32], ATTRS_1) { log(%x) }
    def @c_main_2(%x: Tensor[(2), float32], ATTRS_2) { negative(exp(%x)) }""",
    # what cells are read for stays; so does a region whose dims no parameter tells
    """def @main(%x: Tensor[(n), float32]) {
      let %r = ref(%x); let %u = ref_write(%r, exp(%x)); (exp(%r^), exp(ones(shape=[n], dtype="float32")))
    }""".replace("%r^", "ref_read(%r)"): """
    def @main(%x: Tensor[(n), float32]) {
      let %r = ref(%x); let %u = ref_write(%r, @c_main_0[n](%x));
      (exp(ref_read(%r)), @c_main_1[n](ones(shape=[n], dtype="float32")))
    }
    def @c_main_0(%x: Tensor[(n), float32], ATTRS_0) { exp(%x) }
    def @c_main_1(%x: Tensor[(n), float32], ATTRS_1) { exp(%x) }""",
}


def parsed(text: str) -> Module:
    """A module, typed, with the attributes of functions that regions become."""
    for n in range(3):
        text = text.replace(f"ATTRS_{n}", f'Compiler="c", global_symbol="c_main_{n}", Primitive=1, Inline=1')
    return infer(legato.parse(text))


def through(module: Module) -> Module:
    """The module after all steps, each of which is done once and for all."""
    for step in STEPS:
        new = step(module)
        verify(new)
        assert step(new) is new
        module = new
    return module


@pytest.mark.parametrize("text", GOLDEN)
def test_regions(text: str) -> None:
    new, wanted = through(parsed(text)), parsed(GOLDEN[text])
    assert alpha_equal(new, wanted), str(new)


def test_constants_are_bound_or_passed() -> None:
    module = parsed("def @main(%x: Tensor[(2), float32]) { add(%x, 2f) }")
    bound = partition(module, [Interpreting()])
    passed = partition(module, [Interpreting()], bind_constants=False, prefix="p_")
    assert len(function(bound, "c_main_0").params) == 1
    assert len(function(passed, "p_c_main_0").params) == 2


def function(module: Module, name: str) -> Function:
    """A function of the language."""
    found = module[name]
    assert isinstance(found, Function)
    return found


def test_patterns_come_first_and_the_first_generator() -> None:
    module = parsed("""def @main(%x: Tensor[(2, 4), float32], %w: Tensor[(4, 4), float32]) {
      exp(nn.relu(nn.dense(%x, %w))) + nn.relu(nn.dense(%x, %w))
    }""")
    first, second = Interpreting("d", ("exp",), (dense_relu("d"),)), Interpreting("c", ("exp", "add", "nn.dense"))
    new = partition(module, [first, second])
    verify(new)
    assert sorted(gv.name for gv in new.functions) == ["c_main_2", "d_main_0", "d_main_1", "main"]
    for name in ("d_main_0", "d_main_1"):
        inside = [n for n in post_order(function(new, name).body) if isinstance(n, Function)]
        assert [f.attrs["Composite"] for f in inside] == ["d.dense_relu"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('annotation.compiler_end(%x, compiler="c")', "nothing is computed in front of it"),
        (
            'exp(annotation.compiler_end(exp(annotation.compiler_end(exp(%x), compiler="c")), compiler="c"))',
            "another region uses it without compiler_begin",
        ),
        (
            '%0 = exp(%x); (annotation.compiler_end(%0, compiler="c"), annotation.compiler_end(%0, compiler="d"))',
            "is also one of",
        ),
    ],
)
def test_annotations_that_do_not_fit(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        PartitionGraph()(parsed(f"def @main(%x: Tensor[(2), float32]) {{ {text} }}"))


def test_a_region_around_something_is_refused() -> None:
    text = """def @main(%x: Tensor[(2), float32]) {
      %0 = exp(annotation.compiler_begin(%x, compiler="c"));
      %1 = tanh(annotation.compiler_end(%0, compiler="c"));
      annotation.compiler_end(add(%0, annotation.compiler_begin(%1, compiler="c")), compiler="c")
    }"""
    with pytest.raises(CompileError, match="uses what is computed from it"):
        PartitionGraph()(parsed(text))


@pytest.mark.parametrize("entry", [("dense", None), ("c.dense",), (1, 2, 3)])
def test_tables_are_checked(entry: object) -> None:
    with pytest.raises(CompileError, match="no entry of a table of patterns"):
        MergeComposite((entry,))(parsed(AROUND))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "generators",
    [[1], [Interpreting("a"), Interpreting("a", ())], [object()], [Interpreting("a.b")], [Interpreting("default")]],
)
def test_generators_are_checked(generators: list[object]) -> None:
    with pytest.raises(GeneratorError, match="generators: "):
        partition(parsed(AROUND), generators)


def fails(e: Any) -> bool:
    raise ValueError("no idea")


class Doubt:
    def __bool__(self) -> bool:
        raise TypeError("neither")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"supports": fails}, r"generator 'odd': supports failed for a call of \w+: ValueError: no idea"),
        ({"supports": lambda call: Doubt()}, r"generator 'odd': supports failed for a call of \w+: TypeError: neither"),
        ({"supports": 5}, r"generator 'odd': supports is a int, wanted a method"),
        ({"composites": 5}, r"generator 'odd': composites is a int, wanted a tuple"),
        ({"composites": (5,)}, r"generator 'odd': composites: no entry of a table of patterns: 5"),
        ({"composites": (("odd.e", is_op("exp")(wildcard()), 5),)}, r"composites: no entry"),
        ({"composites": (("other.e", is_op("exp")(wildcard())),)}, r"'other\.e' does not begin with its name"),
        (
            {"composites": (("odd.e", is_op("exp")(wildcard()), fails),)},
            r"the check of pattern 'odd\.e' failed: ValueError: no idea",
        ),
    ],
)
def test_generators_with_other_parts(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(GeneratorError, match=message):
        partition(parsed(AROUND), [SimpleNamespace(name="odd", compile=fails, **parts)])


def test_a_number_is_no_generator() -> None:
    with pytest.raises(GeneratorError, match="generators: got 5, wanted code generators"):
        partition(parsed(AROUND), 5)  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="targets: got"):
        AnnotateTarget((("c", 5),))  # type: ignore[arg-type]


def drawn(seed: int, share: int) -> list[Interpreting]:
    """Two generators that take random operators."""
    random = Random(seed)
    names = sorted(table())
    return [Interpreting(name, frozenset(n for n in names if random.randrange(10) < share)) for name in "cd"]


def taken(module: Module) -> int:
    """How many functions are for generators."""
    return sum(compiler_of(f) is not None for _, f in module.graph_functions())


@examples(10)
@given(programs(steps=16, limit=512), st.integers(0, 99), st.integers(2, 9))
def test_graphs_mean_what_they_meant(program: Program, seed: int, share: int) -> None:
    new = partition(program.module, drawn(seed, share))
    verify(new)
    args = program.arguments()
    compare(evaluate(new, args), program, args)


@examples(10)
@given(language.programs(), st.integers(0, 99), st.integers(2, 9))
def test_programs_of_the_language_mean_what_they_meant(program: language.Program, seed: int, share: int) -> None:
    new = partition(program.module, drawn(seed, share))
    verify(new)
    assert same(evaluate(new, program.args), evaluate(program.module, program.args))


def test_deep_programs() -> None:
    module = parsed("def @main(%x: Tensor[(2), float32]) { %x }")
    main = function(module, "main")
    body = main.params[0]
    exp = next(n for n in post_order(parsed(AROUND)["main"]) if isinstance(n, Op) and n.name == "exp")  # type: ignore[arg-type]
    for _ in range(20_000):
        body = Call(exp, (body,), ty=body.ty)  # type: ignore[assignment]
    new = through(module.with_function(module.var("main"), replace(main, body=body)))
    assert taken(new) == 1
