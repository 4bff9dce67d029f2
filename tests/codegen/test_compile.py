"""From LLVM text to an image: micro kernels in registers, errors, linking."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from legato.arith.expr import const, floormod
from legato.base import dtype as dt
from legato.base.errors import InternalError
from legato.base.target import TARGETS, Target, target
from legato.codegen.compile import assembly, compile_object
from legato.codegen.elf import read_object
from legato.codegen.emit import LONG, emit_hosts, emit_module
from legato.codegen.level import level_of
from legato.codegen.link import PAGE, link
from legato.codegen.spills import innermost_loops
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.expr import call, cast
from legato.tir.intrinsics import INTRINSICS
from legato.tir.launch import LaunchKind
from legato.tir.stmt import Alloc, Func, FuncKind, Invoke, Launch, block
from tests.codegen.programs import at, buffer, index, loop, put
from tests.codegen.running import check
from tests.codegen.test_kernels import gemm
from tests.machines import LEVELS

V4, V3 = TARGETS["x86-64-v4"], TARGETS["x86-64-v3"]


def wide_gemm(mr: int, nv: int, lanes: int, unroll: int) -> Func:
    """A GEMM whose register tile is mr × nv vectors of `lanes`."""
    nr = nv * lanes
    a, b, c = buffer("A", (mr * 4, 64)), buffer("B", (2, 64, nr)), buffer("C", (mr * 4, 2 * nr))
    acc = buffer("acc", (mr, nr), scope=Scope.REGISTER)
    nb, mb, ko, ku = (index() for _ in range(4))

    def tile(body):  # type: ignore[no-untyped-def]
        i, j, v = index(), index(), index()
        return loop(i, mr, loop(j, nv, loop(v, lanes, body(i, j * lanes + v), "vector"), "unroll"), "unroll")

    r = ko * unroll + ku
    start = tile(lambda i, j: put(acc, (i, j), const(0.0, dt.float32)))
    step = tile(lambda i, j: put(acc, (i, j), call("fma", at(a, mb * mr + i, r), at(b, nb, r, j), at(acc, i, j))))
    store = tile(lambda i, j: put(c, (mb * mr + i, nb * nr + j), at(acc, i, j)))
    reduction = loop(ko, 64 // unroll, loop(ku, unroll, step, "unroll"))
    return Func("gemm", (a, b, c), loop(nb, 2, loop(mb, 4, Alloc(acc, block(start, reduction, store))), "parallel"))


def convolution(ow: int, ic: int, mr: int, nv: int, unroll: int) -> Func:
    """3×3, stride 1, NHWC with a halo: mr pixels of a row by nv · 16 channels; weights [oc/nr][kh][kw·ic][nr]."""
    nr = nv * 16
    halo = Layout((0, 1, 2), ((1, 1), (1, 1), (0, 0)))
    x, out = buffer("x", (ow, ow, ic), layout=halo), buffer("out", (ow, ow, 2 * nr))
    w = buffer("w", (2, 3, 3 * ic, nr))
    acc = buffer("acc", (mr, nr), scope=Scope.REGISTER)
    ob, oh, ot, kh, ko, ku = (index() for _ in range(6))

    def tile(body):  # type: ignore[no-untyped-def]
        i, j, v = index(), index(), index()
        return loop(i, mr, loop(j, nv, loop(v, 16, body(i, j * 16 + v), "vector"), "unroll"), "unroll")

    r = ko * unroll + ku
    start = tile(lambda i, j: put(acc, (i, j), const(0.0, dt.float32)))
    # kw and ic are one contiguous run: element r of it lies r / ic pixels to the right.
    step = tile(
        lambda i, j: put(
            acc, (i, j), call("fma", at(x, oh + kh - 1, ot * mr + i - 1, r), at(w, ob, kh, r, j), at(acc, i, j))
        )
    )
    store = tile(lambda i, j: put(out, (oh, ot * mr + i, ob * nr + j), at(acc, i, j)))
    reduction = loop(kh, 3, loop(ko, 3 * ic // unroll, loop(ku, unroll, step, "unroll")))
    tiles = loop(ot, ow // mr, Alloc(acc, block(start, reduction, store)))
    return Func("conv", (x, w, out), loop(ob, 2, loop(oh, ow, tiles, "parallel")))


@pytest.mark.parametrize(
    ("func", "machine", "fmas", "stack"),
    [
        (wide_gemm(6, 4, 16, 4), V4, 96, 0),
        (wide_gemm(14, 2, 16, 4), V4, 112, 4),
        (wide_gemm(9, 3, 16, 4), V4, 108, 4),
        (wide_gemm(6, 2, 8, 4), V3, 48, 0),
        (wide_gemm(4, 3, 8, 4), V3, 48, 0),
        (convolution(12, 64, 6, 4, 4), V4, 96, 0),
    ],
    ids=["gemm 6x4", "gemm 14x2", "gemm 9x3", "gemm 6x2 ymm", "gemm 4x3 ymm", "conv 6x4"],
)
def test_register_tiles_are_not_spilled(func: Func, machine: Target, fmas: int, stack: int) -> None:
    loops = innermost_loops(assembly(emit_module([func], machine, {}), machine))
    inner = max(loops, key=lambda x: x.count("vfmadd"))
    assert inner.count("vfmadd") == fmas
    assert inner.stack_references <= stack
    # One broadcast or load per operand, the products, and next to nothing beside them.
    moves = inner.count("vbroadcastss") + inner.count("vmov")
    assert len(inner.instructions) - fmas - moves <= 6 + stack
    if func.name == "conv":
        return  # it reads a run of pixels as one, beyond the channels of the first: the interpreter has none of that
    arrays = [np.zeros([int(str(d)) for d in p.shape], np.float32) for p in func.params if isinstance(p, Buffer)]
    for array in arrays[:-1]:
        array[...] = np.random.default_rng(0).integers(-4, 5, array.shape)
    check(func, arrays, targets=[t for t in LEVELS if t is machine])


def test_innermost_loops_and_their_stack_references() -> None:
    inside = [".L2:", "\taddq\t$1, %rax", "\tvaddps\t(%rsp), %xmm0, %xmm0", "\tjne\t.L2"]
    text = "\n".join(["f:", ".L1:", "\tmovq\t8(%rsp), %rax", *inside, "\tjne\t.L1"])
    (inner,) = innermost_loops(text)
    assert (inner.label, len(inner.instructions), inner.stack_references, inner.count("v")) == (".L2", 3, 1, 1)


def test_llvm_rejects_bad_text_as_an_internal_error() -> None:
    with pytest.raises(InternalError, match="LLVM rejects the generated code"):
        compile_object("define i32 @f( {", V3)


@pytest.mark.parametrize("machine", [*TARGETS.values(), target("x86-64-v4+avx512bf16")], ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16, dt.float32, dt.float64], ids=str)
@pytest.mark.shared(3)
def test_no_code_calls_a_library(machine: Target, dtype: dt.DType) -> None:
    """Every intrinsic, conversion and odd width links without undefined symbols."""
    for lanes in (1, 7, 16):
        n = lanes
        x, y = buffer("x", (n,), dtype), buffer("y", (n,), dt.float64)
        i = index()
        calls = [f for f in INTRINSICS.values() if not (f.predicate or f.bits or f.name == "bitnot")]
        values = [
            cast(call(f.name, *(cast(at(x, i), t) for t in f.operands or [dtype] * f.arity)), dtype) for f in calls
        ]
        values += [floormod(at(x, i), at(x, i))]
        values += [cast(cast(at(y, i), t), dtype) for t in dt.ALL_DTYPES]
        body = loop(i, n, block(*(put(x, (i,), v) for v in values)), "vector")
        data = compile_object(emit_module([Func("f", (x, y), body)], machine, {}), machine)
        assert link([data], ["f"]).exports == {"f": 0}


def one_kernel(name: str, factor: float) -> Func:
    x, i = buffer("x", (16,)), index()
    return Func(name, (x,), loop(i, 16, put(x, (i,), at(x, i) * const(factor, dt.float32)), "vector"))


def objects(*modules: list[Func]) -> list[bytes]:
    known = {f.name: False for m in modules for f in m if f.kind is FuncKind.KERNEL}
    return [compile_object(emit_module(m, V3, {}, known), V3) for m in modules]


def test_an_image_of_several_objects() -> None:
    x = buffer("x", (16,))
    main = Func("main", (x,), block(Launch((x,), "a"), Launch((x,), "b"), Invoke((x,), "other")), FuncKind.HOST)
    other = Func("other", (x,), block(), FuncKind.HOST)
    parts = objects([one_kernel("a", 1.5)], [one_kernel("b", 2.5)], [main], [other])
    image = link(parts, ["main", "a"])
    assert image.code_size % PAGE == 0
    assert image.relocations == ()
    assert 0 <= image.exports["a"] < image.exports["main"] < image.code_size
    assert image == link(parts, ["main", "a"])
    assert np.float32(2.5).tobytes() in image.data


def test_undefined_and_duplicate_symbols_are_named() -> None:
    x = buffer("x", (16,))
    main = Func("main", (x,), block(Launch((x,), "a"), Invoke((x,), "zzz")), FuncKind.HOST)
    text = emit_module([main], V3, {}, {"a": True})
    with pytest.raises(InternalError, match=r"^undefined symbols: a, missing, zzz$"):
        link([compile_object(text, V3)], ["missing"])
    with pytest.raises(InternalError, match="symbol 'a' is defined in two objects"):
        link(objects([one_kernel("a", 1.5)], [one_kernel("a", 2.5)]), ["a"])


def test_absolute_addresses_become_relocations() -> None:
    text = """
target triple = "x86_64-unknown-linux-gnu"
@table = hidden constant [2 x ptr] [ptr @f, ptr @g]
@far = external global i32
define hidden i32 @f() { ret i32 1 }
define hidden i32 @g() { ret i32 2 }
define i32 @h(i64 %i) {
  %p = getelementptr ptr, ptr @table, i64 %i
  %q = load ptr, ptr %p
  %r = call i32 %q()
  %v = load i32, ptr @far
  %s = add i32 %r, %v
  ret i32 %s
}
"""
    extra = 'target triple = "x86_64-unknown-linux-gnu"\n@far = global i32 40\n'
    image = link([compile_object(text, V3), compile_object(extra, V3)], ["f", "g", "h", "table"])
    assert len(image.relocations) == 3  # two table entries and the slot of @far
    assert all(r >= image.code_size for r in image.relocations)
    start = image.exports["table"]
    assert struct.unpack_from("<2q", image.data, start) == (image.exports["f"], image.exports["g"])


def test_objects_are_read_with_care() -> None:
    with pytest.raises(InternalError, match="not a little-endian ELF64 object"):
        read_object(b"MZ" * 40)
    data = bytearray(compile_object(emit_module([one_kernel("a", 1.5)], V3, {}), V3))
    data[18:20] = struct.pack("<H", 183)
    with pytest.raises(InternalError, match="ELF type 1 for machine 183"):
        read_object(bytes(data))


def test_text_is_the_same_every_time() -> None:
    machine = target("x86-64-v4")
    texts = {emit_module([gemm(12, 96, 8, 6, 4, 4)], machine, {}) for _ in range(3)}
    assert len(texts) == 1


def test_modules_say_how_hard_they_are_to_be_compiled() -> None:
    x = buffer("x", (16,))
    main = Func("main", (x,), Launch((x,), "a"), FuncKind.HOST)
    assert emit_module([main], V3, {}, {"a": True}).startswith("; codegen level 0\n")
    assert emit_module([one_kernel("a", 1.5), main], V3, {}).startswith("; codegen level 2\n")
    assert level_of("define i32 @f() { ret i32 0 }") == 2


def test_host_functions_that_run_once_are_compiled_quickly_beside_others_that_call_themselves() -> None:
    x = buffer("x", (16,))
    once = Func("main", (x,), Invoke((x,), "again"), FuncKind.HOST)
    again = Func("again", (x,), block(Launch((x,), "a"), Invoke((x,), "again")), FuncKind.HOST)
    quick, other = emit_hosts([once, again], V3, {}, {"a": LaunchKind.SHARES})
    assert quick.startswith("; codegen level 0\n")
    assert '@"f.main"(ptr %call, ptr %args) #0' in quick
    assert other.startswith("; codegen level 2\n")
    assert '@"f.again"(ptr %call, ptr %args) #0' in other
    long = replace(again, body=block(again.body, *[Launch((x,), "a")] * LONG))
    (both,) = emit_hosts([once, long], V3, {}, {"a": LaunchKind.SHARES})
    assert both.startswith("; codegen level 0\n")


def test_passes_may_be_run_first() -> None:
    text = emit_module([one_kernel("a", 1.5)], V3, {})
    assert link([compile_object(text, V3, level=1, passes=True)], ["a"]).exports == {"a": 0}
    assert "vmulps" in assembly(text, V3, passes=True)
