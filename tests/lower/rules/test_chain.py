"""Chains (contraction, reductions along rows, contraction), scheduled and compiled: attention is what it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.base.precision import Precision
from legato.base.target import Target
from legato.compare.exact import interpret
from legato.driver import CompileOptions, compile_module
from legato.infer.infer import infer
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ops import table
from legato.tir.verify import verify_all
from tests.lower.programs import lowered
from tests.machines import LEVELS
from tests.programs.settings import examples

Array = np.ndarray[Any, Any]
BEST = LEVELS[-1]

SOFTMAX = """let %w = nn.softmax(%s, axis=3);"""
SPELLED = """let %top = max(%s, axis=[3], keepdims=True);
  let %e = exp(subtract(%s, %top));
  let %w = divide(%e, sum(%e, axis=[3], keepdims=True));"""
GUARDED = """let %soft = nn.softmax(%s, axis=3);
  let %w = where(isnan(%soft), 0f, %soft);"""
SHIFTED = """let %w = divide(%s, add(sum(abs(%s), axis=[3], keepdims=True), 1f));"""
COLUMNS = """let %w = nn.softmax(%s, axis=2);"""
ROWS = (SOFTMAX, SPELLED, GUARDED, SHIFTED)


@dataclass(frozen=True)
class Sizes:
    """Of an attention block: batch, heads, queries, keys, width of a head, width of a value."""

    b: int
    h: int
    q: int
    k: int
    d: int
    e: int


def attention(
    n: Sizes,
    rows: str = SOFTMAX,
    *,
    mask: str = "",
    scale: bool = True,
    symbolic: str = "",
    most: int = 0,
    transposed: bool = False,
) -> Module:
    """Attention of heads that are split from their rows and joined behind; dims in `symbolic` are not known, but for
    being at most `most` if that is given. The keys come row by row, or already `transposed`; `mask` has the dims of its
    shape."""
    binders = ", ".join(f"{name}: ShapeVar(1, {most})" for name in symbolic)
    at = {name: name if name in symbolic else str(getattr(n, name)) for name in "bqk"}
    b, q, k = at["b"], at["q"], at["k"]
    kept = f"({b}, {n.h}, {n.d}, {k})" if transposed else f"({b}, {k}, {n.h}, {n.d})"
    key = "%y" if transposed else "transpose(%y, axes=[0, 2, 3, 1])"
    shape = ", ".join({"b": b, "h": str(n.h), "q": q, "k": k}.get(c, c) for c in mask or "1")
    text = f"""#[version = "0.0.5"]
def @main{f"[{binders}]" if most else ""}(%x: Tensor[({b}, {q}, {n.h}, {n.d}), float32], %y: Tensor[{kept}, float32],
          %z: Tensor[({b}, {k}, {n.h}, {n.e}), float32], %m: Tensor[({shape},), float32]) {{
  let %a = transpose(%x, axes=[0, 2, 1, 3]);
  let %query = {"multiply(%a, 0.5f)" if scale else "%a"};
  let %t = matmul(%query, {key});
  let %s = {"add(%t, %m)" if mask else "%t"};
  {rows}
  let %v = transpose(%z, axes=[0, 2, 1, 3]);
  let %o = matmul(%w, %v);
  let %r = transpose(%o, axes=[0, 2, 1, 3]);
  {"%r" if symbolic else f"reshape(%r, newshape=[{b}, {q}, {n.h * n.e}])"}
}}"""
    return infer(parse(text, ops=table()))


def data(n: Sizes, mask: str = "", transposed: bool = False, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    keys = (n.b, n.h, n.d, n.k) if transposed else (n.b, n.k, n.h, n.d)
    shape = [1 if c == "1" else getattr(n, c) for c in mask or "1"]
    shapes = ((n.b, n.q, n.h, n.d), keys, (n.b, n.k, n.h, n.e), shape)
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def results(mod: Module, inputs: list[Array], target: Target = BEST) -> Array:
    """What the compiled module gives; the same bits for any number of threads."""
    exe: Any = compile_module(mod, CompileOptions(target)).executable
    found = [exe.with_threads(threads)(*inputs) for threads in (1, 2, 4)]
    assert all(r.tobytes() == found[0].tobytes() for r in found)
    return np.asarray(found[0])


def check(mod: Module, inputs: list[Array], target: Target = BEST) -> None:
    exact = interpret(mod, inputs, float64=True)[0]
    assert np.allclose(results(mod, inputs, target), exact, rtol=0, atol=2e-5 * max(1, np.nanmax(np.abs(exact))),
                       equal_nan=True)  # fmt: skip


sizes = st.builds(Sizes, st.integers(1, 2), st.integers(1, 3), st.integers(1, 30), st.integers(1, 70),
                  st.integers(1, 20), st.integers(1, 40))  # fmt: skip


@examples(8, fuzz=False, heavy=25)
@given(sizes, st.sampled_from((*ROWS, COLUMNS)), st.sampled_from(("", "b11k", "11qk", "bhqk", "k")), st.booleans(),
       st.sampled_from(("", "", "b", "q", "bq", "k")), st.booleans(), st.sampled_from(LEVELS))  # fmt: skip
def test_compiled_is_interpreted(
    n: Sizes, rows: str, mask: str, scale: bool, symbolic: str, transposed: bool, target: Target
) -> None:
    mod = attention(n, rows, mask=mask, scale=scale, symbolic=symbolic, transposed=transposed)
    check(mod, data(n, mask, transposed), target)


@pytest.mark.parametrize(
    "n", [Sizes(1, 12, 128, 128, 64, 64), Sizes(1, 1, 197, 197, 64, 64), Sizes(1, 2, 20, 700, 9, 33)]
)
def test_long_rows(n: Sizes) -> None:
    check(attention(n, mask="b11k"), data(n, "b11k"))


@pytest.mark.parametrize("rows", ROWS, ids=["softmax", "spelled", "guarded", "other"])
@pytest.mark.parametrize("symbolic", ["", "b", "bq"])
def test_two_kernels(rows: str, symbolic: str) -> None:
    """Keys are laid out for vectors; all else is one kernel, heads are split and joined in place."""
    loops = lowered(attention(Sizes(2, 3, 20, 40, 16, 32), rows, mask="b11k", symbolic=symbolic), BEST)
    assert len(loops.kernels) == 2
    verify_all({**loops.kernels, **loops.functions}, final=True)


@examples(4, fuzz=False, heavy=10)
@given(sizes, st.sampled_from(ROWS), st.sampled_from(("k", "qk", "bqk")), st.sampled_from(LEVELS))
def test_bounded_rows(n: Sizes, rows: str, symbolic: str, target: Target) -> None:
    """A dim that is bounded is long enough a buffer for its rows."""
    mod = attention(n, rows, mask="b11k", symbolic=symbolic, most=70)
    if n.q > 1 and n.e > 1:  # else there is nothing that a tile would reuse
        assert len(lowered(mod, target).kernels) <= 2
    check(mod, data(n, "b11k"), target)


def test_keys_in_place() -> None:
    """Keys that lie along vectors are read where they are."""
    n = Sizes(2, 3, 20, 40, 16, 32)
    assert len(lowered(attention(n, scale=False, transposed=True), BEST).kernels) == 1


@pytest.mark.parametrize(("rows", "symbolic"), [(SOFTMAX, "k"), (COLUMNS, "")], ids=["unbounded", "columns"])
def test_what_is_no_chain(rows: str, symbolic: str) -> None:
    """Rows of unknown length, and reductions along something else, are kernels of their own."""
    n = Sizes(2, 3, 20, 40, 16, 32)
    mod = attention(n, rows, symbolic=symbolic)
    assert len(lowered(mod, BEST).kernels) > 3
    check(mod, data(n))


@pytest.mark.parametrize("rows", [SOFTMAX, SPELLED, GUARDED], ids=["softmax", "spelled", "guarded"])
def test_rows_without_scores(rows: str) -> None:
    """Rows of −∞ alone, and rows with NaN or +∞, are as the interpreter defines them."""
    n = Sizes(1, 2, 14, 20, 8, 16)
    inputs = data(n, "11qk")
    mask = inputs[3]
    mask[0, 0, 0] = -np.inf
    mask[0, 0, 1, 5:] = -np.inf
    mask[0, 0, 2, 3] = np.nan
    mask[0, 0, 3, 3] = np.inf
    mask[0, 0, 4] = np.finfo(np.float32).min
    mod = attention(n, rows, mask="11qk")
    with np.errstate(all="ignore"):
        want = interpret(mod, inputs, float64=True)[0]
    got = results(mod, inputs)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.allclose(got, want, rtol=0, atol=1e-5, equal_nan=True)


FORMS = {
    "shared keys": ("2, 4, 10, 16", "2, 1, 20, 16", "2, 1, 20, 8", """
  let %w = nn.softmax(matmul(%x, transpose(%y, axes=[0, 1, 3, 2])));
  matmul(%w, %z)"""),
    "repeated keys": ("2, 4, 10, 16", "2, 2, 20, 16", "2, 2, 20, 8", """
  let %k = repeat(%y, repeats=2, axis=1);
  let %w = nn.softmax(matmul(%x, transpose(%k, axes=[0, 1, 3, 2])));
  matmul(%w, repeat(%z, repeats=2, axis=1))"""),
    "normalised twice": ("3, 18, 16", "3, 33, 16", "3, 33, 24", """
  let %w = nn.relu(nn.softmax(nn.batch_matmul(%x, %y, transpose_b=True)));
  let %n = divide(%w, add(sum(%w, axis=[2], keepdims=True), 1f));
  nn.batch_matmul(%n, %z)"""),
    "logarithms": ("3, 18, 16", "3, 33, 16", "3, 33, 24", """
  nn.batch_matmul(nn.log_softmax(nn.batch_matmul(%x, %y, transpose_b=True)), %z)"""),
    "no maximum": ("3, 18, 16", "3, 33, 16", "3, 33, 24", """
  let %e = exp(multiply(nn.batch_matmul(%x, %y, transpose_b=True), 0.1f));
  let %w = divide(%e, sum(%e, axis=[2], keepdims=True));
  nn.batch_matmul(%w, %z)"""),
    "maximum only": ("3, 18, 16", "3, 33, 16", "3, 33, 24", """
  let %s = nn.batch_matmul(%x, %y, transpose_b=True);
  let %w = subtract(%s, max(%s, axis=[2], keepdims=True));
  tanh(nn.batch_matmul(%w, %z))"""),
    "mean and variance": ("3, 18, 16", "3, 33, 16", "3, 33, 24", """
  let %a = ones(shape=[33], dtype="float32");
  let %b = zeros(shape=[33], dtype="float32");
  let %w = nn.layer_norm(nn.batch_matmul(%x, %y, transpose_b=True), %a, %b);
  nn.batch_matmul(%w, %z)"""),
    "one after the other": ("3, 18, 16", "3, 33, 16", "3, 33, 16", """
  let %o = nn.batch_matmul(nn.softmax(nn.batch_matmul(%x, %y, transpose_b=True)), %z);
  nn.batch_matmul(nn.softmax(nn.batch_matmul(%o, %y, transpose_b=True)), %z)"""),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_other_forms(form: tuple[str, str, str, str]) -> None:
    """What runs along the rows is not told by operators' names."""
    *shapes, body = form
    params = ", ".join(f"%{name}: Tensor[({shape}), float32]" for name, shape in zip("xyz", shapes, strict=True))
    mod = infer(parse(f'#[version = "0.0.5"]\ndef @main({params}) {{{body}\n}}', ops=table()))
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal([int(n) for n in s.split(", ")]).astype(np.float32) for s in shapes]
    assert len(lowered(mod, BEST).kernels) == 2
    check(mod, inputs)


def test_bfloat16() -> None:
    """Factors are rounded, here too."""
    n = Sizes(1, 2, 20, 40, 16, 32)
    mod, inputs = attention(n, GUARDED), data(n)
    options = CompileOptions(BEST, precision=Precision.BFLOAT16)
    exe: Any = compile_module(mod, options).executable
    got, exact = np.asarray(exe(*inputs)), interpret(mod, inputs, float64=True)[0]
    assert 1e-4 < np.abs(got - exact).max() < 3e-2


def test_scores_that_are_used_elsewhere() -> None:
    """Weights that leave the block are stored, so the contractions stay apart."""
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 9, 8), float32], %y: Tensor[(2, 20, 8), float32], %z: Tensor[(2, 20, 16), float32]) {
  let %s = nn.batch_matmul(%x, %y, transpose_b=True);
  let %w = nn.softmax(%s, axis=2);
  let %o = nn.batch_matmul(%w, %z);
  (%w, %o)
}"""
    mod = infer(parse(text, ops=table()))
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in ((2, 9, 8), (2, 20, 8), (2, 20, 16))]
    exe: Any = compile_module(mod, CompileOptions(BEST)).executable
    for got, want in zip(exe(*inputs), interpret(mod, inputs, float64=True), strict=True):
        assert np.allclose(got, want, rtol=0, atol=1e-5)
