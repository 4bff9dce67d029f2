"""Two naive programs scheduled to the register-tile structure of a fast CPU kernel, primitive by primitive."""

from __future__ import annotations

import time

import numpy as np

from legato.arith.expr import Expr, Var, const, max_
from legato.base import dtype as dt
from legato.tir import schedule as s
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.expr import Load, call
from legato.tir.interp import run
from legato.tir.simplify import simplify
from legato.tir.stmt import Alloc, Block, For, Func, If, Stmt, Store, block
from tests.tir.schedule.programs import nest


def outline(func: Func) -> str:
    """Loops, allocations and stores, one a line, indented."""
    lines: list[str] = []

    def visit(stmt: Stmt, depth: int) -> None:
        match stmt:
            case Block(stmts):
                for child in stmts:
                    visit(child, depth)
                return
            case For(var, extent, _, kind):
                lines.append("  " * depth + f"{kind.value} {var.name} in {extent}")
            case Alloc(buffer, _):
                lines.append(
                    "  " * depth + f"alloc {buffer.name}[{', '.join(map(str, buffer.shape))}] {buffer.scope.value}"
                )
            case Store(buffer, indices, value):
                lines.append("  " * depth + f"{buffer.name}[{', '.join(map(str, indices))}] = {value}")
            case If(cond):
                lines.append("  " * depth + f"if {cond}")
        for child in stmt.children():
            visit(child, depth + 1)

    visit(func.body, 0)
    return "\n".join(lines)


def axes(**extents: int) -> tuple[list[Var], list[tuple[Var, Expr]]]:
    """Loop variables by name, and the loops."""
    made = [(Var(name, dt.index, 0, n - 1), const(n)) for name, n in extents.items()]
    return [v for v, _ in made], made


def f32(name: str, *shape: int, order: tuple[int, ...] | None = None, halo: int = 0) -> Buffer:
    layout = Layout(order or tuple(range(len(shape))), ((0, 0), (0, 0), (halo, halo), (halo, halo)) if halo else ())
    return Buffer(name, tuple(const(n) for n in shape), dt.float32, layout)


def conv_bias_relu(oc: int, ic: int, h: int, w: int) -> tuple[Func, Buffer, Buffer, dict[str, Var]]:
    """3x3, stride 1, padding 1 through a halo: NCHW in logical indices, NHWC in memory."""
    x = f32("x", 1, ic, h, w, order=(0, 2, 3, 1), halo=1)
    weight, bias = f32("w", oc, ic, 3, 3), f32("b", oc)
    t, y = f32("t", 1, oc, h, w), f32("y", 1, oc, h, w, order=(0, 2, 3, 1))
    (n, c, i, j), space = axes(n=1, c=oc, i=h, j=w)
    (kh, kw, r), red = axes(kh=3, kw=3, r=ic)
    (n2, c2, i2, j2), space2 = axes(n2=1, c2=oc, i2=h, j2=w)
    here = (n, c, i, j)
    product = call("fma", Load(x, (n, r, i + kh - 1, j + kw - 1)), Load(weight, (c, r, kh, kw)), Load(t, here))
    conv = nest(space, block(Store(t, here, const(0, dt.float32)), nest(red, Store(t, here, product))))
    there = (n2, c2, i2, j2)
    relu = max_(Load(t, there) + Load(bias, (c2,)), const(0, dt.float32))
    body = Alloc(t, block(conv, nest(space2, Store(y, there, relu))))
    names = {v.name: v for v in (n, c, i, j, kh, kw, r, n2, c2, i2, j2)}
    return Func("conv", (x, weight, bias, y), body), t, weight, names


def schedule_conv(func: Func, t: Buffer, weight: Buffer, v: dict[str, Var]) -> tuple[Func, s.IndexMap]:
    """A register tile of at most 6 pixels by 4 vectors of 16 channels; rows in parallel."""
    # The epilogue's loops: channel blocks, rows, tiles of pixels; inside a tile pixels, vectors, lanes.
    func, block_var, within = s.split(func, v["c2"], 64)
    func, vector, lane = s.split(func, within, 16)
    func = s.reorder(func, [v["n2"], block_var, v["i2"], v["j2"], vector, lane])
    func = s.vectorize(func, lane)
    func = s.unroll(func, vector)
    func, parts = s.split_balanced(func, v["j2"], 6)
    # The convolution of each tile, in registers.
    func, tiles = s.compute_at_each(func, t, [p.outer for p in parts], Scope.REGISTER)
    for part, of in zip(parts, tiles, strict=True):
        func = s.unroll(func, part.inner)
        n, c, i, j = (of[v[name]] for name in "ncij")
        kh, kw, r = (of[v[name]] for name in ("kh", "kw", "r"))
        func, init = s.fission(func, [n, j])
        for names in (init, None):
            channel, pixel = (init[c], init[j]) if names else (c, j)
            func, vector, lane = s.split(func, channel, 16)
            order = [n if names is None else init[n], i if names is None else init[i], pixel, vector, lane]
            func = s.reorder(func, order if names else [kh, kw, r, *order])
            func = s.vectorize(s.unroll(s.unroll(func, vector), pixel), lane)
        func, _, step = s.split(func, r, 4)
        func = s.unroll(func, step)
    # Weights in the order in which they are read: blocks of 64 channels, then the reduction, then channels.
    oc, ic = (int(d.value) for d in weight.shape[:2])  # type: ignore[attr-defined]
    packing = s.index_map((oc // 64, 3, 3, ic, 64), 4, lambda o, r, kh, kw: (o // 64, kh, kw, r, o % 64))
    func, _ = s.pack(func, weight, packing)
    func, rows = s.fuse(func, block_var, v["i2"])
    return simplify(s.parallel(func, rows)), packing


def test_convolution_becomes_a_register_tile() -> None:
    func, t, weight, v = conv_bias_relu(64, 8, 3, 11)
    scheduled, packing = schedule_conv(func, t, weight, v)
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 8, 3, 11), (64, 8, 3, 3), (64,)))
    want, got = np.zeros((2, 1, 64, 3, 11), np.float32)
    run(func, [x, w, b, want])
    run(scheduled, [x, s.apply_index_map(w, packing), b, got])
    np.testing.assert_array_equal(got, want)  # the same operations in the same order
    print(outline(scheduled))


def test_schedule_is_quick() -> None:
    """Twenty or so primitives are a small part of compiling a kernel (tens of milliseconds)."""
    func, t, weight, v = conv_bias_relu(128, 64, 14, 14)
    schedule_conv(func, t, weight, v)  # fills the simplifier's memory
    start = time.perf_counter()
    schedule_conv(*conv_bias_relu(128, 64, 14, 14))
    print(time.perf_counter() - start)
