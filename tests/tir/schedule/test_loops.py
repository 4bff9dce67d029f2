"""Primitives on loops: the program before and after, as text."""

from __future__ import annotations

import pytest

from legato.tir import schedule as s
from tests.tir.schedule.samples import BLUR, COPY, SUM, TRANSPOSE, Edit, edited

BEFORE_AFTER: dict[str, tuple[str, Edit, str]] = {
    "split": (
        COPY,
        lambda f, v: s.split(f, v["i"], 4)[0],
        """
kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
  for io in 0..(n + 3) // 4 {
    for ii in 0..4 {
      if io * 4 + ii < n {
        y[io * 4 + ii] = x[io * 4 + ii] + 1f;
      }
    }
  }
}
""",
    ),
    "split_divides": (
        TRANSPOSE,
        lambda f, v: s.split(f, v["j"], 3)[0],
        """
kernel @f(x: Buffer[(4, 6), float32], y: Buffer[(6, 4), float32]) {
  for i in 0..4 {
    for jo in 0..2 {
      for ji in 0..3 {
        y[jo * 3 + ji, i] = x[i, jo * 3 + ji];
      }
    }
  }
}
""",
    ),
    "split_divides_multiples": (
        "kernel @f(x: Buffer[(n * 4,), float32], n: index) { for i in 0..n * 4 { x[i] = 1f; } }",
        lambda f, v: s.split(f, v["i"], 4)[0],
        """
kernel @f(x: Buffer[(n * 4,), float32], n: index) {
  for io in 0..n {
    for ii in 0..4 {
      x[io * 4 + ii] = 1f;
    }
  }
}
""",
    ),
    "split_peeled": (
        COPY,
        lambda f, v: s.split_peeled(f, v["i"], 4)[0],
        """
kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
  for io in 0..n // 4 {
    for ii in 0..4 {
      y[io * 4 + ii] = x[io * 4 + ii] + 1f;
    }
  }
  for i in 0..n % 4 {
    y[n // 4 * 4 + i] = x[n // 4 * 4 + i] + 1f;
  }
}
""",
    ),
    "split_balanced": (
        SUM,
        lambda f, v: s.split_balanced(f, v["r"], 12)[0],
        """
kernel @f(x: Buffer[(4, 32), float32], y: Buffer[(4,), float32]) {
  for i in 0..4 {
    y[i] = 0f;
    for ro in 0..2 {
      for ri in 0..11 {
        y[i] = y[i] + x[i, ro * 11 + ri];
      }
    }
    for ro_1 in 0..1 {
      for ri_1 in 0..10 {
        y[i] = y[i] + x[i, ro_1 * 10 + ri_1 + 22];
      }
    }
  }
}
""",
    ),
    "reorder": (
        TRANSPOSE,
        lambda f, v: s.reorder(f, [v["j"], v["i"]]),
        """
kernel @f(x: Buffer[(4, 6), float32], y: Buffer[(6, 4), float32]) {
  for j in 0..6 {
    for i in 0..4 {
      y[j, i] = x[i, j];
    }
  }
}
""",
    ),
    "reorder_guard": (
        BLUR,
        lambda f, v: s.reorder(f, [v["i"], v["o"]]),
        """
kernel @f(x: Buffer[(12,), float32], y: Buffer[(10,), float32]) {
  alloc t: Buffer[(11,), float32];
  for j in 0..11 {
    t[j] = x[j] + x[j + 1];
  }
  for i in 0..4 {
    for o in 0..3 {
      if o * 4 + i < 10 {
        y[o * 4 + i] = t[o * 4 + i] + t[o * 4 + i + 1];
      }
    }
  }
}
""",
    ),
    "fuse": (
        TRANSPOSE,
        lambda f, v: s.fuse(f, v["i"], v["j"])[0],
        """
kernel @f(x: Buffer[(4, 6), float32], y: Buffer[(6, 4), float32]) {
  for ij in 0..24 {
    y[ij % 6, ij // 6] = x[ij // 6, ij % 6];
  }
}
""",
    ),
    "unroll": (
        TRANSPOSE,
        lambda f, v: s.unroll(f, v["j"]),
        """
kernel @f(x: Buffer[(4, 6), float32], y: Buffer[(6, 4), float32]) {
  for i in 0..4 {
    unroll j in 0..6 {
      y[j, i] = x[i, j];
    }
  }
}
""",
    ),
    "vectorize": (
        TRANSPOSE,
        lambda f, v: s.vectorize(f, v["j"]),
        """
kernel @f(x: Buffer[(4, 6), float32], y: Buffer[(6, 4), float32]) {
  for i in 0..4 {
    vector j in 0..6 {
      y[j, i] = x[i, j];
    }
  }
}
""",
    ),
    "parallel": (
        COPY,
        lambda f, v: s.parallel(f, v["i"]),
        """
kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
  parallel i in 0..n {
    y[i] = x[i] + 1f;
  }
}
""",
    ),
    "fission": (
        SUM,
        lambda f, v: s.fission(f, v["i"])[0],
        """
kernel @f(x: Buffer[(4, 32), float32], y: Buffer[(4,), float32]) {
  for i in 0..4 {
    y[i] = 0f;
  }
  for i_1 in 0..4 {
    for r in 0..32 {
      y[i_1] = y[i_1] + x[i_1, r];
    }
  }
}
""",
    ),
    "partition": (
        COPY,
        lambda f, v: s.partition(f, v["i"], 3)[0],
        """
kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
  for i in 0..min(n, 3) {
    y[i] = x[i] + 1f;
  }
  for i_1 in 0..n - min(n, 3) {
    y[min(n, 3) + i_1] = x[min(n, 3) + i_1] + 1f;
  }
}
""",
    ),
    "overlap_tail": (
        COPY,
        lambda f, v: s.overlap_tail(f, v["i"], 4)[0],
        """
kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
  if 4 <= n {
    for io in 0..(n + 3) // 4 {
      let ib: index[0..] = min(io * 4, n - 4);
      for ii in 0..4 {
        y[ib + ii] = x[ib + ii] + 1f;
      }
    }
  } else {
    for i in 0..n {
      y[i] = x[i] + 1f;
    }
  }
}
""",
    ),
}


@pytest.mark.parametrize(("before", "edit", "after"), BEFORE_AFTER.values(), ids=BEFORE_AFTER)
def test_before_and_after(before: str, edit: Edit, after: str) -> None:
    assert edited(before, edit) == after.strip()
