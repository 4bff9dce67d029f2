"""Tensor programs that are called from text: what is called is proven or checked, and none reaches foreign memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError, InternalError, RunError, TypeCheckError, UnsupportedError, VerifyError
from legato.interp import evaluate

X, Y = "x: Buffer[(n,), float32]", "y: Buffer[(n,), float32]"
SAME = "Tensor[(m,), float32]"


def module(body: str, *, params: str = f"{X}, {Y}, n: index", out: str = SAME, dims: str = "", x: str = SAME) -> Any:
    call = f"call_tir(@k, (%x,), out=[{out}]{dims})"
    return legato.parse(f'#[version = "0.0.5"]\nkernel @k({params}) {{ {body} }}\ndef @main(%x: {x}) {{ {call} }}')


def outcome(run: Any, *args: Any) -> Any:
    """The values of the result, or the first line of the error."""
    try:
        return np.asarray(run(*args)).tolist()
    except RunError as error:
        return str(error).splitlines()[0]


def vector(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


# A kernel over x and y of n elements, and its result or error for x = 0, 1, 2, 3.
PROGRAMS = [
    ("parallel i in 0..n { y[i] = x[n - 1 - i]; }", [3, 2, 1, 0]),
    ("for i in 0..n { if 2 <= i { y[i] = x[i - 2]; } }", [0, 0, 0, 1]),  # what is not stored is 0
    ("for i in 0..n { y[i] = y[i] + x[i]; y[i] = y[i] + x[i]; }", [0, 2, 4, 6]),
    ("parallel i in 0..n { y[i] = x[i + 1]; }", "kernel k reads x[4], whose extents are [4]"),
    ("for i in 0..n { y[i - 1] = 1f; }", "kernel k stores to y[-1], whose extents are [4]"),
    ("for i in 0..n { y[i] = x[index(x[i]) + 1]; }", "kernel k reads x[4], whose extents are [4]"),
    ("vector i in 0..5 { y[i] = x[i]; }", "kernel k reads x[4], whose extents are [4]"),
    ("vector i in 0..5 { if i < n { y[i] = x[i]; } }", [0, 1, 2, 3]),
    ("for i in 0..n { y[i] = select(0 < i, x[i * i * i * i // (i * i * i)], 7f); }", [7, 1, 2, 3]),
    ('check n < 4 else 0, "only a few"; for i in 0..n { y[i] = 1f; }', "only a few"),
    ("check 4 < n else 3; for i in 0..n { y[i] = 1f; }", "k: check 3 failed"),
    ("alloc t: Buffer[(n + 1,), float32]; for i in 0..n { t[i + 1] = x[i]; } for i in 0..n { y[i] = t[i]; }",
     [0, 0, 1, 2]),
    ("parallel i in 0..n { alloc t: Buffer[(n,), float32, scope=local]; for j in 0..n { t[j] = x[j]; }"
     " y[i] = t[n - 1 - i]; }",
     [3, 2, 1, 0]),
    ("parallel i in 0..n { alloc t: Buffer[(2,), float32, scope=register]; y[i] = x[i] + t[i % 2]; }", [0, 1, 2, 3]),
    ("alloc t: Buffer[(9000, 2), float32, scope=local]; t[8999, 0] = x[2];"
     " for i in 0..n { y[i] = t[9000 - n + i, 0]; }",
     [0, 0, 0, 2]),
    ("for i in 0..n { alloc t: Buffer[(n - 9,), float32, scope=local]; y[i] = 1f; }", "t has an extent below 0"),
    ("check n < 9 else 1;", [0, 0, 0, 0]),  # though nothing is stored at all
    ("parallel i in 0..n { parallel j in 0..n { y[i] = 1f; } }", [1, 1, 1, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "wanted"), PROGRAMS)
def test_a_program_is_safe_whatever_it_does(body: str, wanted: Any) -> None:
    mod, out = module(body), np.full(4, 7, np.float32)
    assert outcome(evaluate, mod, [vector(4)]) == wanted
    for exe in (legato.compile(mod), legato.compile(mod, bounds=True, precision="exact")):  # exact: as written
        assert outcome(exe, vector(4)) == wanted
        outcome(lambda e=exe: e.run({"x": vector(4)}, out={"output": out}))
        assert out.tolist() == ([7] * 4 if isinstance(wanted, str) else wanted)
        out[:] = 7


# Results of @main(%x, %c), where %0 may be needed by nothing, on one path, or in a closure.
USES = [
    "let %y = %0; %x",
    "(%0, %x).1",
    "let %y = %0; if (%c) { %y } else { %x }",
    "if (%c) { %0 } else { if (sum(%x) < 5f) { %0 } else { %x } }",
    "let %f = fn (%z: bool) { if (%z) { %0 } else { %x } }; %f(%c)",
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("body", ["check n < 4 else 1;", "for i in 0..n - 2 { y[i] = x[2 * i]; }"])
def test_a_program_fails_where_it_stands(body: str, use: str) -> None:
    """A call whose checks may fail is neither dropped nor computed where the interpreter does not."""
    kernel = f"kernel @k({X}, {Y}, n: index) {{ {body} }}"
    call = f"%0 = call_tir(@k, (%x,), out=[{SAME}]);"
    mod = legato.parse(f'#[version = "0.0.5"]\n{kernel}\ndef @main(%x: {SAME}, %c: bool) {{ {call} {use} }}')
    exe = legato.compile(mod)
    for n in (3, 4):
        for c in (False, True):
            args = [vector(n), np.array(c)]
            assert outcome(exe, *args) == outcome(lambda *a: evaluate(mod, [*a]), *args)


SHAPES = [
    ({"x": "Tensor[(6,), float32]", "out": "Tensor[(6,), float32]"}, 6, [0, 1, 2, 3, 4, 5]),
    ({"out": "Tensor[(6,), float32]"}, 6, [0, 1, 2, 3, 4, 5]),
    ({"out": "Tensor[(6,), float32]"}, 5, "call_tir: extent 0 of y: the sizes do not fit"),
    ({"dims": ", dims=[m]"}, 3, [0, 1, 2]),
    ({"dims": ", dims=[m * 2 - m]"}, 3, [0, 1, 2]),
    ({"dims": ", dims=[3]"}, 4, "call_tir: extent 0 of x: the sizes do not fit"),
    ({"params": f"{X}, y: Buffer[(2 * n,), float32], n: index", "out": "Tensor[(2 * m,), float32]"}, 2, [0, 1, 0, 0]),
    ({"params": f"x: Buffer[(2 * n,), float32], {Y}, n: index", "out": "Tensor[(m // 2,), float32]"}, 4, [0, 1]),
    ({"params": f"x: Buffer[(2 * n,), float32], {Y}, n: index", "out": "Tensor[(m // 2,), float32]"}, 5,
     "call_tir: extent 0 of x: the sizes do not fit"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "n", "wanted"), SHAPES)
def test_extents_are_solved_proven_or_checked(how: dict[str, str], n: int, wanted: Any) -> None:
    mod = module("for i in 0..n { y[i] = x[i]; }", **how)
    assert outcome(legato.compile(mod, precision="exact"), vector(n)) == wanted
    got = outcome(evaluate, mod, [vector(n)])
    assert got == wanted or (isinstance(wanted, str) and got.startswith(("call_tir: extent", "call_tir: x of")))


REFUSED = [
    ("x[0] = 1f;", {}, "call_tir: @k stores to its input x, which is no output of the call"),
    ("", {"x": "Tensor[(4,), int32]"}, "call_tir: x of @k is float32 of rank 1, got Tensor[(4,), int32]"),
    ("", {"x": "Tensor[(4, m), float32]"}, "call_tir: x of @k is float32 of rank 1, got Tensor[(4, m), float32]"),
    ("", {"out": "Tensor[(m,), float32], Tensor[(m,), float32]"},
     "call_tir: @k takes 2 buffers, got 1 arguments and 2 results"),
    ("", {"params": f"n: index, {X}, {Y}"}, "call_tir: @k has index parameters before buffers"),
    ("", {"dims": ", dims=[m, m]"}, "call_tir: @k has 1 dims, got 2"),
    ("", {"params": f"{X}, {Y}, n: index, q: index"}, "call_tir: no extent tells the dims q of @k"),
    ("", {"x": "Tensor[(3,), float32]", "out": "Tensor[(4,), float32]"},
     "call_tir: extent 0 of y: the dims differ, 3 and 4"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "how", "message"), REFUSED)
def test_a_call_that_does_not_fit_is_a_type_error(body: str, how: dict[str, str], message: str) -> None:
    with pytest.raises(TypeCheckError) as error:
        module(body, **how)
    assert error.value.message == message


NOT_COMPILED = [
    ("unroll i in 0..1000000 { y[0] = 1f; }", VerifyError),
    ("vector i in 0..100000 { if i < n { y[i] = 1f; } }", VerifyError),
    ("if 0 < n { " * 70 + "y[0] = 1f;" + " }" * 70, VerifyError),
    ("for i in 0..n { parallel j in 0..i { alloc t: Buffer[(i + 1,), float32, scope=local]; y[j] = t[0]; } }",
     UnsupportedError),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kind"), NOT_COMPILED)
def test_what_cannot_be_compiled_is_refused(body: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        legato.compile(module(body))


def test_layouts_are_those_of_values() -> None:
    mod = module("", params=f"{X}, y: Buffer[(n, n), float32, order=(1, 0)], n: index", out="Tensor[(m, m), float32]")
    with pytest.raises(UnsupportedError, match="y of @k has a layout of its own"):
        legato.compile(mod)


def test_proven_programs_are_as_they_were_written(tmp_path: Any) -> None:
    assert not legato.compile(module(PROGRAMS[0][0]), bounds=False).program.tests
    tested = legato.compile(module(PROGRAMS[3][0]))
    tested.save(tmp_path / "k.legato")
    assert outcome(legato.load(tmp_path / "k.legato"), vector(4)) == PROGRAMS[3][1]


def test_names_of_kernels_are_free() -> None:
    text = f"kernel @tanh_0({X}, {Y}, n: index) {{ for i in 0..n {{ y[i] = x[i]; }} }}"
    main = f"def @main(%x: {SAME}) {{ tanh(call_tir(@tanh_0, (%x,), out=[{SAME}])) }}"
    exe = legato.compile(legato.parse(f'#[version = "0.0.5"]\n{text}\n{main}'))
    np.testing.assert_allclose(np.asarray(exe(vector(3))), np.tanh(vector(3)), rtol=1e-6)


def test_the_build_is_another_one_and_leaves_no_trace() -> None:
    mod = legato.parse(f'#[version = "0.0.5"]\ndef @main(%x: {SAME}) {{ tanh(%x) + 1f }}')
    before, tested, after = (legato.compile(mod, bounds=b, keep=["bounds"] * b) for b in (False, True, False))
    assert "report" in tested.module_after("bounds")
    images = [bytes(exe._parts.image) for exe in (before, tested, after)]
    assert images[0] == images[2] != images[1]
    assert tested.program.tests
    assert not after.program.tests
    np.testing.assert_array_equal(np.asarray(before(vector(9))), np.asarray(tested(vector(9))))


def test_a_fault_of_ours_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from legato.lower import bounds

    monkeypatch.setattr(bounds, "_constants", lambda program, func: program.written.clear())
    with pytest.raises(InternalError, match=r"kernel k reads x\[4\], whose extents are \[4\]\n  hint: this is a bug"):
        legato.compile(module(PROGRAMS[3][0]), bounds=True)(vector(4))


def test_types_of_results_are_types() -> None:
    program = "kernel @k(x: Buffer[(n,), float32], y: Buffer[(), float32], n: index) { y[] = x[n - 1]; }"
    text = '#[version = "0.0.5"]\n{}\ndef @main(%x: Tensor[(4,), float32]) {{ call_tir(@k, (%x,), out={}) }}'
    x = np.arange(4, dtype=np.float32)
    assert legato.compile(legato.parse(text.format(program, "[float32]")))(x) == 3
    for odd in ("3", '["a"]', "[(float32,)]", "[None]"):
        with pytest.raises(CompileError, match="attribute out is"):
            legato.parse(text.format(program, odd))
