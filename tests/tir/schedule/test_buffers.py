"""Primitives on buffers and the stages that fill them: the program before and after, as text."""

from __future__ import annotations

import numpy as np
import pytest

from legato.arith.expr import const
from legato.tir import schedule as s
from legato.tir.buffer import Layout, Scope
from legato.tir.printer import show
from legato.tir.walk import loops
from tests.tir.schedule.samples import BLUR, SCRATCH, SUM, TRANSPOSE, Edit, edited, parts

BEFORE_AFTER: dict[str, tuple[str, Edit, str]] = {
    "compute_at": (
        BLUR,
        lambda f, v: s.compute_at(f, v["t"], v["o"], Scope.LOCAL)[0],
        """
kernel @f(x: Buffer[(12,), float32], y: Buffer[(10,), float32]) {
  for o in 0..3 {
    alloc t: Buffer[(5,), float32, scope=local];
    for j in 0..5 {
      if o * 4 + j < 11 {
        t[j] = x[o * 4 + j] + x[o * 4 + j + 1];
      }
    }
    for i in 0..4 {
      if o * 4 + i < 10 {
        y[o * 4 + i] = t[i] + t[i + 1];
      }
    }
  }
}
""",
    ),
    "inline": (
        BLUR,
        lambda f, v: s.inline(f, v["t"]),
        """
kernel @f(x: Buffer[(12,), float32], y: Buffer[(10,), float32]) {
  for o in 0..3 {
    for i in 0..4 {
      if o * 4 + i < 10 {
        y[o * 4 + i] = x[o * 4 + i] + x[o * 4 + i + 1] + (x[o * 4 + i + 1] + x[o * 4 + i + 1 + 1]);
      }
    }
  }
}
""",
    ),
    "cache_read": (
        BLUR,
        lambda f, v: s.cache_read(f, v["t"], v["o"])[0],
        """
kernel @f(x: Buffer[(12,), float32], y: Buffer[(10,), float32]) {
  alloc t: Buffer[(11,), float32];
  for j in 0..11 {
    t[j] = x[j] + x[j + 1];
  }
  for o in 0..3 {
    alloc t_local: Buffer[(5,), float32, scope=local];
    for t0 in 0..5 {
      if o * 4 + t0 < 11 {
        t_local[t0] = t[o * 4 + t0];
      }
    }
    for i in 0..4 {
      if o * 4 + i < 10 {
        y[o * 4 + i] = t_local[i] + t_local[i + 1];
      }
    }
  }
}
""",
    ),
    "cache_write": (
        SUM,
        lambda f, v: s.cache_write(f, v["y"], v["i"], Scope.REGISTER)[0],
        """
kernel @f(x: Buffer[(4, 32), float32], y: Buffer[(4,), float32]) {
  for i in 0..4 {
    alloc y_tile: Buffer[(1,), float32, scope=register];
    y_tile[0] = 0f;
    for r in 0..32 {
      y_tile[0] = y_tile[0] + x[i, r];
    }
    y[i] = y_tile[0];
  }
}
""",
    ),
    "cache_write_all": (
        SUM,
        lambda f, v: s.cache_write(f, v["y"])[0],
        """
kernel @f(x: Buffer[(4, 32), float32], y: Buffer[(4,), float32]) {
  alloc y_tile: Buffer[(4,), float32, scope=local];
  for i in 0..4 {
    y_tile[i] = 0f;
    for r in 0..32 {
      y_tile[i] = y_tile[i] + x[i, r];
    }
  }
  for i_1 in 0..4 {
    y[i_1] = y_tile[i_1];
  }
}
""",
    ),
    "rfactor": (
        SUM,
        lambda f, v: s.rfactor(f, v["r"])[0],
        """
kernel @f(x: Buffer[(4, 32), float32], y: Buffer[(4,), float32]) {
  for i in 0..4 {
    y[i] = 0f;
    alloc y_parts: Buffer[(32,), float32, scope=local];
    for r in 0..32 {
      y_parts[r] = 0f;
    }
    for r_1 in 0..32 {
      y_parts[r_1] = y_parts[r_1] + x[i, r_1];
    }
    for r_2 in 0..32 {
      y[i] = y[i] + y_parts[r_2];
    }
  }
}
""",
    ),
    "sink_alloc": (
        SCRATCH,
        lambda f, v: s.sink_alloc(f, v["t"], v["i"]),
        """
kernel @f(x: Buffer[(4,), float32], y: Buffer[(4,), float32]) {
  for i in 0..4 {
    alloc t: Buffer[(1,), float32, scope=local];
    t[0] = x[i];
    y[i] = t[0] * t[0];
  }
}
""",
    ),
    "set_scope": (
        SCRATCH,
        lambda f, v: s.set_scope(f, v["t"], Scope.REGISTER)[0],
        """
kernel @f(x: Buffer[(4,), float32], y: Buffer[(4,), float32]) {
  alloc t: Buffer[(1,), float32, scope=register];
  for i in 0..4 {
    t[0] = x[i];
    y[i] = t[0] * t[0];
  }
}
""",
    ),
    "set_layout": (
        TRANSPOSE,
        lambda f, v: s.set_layout(f, v["x"], Layout((1, 0), pad=(2, 0)))[0],
        """
kernel @f(x: Buffer[(4, 6), float32, order=(1, 0), pad=(2, 0)], y: Buffer[(6, 4), float32]) {
  for i in 0..4 {
    for j in 0..6 {
      y[j, i] = x[i, j];
    }
  }
}
""",
    ),
    "pack": (
        TRANSPOSE,
        lambda f, v: s.pack(f, v["x"], s.index_map((3, 4, 2), 2, lambda i, j: (j // 2, i, j % 2)))[0],
        """
kernel @f(x: Buffer[(3, 4, 2), float32], y: Buffer[(6, 4), float32]) {
  for i in 0..4 {
    for j in 0..6 {
      y[j, i] = x[j // 2, i, j % 2];
    }
  }
}
""",
    ),
}


@pytest.mark.parametrize(("before", "edit", "after"), BEFORE_AFTER.values(), ids=BEFORE_AFTER)
def test_before_and_after(before: str, edit: Edit, after: str) -> None:
    assert edited(before, edit) == after.strip()


def test_lift_alloc_undoes_sink_alloc() -> None:
    func, v = parts(SCRATCH)
    assert show(s.lift_alloc(s.sink_alloc(func, v["t"], v["i"]), v["t"], v["i"])).strip() == SCRATCH.strip()


def test_copies_have_names() -> None:
    """What a primitive copies can be scheduled through the names that it returns."""
    func, v = parts(BLUR)
    func, tiles = s.split_balanced(func, v["i"], 3)
    assert [p.inner.name for p in tiles] == ["ii"]
    func, names = s.compute_at(func, v["t"], v["o"], Scope.LOCAL)
    assert names[v["t"]].shape == (const(5),)
    assert names[v["j"]] in [f.var for f in loops(func)]
    func, _, _, rest = s.split_peeled(func, names[v["j"]], 2)
    assert rest is not None
    assert rest[names[v["j"]]] in [f.var for f in loops(func)]


def test_packing_an_array() -> None:
    """Channels 0–4 and 5 in blocks of 4: gaps hold zeros."""
    w = np.arange(12, dtype=np.float32).reshape(6, 2)
    packed = s.apply_index_map(w, s.index_map((2, 2, 4), 2, lambda o, r: (o // 4, r, o % 4)))
    want = np.zeros((2, 2, 4), np.float32)
    for o in range(6):
        want[o // 4, :, o % 4] = w[o]
    np.testing.assert_array_equal(packed, want)
