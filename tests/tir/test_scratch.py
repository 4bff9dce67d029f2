"""Buffers of the caller's compute what a kernel's own did."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from legato.arith.evaluate import evaluate
from legato.arith.expr import Var
from legato.base.errors import UnsupportedError
from legato.tir.interp import run
from legato.tir.parser import parse_func
from legato.tir.scratch import with_scratch
from legato.tir.stmt import Func
from legato.tir.verify import verify

KINDS = {"for": "for {}", "parallel": "parallel {}", "vector": "vector {}: index[0..{}]"}
SIZES = {"m": "m", "9000": "2", "m * 2 + 1": "m * 2 + 1", "k": "m", "3": "3"}  # and how much is used of them
PLACES = ("outside", "between", "inside")


def kernel(outer: str, inner: str, size: str, place: str, scope: str) -> Func:
    """Sums of what a buffer of a size (k is m in a Let) holds, which lies around the loops or in one of them."""
    at = dict.fromkeys(PLACES, "") | {place: f"alloc t: Buffer[({size},), float32, scope={scope}];"}
    return parse_func(f"""
    kernel @f(x: Buffer[(2, 3), float32], y: Buffer[(2, 3), float32], m: index) {{
      let k = m;
      {at["outside"]}
      {KINDS[outer].format("i", 1)} in 0..2 {{
        {at["between"]}
        {KINDS[inner].format("j", 2)} in 0..3 {{
          {at["inside"]}
          for a in 0..{SIZES[size]} {{ t[a] = x[i, j] * float32(a + 1); }}
          y[i, j] = 0f;
          for b in 0..{SIZES[size]} {{ y[i, j] = y[i, j] + t[b]; }}
        }}
      }}
    }}""")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("scope", ["local", "global"])
def test_a_buffer_of_the_callers_serves_as_well(place: str, scope: str) -> None:
    """It is one where a size is symbolic or large; refused only where threads would share what each needs for itself.
    Then there are the same results, whatever is in it and whichever order iterations take."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for outer, inner, size in product(KINDS, KINDS, SIZES):
        if outer == inner != "for" or (outer, inner) == ("vector", "parallel"):
            continue  # there are no such nests
        shared = {"outside": (outer, inner), "between": (inner,), "inside": ()}[place]
        is_own = scope == "local" and size == "3"
        func = kernel(outer, inner, size, place, scope)
        if "parallel" in shared:  # a malformed program, or a race, where it is not refused
            if scope == "local" and not is_own:
                with pytest.raises(UnsupportedError, match="each thread needs its own"):
                    with_scratch(func)
            continue
        new, buffers = with_scratch(func)
        assert len(buffers) == (not is_own)
        verify(new)
        for m, backwards in product((1, 3), (False, True)):
            dims = {v: m for v in new.params if isinstance(v, Var)}
            filled = [np.full([int(evaluate(d, dims)) for d in b.shape], np.nan, np.float32) for b in buffers]
            got = np.zeros_like(x)
            assert run(new, [x, got, *filled, m], backwards=backwards) == 0
            count = {"m": m, "9000": 2, "m * 2 + 1": 2 * m + 1, "k": m, "3": 3}[size]
            np.testing.assert_array_equal(got, x * (count * (count + 1) // 2))


@pytest.mark.parametrize(
    ("extent", "size", "what"),
    [("m", "i + 1", "i"), ("index(s[0])", "m", "what is in memory"), ("m", "index(s[0])", "what is in memory")],
)
def test_the_caller_knows_how_much_it_is(extent: str, size: str, what: str) -> None:
    func = parse_func(f"""
    kernel @f(s: Buffer[(1,), int64], y: Buffer[(m,), float32], m: index) {{
      parallel i in 0..{extent} {{
        alloc t: Buffer[({size},), float32, scope=local];
        t[0] = 1f;
        y[i] = t[0];
      }}
    }}""")
    with pytest.raises(UnsupportedError, match=f"cannot allocate t: its size, .*, depends on {what}"):
        with_scratch(func)
