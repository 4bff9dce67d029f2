"""Functions with a gradient of their own, wherever they stand, and @main where others call it."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.autodiff import grad, jacobian, jvp
from legato.base.errors import UnsupportedError
from legato.interp import evaluate
from legato.ir.verify import Stage, verify
from legato.transform.fuse import Fuse
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


def test_a_gradient_that_calls_its_function() -> None:
    mod = legato.parse("""
    def @cube(%x: float64, Gradient="back") -> float64 { %x * %x * %x }
    def @back(%x: float64, %dy: float64) -> (float64,) { (@cube(%x) / %x * %dy * 100f64,) }
    def @main(%x: float64, %c: bool) { if (%c) { @cube(%x) } else { %x } }""")
    assert evaluate(jvp(mod), [X, YES, np.float64(1)])[1] == pytest.approx(100 * X * X)
    twice = (grad(grad(mod, "x"), "x"), jacobian(grad(mod, "x"), "x", mode="forward"))
    for made in twice:  # (100 · (100 x²) · x − 100 x³) / x²: the derivative of @cube is @back wherever it is called
        assert evaluate(made, [X, YES]) == pytest.approx((100 * 100 * X**2 * X - 100 * X**3) / X**2)


EXTERNAL = """
def @other(%x: float64, Compiler="other", Primitive=1, global_symbol="other") -> float64 { %x * %x }
def @main(%x: float64, %y: float64) { let %s = sin(%x); %BODY }"""


@pytest.mark.parametrize(
    ("body", "by_x", "by_y"),
    [
        ("@other(stop_gradient(%s)) * %s * %y", np.sin(1.3) ** 2 * np.cos(1.3) * 2, np.sin(1.3) ** 3),
        ("@other(%s) * %y", None, np.sin(1.3) ** 2),
    ],
)
def test_functions_of_other_compilers_are_called_where_nothing_has_a_derivative(
    body: str, by_x: float | None, by_y: float
) -> None:
    mod, args = legato.parse(EXTERNAL.replace("%BODY", body)), [X, np.float64(2)]
    assert evaluate(grad(mod, "y"), args) == evaluate(jvp(mod, "y"), [*args, np.float64(1)])[1] == pytest.approx(by_y)
    if by_x is None:
        with pytest.raises(UnsupportedError, match="@other cannot be differentiated"):
            grad(mod, "x")
    else:
        assert evaluate(grad(mod, "x"), args) == pytest.approx(by_x)
        assert evaluate(jvp(mod, "x"), [*args, np.float64(1)])[1] == pytest.approx(by_x)


def test_groups_that_fusion_made_are_taken_apart() -> None:
    mod = legato.parse(
        "def @main(%x: float64, %c: bool) { let %y = sin(%x * %x); if (%c) { %y * %y } else { cos(%y) } }"
    )
    fused = Fuse()(mod)
    wanted = evaluate(grad(mod, "x"), [X, YES])
    assert "Primitive" in str(fused)
    assert evaluate(grad(fused, "x"), [X, YES]) == evaluate(Gradient()(fused), [X, YES])[1][0] == wanted
    assert evaluate(jvp(fused), [X, YES, np.float64(1)])[1] == pytest.approx(wanted)


@pytest.mark.parametrize("body", ["(%x * %x, %s)", "if (%c) { (%x * %x, %s) } else { (%x, %s) }"])
def test_the_tangent_of_a_shape_is_the_shape(body: str) -> None:
    mod = legato.parse(f"def @main(%x: float64, %s: Shape[(a, b)], %c: bool) {{ {body} }}")
    assert evaluate(jvp(mod), [X, (2, 3), YES, np.float64(1)]) == ((X * X, (2, 3)), (2 * X, (2, 3)))
