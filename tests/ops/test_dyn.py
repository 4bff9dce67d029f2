"""Operators whose shapes are computed: compiled = interpreted = NumPy for random sizes, or both refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import RunError, TypeCheckError
from legato.interp import evaluate
from legato.runtime.executable import Executable

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, Array], Sequence[Any]]
SIZES = (0, 1, 1, 2, 3, 5)


class Refused(Exception):
    """What NumPy's rule refuses."""


def check(holds: Any) -> None:
    if not holds:
        raise Refused


def array(dtype: str = "int64") -> Callable[..., Array]:
    return lambda *values: np.array(values, dtype)


I64 = array()


def some(rng: np.random.Generator, *shape: int, low: int = -2, high: int = 7) -> Array:
    return np.asarray(rng.integers(low, high, shape))


# ------------------------------------------------------------------ the peers


def reshape(x: Array, codes: Array) -> Array:
    shape = [x.shape[n] if c == 0 else c for n, c in enumerate(codes.tolist())]
    check(min(shape) >= -1 and shape.count(-1) < 2)
    if -1 in shape:  # an extent of 0 that is kept, and what is left beside it
        own, others = [d for d in x.shape if d], [d for d in shape if d > 0]
        is_zero = x.shape.count(0) != shape.count(0)
        check(is_zero or np.prod(own) % np.prod(others) == 0)
        shape[shape.index(-1)] = 0 if is_zero else int(np.prod(own) // np.prod(others))
    check(np.prod(shape) == x.size)
    return x.reshape(shape)


def reshape_to(x: Array, codes: Array) -> Array:
    check((codes >= -1).all() and not {0, -1} <= {*codes.tolist()})
    return x.reshape(codes)


def broadcast_to(x: Array, shape: Array) -> Array:
    check((shape >= 0).all())
    return np.broadcast_to(x, shape)


def full(x: Array, shape: Array) -> Array:
    check((shape >= 0).all())
    return np.full(shape, x.sum(), np.float32)


def tile(x: Array, reps: Array) -> Array:
    check((reps >= 0).all())
    return np.tile(x, reps)


def repeat(x: Array, count: Array) -> Array:
    check(count >= 0)
    return np.repeat(x, int(count), 1)


def topk(x: Array, k: Array) -> Array:
    count = x.shape[1] if k < 1 else int(k)
    check(count <= x.shape[1])
    return np.sort(x, axis=1)[:, ::-1][:, :count]


def one_hot(x: Array, depth: Array) -> Array:
    check(depth >= 0)
    return np.asarray(x[..., None] == np.arange(depth), np.float32)


def expand_dims(x: Array, axis: Array) -> Array:
    check(-3 <= axis <= 2)
    return np.expand_dims(x, int(axis))


def squeeze(x: Array, axes: Array) -> Array:
    return np.squeeze(x, tuple(axes.tolist()))


def pad(x: Array, widths: Array) -> Array:
    check(all(n + w.sum() >= 0 for n, w in zip(x.shape, widths, strict=True)))
    low = [slice(max(-a, 0), None) for a, _ in widths]
    padded = np.pad(x, np.maximum(widths, 0), constant_values=9)
    ends = [slice(n.start, padded.shape[d] - max(-widths[d][1], 0)) for d, n in enumerate(low)]
    return padded[tuple(ends)]


def strided_slice(x: Array, begin: Array, end: Array, steps: Array) -> Array:
    check((steps != 0).all())
    return x[tuple(slice(*s) for s in zip(begin.tolist(), end.tolist(), steps.tolist(), strict=True))]


def slice_sizes(x: Array, begin: Array, size: Array) -> Array:
    starts = [min(max(b + n * (b < 0), 0), n) for b, n in zip(begin.tolist(), x.shape, strict=True)]
    ends = [n if s == -1 else max(b + s, b) for b, s, n in zip(starts, size.tolist(), x.shape, strict=True)]
    return x[tuple(map(slice, starts, ends))]


def arange(x: Array, start: Array, stop: Array, step: Array) -> Array:
    check(step != 0)
    return np.arange(start, stop, step)


def resize(x: Array, size: Array) -> Array:
    check((size >= 0).all())
    places = [np.arange(m) * n // max(m, 1) for n, m in zip(x.shape, size, strict=True)]
    return x[np.ix_(*places)] if x.size else np.zeros(size, x.dtype)


def upsampling(x: Array, *scales: Array) -> Array:
    check(all(np.isfinite(s) and s >= 2.0**-24 for s in scales))
    sizes = [int(np.floor(n * float(s) + 0.5)) for n, s in zip(x.shape, scales, strict=True)]
    pairs = zip(x.shape, sizes, scales, strict=True)
    places = [np.minimum(np.floor(np.arange(m) / float(s)).astype(int), n - 1) for n, m, s in pairs]
    return x[np.ix_(*places)] if x.size else np.zeros(sizes, x.dtype)


def sparse_to_dense(x: Array, shape: Array) -> Array:
    check((shape >= 0).all())
    out = np.full(shape, -1, np.float32)
    count = min(x.shape[1], int(shape[0]))
    out[:count] = x.sum(0)[:count]
    return out


# ------------------------------------------------------------------ programs: the call, what it takes beside %x, draws

VECTOR2, SCALAR = "Tensor[(2,), int64]", "int64"
CASES: dict[str, tuple[str, tuple[str, ...], Any, Draw]] = {
    "reshape": ("dyn.reshape(%x, %a)", (VECTOR2,), reshape, lambda rng, x: [_new_shape(rng, x)]),
    "reshape with allowzero": ("dyn.reshape(%x, %a, allowzero=True)", (VECTOR2,), reshape_to,
                               lambda rng, x: [_new_shape(rng, x)]),
    "broadcast_to": (
        "dyn.broadcast_to(%x, %a)", ("Tensor[(3,), int64]",), broadcast_to,
        lambda rng, x: [np.where(rng.random(3) < 0.8, [rng.integers(0, 3), *x.shape], some(rng, 3))],
    ),
    "full": ("dyn.full(sum(%x), %a)", (VECTOR2,), full, lambda rng, x: [some(rng, 2)]),
    "zeros": ("dyn.zeros(%a)", (VECTOR2,), lambda x, s: 0 * full(x, s), lambda rng, x: [some(rng, 2)]),
    "ones": ('dyn.ones(%a, dtype="int8")', (VECTOR2,), lambda x, s: 0 * full(x, s) + 1, lambda rng, x: [some(rng, 2)]),
    "tile": ("dyn.tile(%x, %a)", ("Tensor[(3,), int64]",), tile, lambda rng, x: [some(rng, 3, low=-1, high=4)]),
    "repeat": ("dyn.repeat(%x, %a, axis=1)", (SCALAR,), repeat, lambda rng, x: [some(rng)]),
    "topk": ('dyn.topk(%x, %a, ret_type="values")', (SCALAR,), topk, lambda rng, x: [some(rng)]),
    "one_hot": ('dyn.one_hot(cast(%x, dtype="int32"), 1f, 0f, %a)', (SCALAR,), one_hot, lambda rng, x: [some(rng)]),
    "expand_dims": ("dyn.expand_dims(%x, %a)", (SCALAR,), expand_dims, lambda rng, x: [some(rng, low=-4, high=4)]),
    "squeeze 1": ("dyn.squeeze(%x, %a)", ("Tensor[(1,), int64]",), squeeze,
                  lambda rng, x: [some(rng, 1, low=-3, high=3)]),
    "squeeze 2": ("dyn.squeeze(%x, %a)", ("Tensor[(2,), int32]",), squeeze,
                  lambda rng, x: [some(rng, 2, low=-2, high=2).astype("int32")]),
    "pad": ("dyn.nn.pad(%x, %a, 9f)", ("Tensor[(2, 2), int64]",), pad, lambda rng, x: [some(rng, 2, 2)]),
    "strided_slice": (
        "dyn.strided_slice(%x, %a, %b, %c)", (VECTOR2,) * 3, strided_slice,
        lambda rng, x: [some(rng, 2, low=-8, high=8), some(rng, 2, low=-8, high=8), some(rng, 2, low=-3, high=4)],
    ),
    "strided_slice by 1, 2": (
        "dyn.strided_slice(%x, %a, %b, meta[relay.Constant][0])", (VECTOR2,) * 2,
        lambda x, a, b: strided_slice(x, a, b, I64(1, 2)),
        lambda rng, x: [some(rng, 2, low=-8, high=8), some(rng, 2, low=-8, high=8)],
    ),
    "strided_slice of sizes": (
        'dyn.strided_slice(%x, %a, %b, meta[relay.Constant][1], slice_mode="size")', (VECTOR2,) * 2, slice_sizes,
        lambda rng, x: [some(rng, 2, low=-7), some(rng, 2)],
    ),
    "arange": ("dyn.arange(%a, %b, %c)", (SCALAR,) * 3, arange,
               lambda rng, x: [some(rng, low=-9, high=9), some(rng, low=-9, high=9), some(rng, low=-3, high=4)]),
    "resize2d": (
        'squeeze(dyn.image.resize2d(reshape(%x, newshape=[1, 1, n, m]), %a, meta[relay.Constant][2],'
        ' method="nearest_neighbor", coordinate_transformation_mode="asymmetric", rounding_method="floor"),'
        " axis=[0, 1])", (VECTOR2,), resize, lambda rng, x: [some(rng, 2)],
    ),
    "upsampling": (
        "squeeze(dyn.nn.upsampling(reshape(%x, newshape=[1, 1, n, m]), %a, %b), axis=[0, 1])",
        ("float32",) * 2, upsampling,
        lambda rng, x: [np.float32(v) for v in rng.choice([0, -1, 0.5, 0.75, 1, 2, 3.25, np.inf, np.nan], 2,
                                                          p=[0.03, 0.03, 0.2, 0.2, 0.2, 0.2, 0.1, 0.02, 0.02])],
    ),
    "sparse_to_dense": (
        "dyn.sparse_to_dense(arange(stop=m), %a, sum(%x, axis=[0]), -1f)", ("Tensor[(1,), int64]",), sparse_to_dense,
        lambda rng, x: [some(rng, 1)],
    ),
}  # fmt: skip


def _new_shape(rng: np.random.Generator, x: Array) -> Array:
    fits = [x.shape, x.shape[::-1], (x.size, 1), (-1, 1), (0, -1), (-1, 0), (0, 0), (-1, -1), (-2, 3)]
    return some(rng, 2) if rng.random() < 0.3 else np.array(fits[rng.integers(len(fits))], np.int64)


def program(name: str) -> legato.Module:
    call, types, _, _ = CASES[name]
    params = ", ".join(f"%{n}: {ty}" for n, ty in zip("abc", types, strict=False))
    constants = {"relay.Constant": [I64(1, 2), I64(1, 1), np.zeros(4, np.float32)]}
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(n, m), float32], {params}) {{ ({call}, negative(%x)) }}'
    return relay.parse(text, init_meta_table=constants).module


def outcome(run: Callable[..., Any], args: Sequence[Any]) -> Any:
    """The first result, or that the call is refused."""
    try:
        return np.asarray(run(*args)[0])
    except RunError:
        return None


def wanted(peer: Callable[..., Array], args: Sequence[Any]) -> Any:
    try:
        return np.asarray(peer(*args))
    except (Refused, ValueError, IndexError):
        return None


@pytest.mark.parametrize("name", ["argwhere", "dyn.zeros", "unique"])
def test_data_decide_extents_in_calls_only(name: str) -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2,), int64]) {{ let %f = {}; %f(%x) }}'
    with pytest.raises(TypeCheckError, match=f"data decide the extents of what {name} gives: it is no value"):
        legato.parse(text.format(name))
    exe = legato.compile(legato.parse(text.format(f"fn (%y: Tensor[(2,), int64]) {{ {name}(%y) }}")), threads=1)
    got, want = exe(I64(3, 2)), evaluate(legato.parse(text.format(f"fn (%y) {{ {name}(%y) }}")), [I64(3, 2)])
    np.testing.assert_equal(got, want)


@pytest.mark.parametrize("size", [(2**62, 4), (2**62, 0), (2**40, 2**40), (-1, 0)])
def test_sizes_of_which_there_is_no_array_end_the_call(size: tuple[int, int]) -> None:
    module = legato.parse('#[version = "0.0.5"]\ndef @main(%s: Tensor[(2,), int64]) { dyn.zeros(%s) }')
    for run in (legato.compile(module, threads=1), lambda s: evaluate(module, [s])):
        with pytest.raises(RunError):
            run(I64(*size))


@pytest.mark.parametrize("name", CASES)
def test_compiled_as_interpreted_as_numpy(name: str) -> None:
    module, (_, _, peer, draw) = program(name), CASES[name]
    exe: Executable = legato.compile(module, threads=1)
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(40):
        x = rng.integers(-2, 4, rng.choice(SIZES, 2)).astype(np.float32)
        args = [x, *(np.asarray(a) for a in draw(rng, x))]
        want = wanted(peer, args)
        refused += want is None
        for run in (exe, lambda *a: evaluate(module, list(a))):
            got = outcome(run, args)
            assert (got is None) == (want is None), (args, got, want)
            if got is not None:
                np.testing.assert_array_equal(got, want, str(args))
    assert refused < 40
