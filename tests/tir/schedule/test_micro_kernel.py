"""Two naive programs scheduled to the register-tile structure of a fast CPU kernel, primitive by primitive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from legato.arith.expr import Const
from legato.tir import schedule as s
from legato.tir.buffer import Buffer, Scope
from legato.tir.interp import run
from legato.tir.parser import parse_func
from legato.tir.printer import show
from legato.tir.simplify import simplify
from legato.tir.stmt import Func
from legato.tir.verify import verify
from legato.tir.walk import bound_buffers, loops
from tests.steps import steps

HERE = Path(__file__).parent

# 3x3, stride 1; padding 1 is the halo of x. Images are NCHW in subscripts and NHWC in memory.
CONV = """
kernel @conv(
    x: Buffer[(1, {ic}, {h}, {w}), float32, order=(0, 2, 3, 1), halo=((0, 0), (0, 0), (1, 1), (1, 1))],
    weight: Buffer[({oc}, {ic}, 3, 3), float32],
    bias: Buffer[({oc},), float32],
    y: Buffer[(1, {oc}, {h}, {w}), float32, order=(0, 2, 3, 1)]
) {{
  alloc t: Buffer[(1, {oc}, {h}, {w}), float32, order=(0, 2, 3, 1)];
  for n in 0..1 {{ for c in 0..{oc} {{ for i in 0..{h} {{ for j in 0..{w} {{
    t[n, c, i, j] = 0f;
    for kh in 0..3 {{ for kw in 0..3 {{ for r in 0..{ic} {{
      t[n, c, i, j] = fma(x[n, r, i + kh - 1, j + kw - 1], weight[c, r, kh, kw], t[n, c, i, j]);
    }} }} }}
  }} }} }} }}
  for n2 in 0..1 {{ for c2 in 0..{oc} {{ for i2 in 0..{h} {{ for j2 in 0..{w} {{
    y[n2, c2, i2, j2] = max(t[n2, c2, i2, j2] + bias[c2], 0f);
  }} }} }} }}
}}
"""

MATMUL = """
kernel @matmul(
    x: Buffer[(m, 24), float32], weight: Buffer[(24, 32), float32], bias: Buffer[(32,), float32],
    y: Buffer[(m, 32), float32], m: index
) {
  alloc t: Buffer[(m, 32), float32];
  for i in 0..m { for j in 0..32 {
    t[i, j] = 0f;
    for k in 0..24 { t[i, j] = fma(x[i, k], weight[k, j], t[i, j]); }
  } }
  for i2 in 0..m { for j2 in 0..32 { y[i2, j2] = max(t[i2, j2] + bias[j2], 0f); } }
}
"""


def parts(text: str) -> tuple[Func, dict[str, Any]]:
    """The function, and its loop variables and buffers by name."""
    func = parse_func(text)
    names: dict[str, Any] = {f.var.name: f.var for f in loops(func)}
    return func, names | {b.name: b for b in [*func.params, *bound_buffers(func)] if isinstance(b, Buffer)}


def schedule_conv(func: Func, v: dict[str, Any]) -> tuple[Func, s.IndexMap]:
    """A register tile of at most 6 pixels by 4 vectors of 16 channels; rows in parallel; packed weights."""
    # The epilogue: blocks of 64 channels, rows, tiles of pixels; in a tile pixels, vectors, lanes.
    func, block, within = s.split(func, v["c2"], 64)
    func, vector, lane = s.split(func, within, 16)
    func = s.reorder(func, [block, v["i2"], v["j2"], vector, lane])
    func = s.unroll(s.vectorize(func, lane), vector)
    func, tiles = s.split_balanced(func, v["j2"], 6)
    # The convolution of each tile, in registers.
    func, copies = s.compute_at_each(func, v["t"], [tile.outer for tile in tiles], Scope.REGISTER)
    for tile, of in zip(tiles, copies, strict=True):
        func = s.unroll(func, tile.inner)
        kh, kw, r, c, j = (of[v[name]] for name in ("kh", "kw", "r", "c", "j"))
        func, init = s.fission(func, [of[v["n"]], j])
        for channel, pixel, reduction in ((init[c], init[j], []), (c, j, [kh, kw, r])):
            func, vector, lane = s.split(func, channel, 16)
            func = s.reorder(func, [*reduction, pixel, vector, lane])
            func = s.unroll(s.unroll(s.vectorize(func, lane), vector), pixel)
        func, _, step = s.split(func, r, 4)
        func = s.unroll(func, step)
    # Weights in the order in which they are read: blocks of 64 channels, then the reduction, then channels.
    oc, ic = (d.value for d in v["weight"].shape[:2] if isinstance(d, Const))
    packing = s.index_map((int(oc) // 64, 3, 3, int(ic), 64), 4, lambda o, r, kh, kw: (o // 64, kh, kw, r, o % 64))
    func, _ = s.pack(func, v["weight"], packing)
    func, rows = s.fuse(func, block, v["i2"])
    return simplify(s.parallel(func, rows)), packing


def test_convolution_becomes_a_register_tile() -> None:
    func, v = parts(CONV.format(oc=128, ic=4, h=2, w=11))
    scheduled, packing = schedule_conv(func, v)
    verify(scheduled, final=True)
    assert show(scheduled).strip() == (HERE / "conv_tile.tir").read_text().strip()
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.standard_normal(n).astype(np.float32) for n in ((1, 4, 2, 11), (128, 4, 3, 3), (128,)))
    want, got = np.zeros((2, 1, 128, 2, 11), np.float32)
    run(func, [x, weight, bias, want])
    run(scheduled, [x, s.apply_index_map(weight, packing), bias, got])
    np.testing.assert_array_equal(got, want)  # the same operations in the same order


def schedule_matmul(func: Func, v: dict[str, Any]) -> Func:
    """Tiles of 4 rows by 2 vectors for any number of rows: the last tile overlaps the one before."""
    func, vector, lane = s.split(func, v["j2"], 16)
    func = s.unroll(s.vectorize(func, lane), vector)
    func = s.parallel(func, v["i2"])
    func, tile, row, short = s.overlap_tail(func, v["i2"], 4)
    assert short is not None
    func = s.unroll(func, row)
    func, copies = s.compute_at_each(func, v["t"], [tile, short[v["i2"]]], Scope.REGISTER)
    for of in copies:
        i, j, k = of[v["i"]], of[v["j"]], of[v["k"]]
        func, init = s.fission(func, [i, j])
        for row, column, reduction in ((init[i], init[j], []), (i, j, [k])):
            func, vector, lane = s.split(func, column, 16)
            func = s.reorder(func, [*reduction, row, vector, lane])
            func = s.unroll(s.unroll(s.vectorize(func, lane), vector), row)
    return simplify(func)


def test_matmul_of_any_number_of_rows() -> None:
    func, v = parts(MATMUL)
    scheduled = schedule_matmul(func, v)
    verify(scheduled, final=True)
    assert show(scheduled).strip() == (HERE / "matmul_tile.tir").read_text().strip()
    rng = np.random.default_rng(0)
    weight, bias = rng.standard_normal((24, 32)).astype(np.float32), rng.standard_normal(32).astype(np.float32)
    for m in (0, 1, 3, 4, 5, 10):
        x = rng.standard_normal((m, 24)).astype(np.float32)
        want, got = np.zeros((2, m, 32), np.float32)
        run(func, [x, weight, bias, want, m])
        run(scheduled, [x, weight, bias, got, m])
        np.testing.assert_array_equal(got, want)


def test_schedule_is_quick() -> None:
    """Forty primitives take 92,000 steps, a few hundredths of a second: a small part of compiling a kernel."""
    func, v = parts(CONV.format(oc=128, ic=64, h=14, w=14))
    assert steps(lambda: schedule_conv(func, v)) < 140_000
