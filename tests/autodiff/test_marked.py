"""Functions with a gradient of their own, wherever they stand, and @main where others call it."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.autodiff import grad, jacobian, jvp
from legato.base.errors import UnsupportedError
from legato.interp import evaluate
from legato.ir.verify import Stage, verify
from legato.transform.gradient import Gradient

# @square says that its derivative is 100: what comes of it tells who was asked.
SQUARE = """
def @square(%x: float64, Gradient="back") -> float64 { %x * %x }
def @back(%x: float64, %dy: float64) -> (float64,) { (%dy * 100f64,) }"""
X, YES = np.float64(1.3), np.bool_(True)


@pytest.mark.parametrize(
    "body",
    [
        "let %f = if (%c) { @square } else { sin }; %f(%x)",
        "@apply(@square, %x, %c)",
        "let %p = (@square, %x); if (%c) { %p.0(%p.1) } else { 0f64 }",
    ],
)
def test_a_function_that_is_a_value_keeps_its_gradient(body: str) -> None:
    mod = legato.parse(f"""{SQUARE}
    def @apply(%f: fn (float64) -> float64, %x: float64, %c: bool) -> float64 {{ if (%c) {{ %f(%x) }} else {{ %x }} }}
    def @main(%x: float64, %c: bool) {{ {body} }}""")
    assert evaluate(Gradient()(mod), [X, YES])[1] == (100.0,)
    assert evaluate(grad(mod, "x"), [X, YES]) == 100
    assert evaluate(jvp(mod), [X, YES, np.float64(1)])[1] == 100


def test_main_keeps_its_gradient() -> None:
    mod = legato.parse(SQUARE.replace("@square", "@main"))
    assert evaluate(grad(mod, "x"), [X]) == 100
    assert evaluate(jvp(mod), [X, np.float64(1)]) == (X * X, 100)
    assert evaluate(jacobian(mod, "x"), [X]) == evaluate(jacobian(mod, "x", mode="forward"), [X]) == 100
    assert evaluate(grad(jacobian(mod, "x"), "x"), [X]) == 0


def test_local_functions_have_none() -> None:
    mod = legato.parse(
        SQUARE
        + """
    def @main(%x: float64) { let %f = fn (%y: float64, Gradient="back") -> float64 { %y * %y }; %f(%x) }"""
    )
    for differentiate in (grad, jvp, Gradient()):
        with pytest.raises(UnsupportedError, match="inside of another one"):
            differentiate(mod)  # type: ignore[operator]


def test_functions_computed_again_with_tapes_of_their_own() -> None:
    loop = """
    def @{0}(%x: float64, %n: int32{1}) -> float64 {{
      let %l = fn (%i: int32, %a: float64) -> float64 {{ if (%i == 0) {{ %a }} else {{ %l(%i - 1, {0}(%a) * %x) }} }};
      %l(%n, %x)
    }}"""
    main = "def @main(%x: float64, %n: int32) { @sin(%x, %n) * @cos(%x, %n) }"
    mods = [legato.parse("".join(loop.format(f, mark) for f in ("sin", "cos")) + main) for mark in (", Remat=1", "")]
    found, wanted = (evaluate(Gradient()(mod), [X, np.int32(3)]) for mod in mods)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-14)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("def @main(%x: float64) { %x * %x } def @f(%x: float64) -> float64 { @main(%x) }", 2 * X),
        (
            """def @main(%x: float64) -> float64 { if (%x > 9f64) { %x } else { %x * @f(%x) } }
            def @f(%x: float64) -> float64 { @main(%x + 9f64) }""",
            2 * X + 9,
        ),
    ],
)
def test_others_call_main(text: str, wanted: float) -> None:
    mod = legato.parse(text)
    new = Gradient()(mod)
    verify(new, Stage.TYPED)
    assert evaluate(new, [X])[1][0] == pytest.approx(wanted)
    assert evaluate(grad(mod, "x"), [X]) == pytest.approx(wanted)
    assert evaluate(jvp(mod), [X, np.float64(1)])[1] == pytest.approx(wanted)
