"""Functions for other code generators: every pass leaves them alone."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.verify import verify
from legato.transform import table
from legato.transform.outline_external import OutlineExternal

BODIES = """
def @small(%x: Tensor[(k, 4), float32], Compiler="c", global_symbol="small", Primitive=1, Inline=1) {
  exp(%x) + exp(%x)
}
def @large(%x: Tensor[(m, 4), float32], %y: Tensor[(m, 4), float32], Compiler="c", Primitive=1, Inline=1) {
  %0 = exp(%x) + exp(%x);
  let %r = %0 * 1f / 2f;
  let %u = sin(%x);
  %9 = fn (%p: Tensor[(m, 4), float32], Composite="c.x") -> Tensor[(m, 4), float32] { tanh(%p) + 0f };
  if (min(%x) < 0f) { nn.dropout(%r).0 + %9(%y) } else { %r }
}
"""
CALLS = """
def @main(%x: Tensor[(n, 4), float32]) {
  let %a = @large(%x, %x);
  let %b = @large(%small(%x), %x * 2f);
  (@helper(%a), %b, MAP)
}
def @helper(%x: Tensor[(m, 4), float32]) { exp(%x) + exp(%x) }
""".replace("%small", "@small")


@pytest.mark.parametrize("values", ["@map(@small, Cons(%x, Nil))", "@small(%x)"])
@pytest.mark.parametrize("name", [name for name, p in table().items() if p.keeps_meaning])
def test_passes_leave_them_alone(name: str, values: str) -> None:
    module = infer(legato.parse(CALLS.replace("MAP", values) + BODIES))
    new = table()[name]()(module)
    for gv in ("small", "large"):
        assert gv in new
        assert new[gv] is module[gv]


LOCAL = """
def @main(%x: Tensor[(n, 4), float32]) {
  let %f = fn (%y: Tensor[(n, 4), float32], Compiler="c", global_symbol="theirs") { exp(%y) };
  let %g = fn (%y: Tensor[(3), float32], Compiler="d") { tanh(%y) };
  (%f(%f(%x)), %g(ones(shape=[3], dtype="float32")))
}"""
OUTLINED = """
def @main(%x: Tensor[(n, 4), float32]) {
  (@theirs[n](@theirs[n](%x)), @d_main(ones(shape=[3], dtype="float32")))
}
def @theirs(%y: Tensor[(m, 4), float32], Compiler="c", global_symbol="theirs") -> Tensor[(m, 4), float32] { exp(%y) }
def @d_main(%y: Tensor[(3), float32], Compiler="d", global_symbol="d_main") -> Tensor[(3), float32] { tanh(%y) }
"""


def test_local_functions_become_functions_of_the_module() -> None:
    module = infer(legato.parse(LOCAL))
    new = OutlineExternal()(module)
    verify(new)
    assert alpha_equal(new, infer(legato.parse(OUTLINED)))
    assert OutlineExternal()(new) is new
    assert OutlineExternal(compiler="e")(module) is module
    named = OutlineExternal(named=True)(module)
    assert "theirs" in named
    assert "d_main" not in named


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'def @main(%x: Tensor[(n), float32]) { fn (%y: Tensor[(n), float32], Compiler="c") { %y + %x }(%x) }',
            "uses %x of its surroundings",
        ),
        (
            'def @main(%x: Tensor[(n), float32]) { fn (Compiler="c") { ones(shape=[n], dtype="float32") }() }',
            "uses the dim n, which no parameter tells",
        ),
        (LOCAL.replace("@main", "@theirs") + "def @main(%x: Tensor[(1, 4), float32]) { @theirs(%x) }", "@theirs"),
    ],
)
def test_what_cannot_be_outlined(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        OutlineExternal()(infer(legato.parse(text)))


def test_annotations_mean_what_they_mark() -> None:

    text = """def @main(%x: Tensor[(2), float32]) {
      %0 = annotation.compiler_begin((%x, exp(%x)), compiler="c");
      annotation.compiler_end(%0.1, compiler="c")
    }"""
    module = infer(legato.parse(text))
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(evaluate(module, [x]), np.exp(x))
    np.testing.assert_allclose(legato.compile(module)(x), np.exp(x), rtol=1e-6)
