"""Kernels as people write them, and what is read of each: letters of stages by parts (C contraction, R reduction,
E elementwise, B broadcast, I injective), or why it is not read."""

from __future__ import annotations

from typing import Final

__all__ = ["READ", "UNREAD"]

READ: Final = {
    "softmax in one loop": ("RRB", """
    kernel @k(X: Buffer[(n, m), float32], Y: Buffer[(n, m), float32], n: index[0..], m: index[0..]) { alloc C:
    Buffer[(1,), float32]; alloc S: Buffer[(1,), float32]; for i in 0..n { C[0] = -inff; for j in 0..m { C[0] =
    max(C[0], X[i, j]); } S[0] = 0f; for j in 0..m { S[0] = S[0] + exp(X[i, j] - C[0]); } for j in 0..m { Y[i,
    j] = exp(X[i, j] - C[0]) / S[0]; } } }
    """),
    "tiled matrix product": ("C", """
    kernel @k(A: Buffer[(8, 6), float32], B: Buffer[(6, 12), float32], C: Buffer[(8, 12), float32]) {
      for io in 0..2 { for jo in 0..3 { for ko in 0..2 { for ii in 0..4 { for ki in 0..3 { for ji in 0..4 {
        if ko == 0 and ki == 0 { C[io * 4 + ii, jo * 4 + ji] = 0f; }
        C[io * 4 + ii, jo * 4 + ji] = C[io * 4 + ii, jo * 4 + ji]
          + A[io * 4 + ii, ko * 3 + ki] * B[ko * 3 + ki, jo * 4 + ji]; } } } } } } }
    """),
    "tiles beyond the end": ("E", """
    kernel @k(A: Buffer[(n, m), float32], C: Buffer[(n, m), float32], n: index[0..], m: index[0..]) { for io in
    0..(n + 31) // 32 { for ii in 0..32 { for j in 0..m { if io * 32 + ii < n { C[io * 32 + ii, j] = A[io * 32 +
    ii, j] + 1f; } } } } }
    """),
    "one loop for three": ("E", """
    kernel @k(A: Buffer[(n, m, 4), float32], C: Buffer[(n, m, 4), float32], n: index[0..], m: index[0..]) { for
    f in 0..n * m * 4 { let a: index = f // (m * 4); let b: index = f // 4 % m; let c: index = f % 4; C[a, b, c]
    = A[a, b, c] * float32(f); } }
    """),
    "batch of matrix products": ("C", """
    kernel @k(A: Buffer[(b, n, p), float32], B: Buffer[(b, m, p), float32], C: Buffer[(b, n, m), float32], b:
    index[0..], n: index[0..], m: index[0..], p: index[0..]) { for x in 0..b { for i in 0..n { for j in 0..m {
    for k in 0..p { C[x, i, j] = C[x, i, j] + A[x, i, k] * B[x, j, k]; } } } } }
    """),
    "window with a guard": ("R", """
    kernel @k(A: Buffer[(c, 8, 8), float32], C: Buffer[(c, 4, 4), float32], c: index[0..]) { for x in 0..c { for
    i in 0..4 { for j in 0..4 { C[x,i,j] = -inff; for p in 0..3 { for q in 0..3 { if i * 2 + p >= 1 and i * 2 +
    p < 9 and j * 2 + q >= 1 and j * 2 + q < 9 { C[x,i,j] = max(C[x,i,j], A[x, i * 2 + p - 1, j * 2 + q - 1]); }
    } } } } } }
    """),
    "unrolled by hand": ("I", """
    kernel @k(A: Buffer[(n,), float32], C: Buffer[(n * 2,), float32], n: index[0..]) { for i in 0..n { C[i * 2]
    = A[i]; C[i * 2 + 1] = A[i]; } }
    """),
    "side by side": ("I I", """
    kernel @k(A: Buffer[(n,), float32], B: Buffer[(m,), float32], C: Buffer[(n + m,), float32], n: index[0..],
    m: index[0..]) { for i in 0..n { C[i] = A[i]; } for i in 0..m { C[n + i] = B[i]; } }
    """),
    "diagonal": ("B", """
    kernel @k(A: Buffer[(n,), float32], C: Buffer[(n,n), float32], n: index[0..]) { for i in 0..n { C[i, i] =
    A[i]; } }
    """),
    "lower triangle": ("E", """
    kernel @k(A: Buffer[(n, n), float32], C: Buffer[(n,n), float32], n: index[0..]) { for i in 0..n { for j in
    0..i + 1 { C[i, j] = A[i, j]; } } }
    """),
    "triangular sums": ("R", """
    kernel @k(A: Buffer[(n, n), float32], C: Buffer[(n,), float32], n: index[0..]) { for i in 0..n { for j in
    0..i + 1 { C[i] = C[i] + A[i, j]; } } }
    """),
    "rows by number": ("I", """
    kernel @k(A: Buffer[(n, m), float32], I: Buffer[(p,), int32], C: Buffer[(p,m), float32], n: index[0..], m:
    index[0..], p: index[0..]) { for i in 0..p { for j in 0..m { if n > 0 { C[i, j] = A[min(max(index(I[i]), 0),
    n - 1), j]; } } } }
    """),
    "stored twice": ("E E", """
    kernel @k(A: Buffer[(n,), float32], C: Buffer[(n,), float32], n: index[0..]) { for i in 0..n { C[i] = A[i];
    } for i in 0..n { C[i] = C[i] * 2f; } }
    """),
    "wide sums": ("C E", """
    kernel @k(A: Buffer[(n, m), float16], B: Buffer[(m, p), float16], C: Buffer[(n, p), float16], n: index[0..],
    m: index[0..], p: index[0..]) { alloc T: Buffer[(n, p), float32]; for i in 0..n { for j in 0..p { for k in
    0..m { T[i, j] = T[i, j] + float32(A[i, k]) * float32(B[k, j]); } } } for i in 0..n { for j in 0..p { C[i,
    j] = float16(T[i, j]); } } }
    """),
    "sum in a register": ("C E", """
    kernel @k(A: Buffer[(n, m), float32], B: Buffer[(m, p), float32], C: Buffer[(n, p), float32], n: index[0..],
    m: index[0..], p: index[0..]) { for i in 0..n { for j in 0..p { alloc T: Buffer[(), float32,
    scope=register]; T[] = 0f; for k in 0..m { T[] = T[] + A[i, k] * B[k, j]; } C[i, j] = max(T[], 0f); } } }
    """),
    "two sums": ("R R", """
    kernel @k(A: Buffer[(n, m), float32], C: Buffer[(n,), float32], D: Buffer[(n,), float32], n: index[0..], m:
    index[0..]) { for i in 0..n { for k in 0..m { C[i] = C[i] + A[i, k]; D[i] = D[i] + A[i, k] * A[i, k]; } } }
    """),
    "padded convolution": ("IC", """
    kernel @k(X: Buffer[(n, 3, 4, 5), float32], W: Buffer[(2, 3, 3, 3), float32], Y: Buffer[(n, 2, 4, 5), float32],
      n: index[0..]) { alloc P: Buffer[(n, 3, 6, 7), float32];
      for b in 0..n { for c in 0..3 { for i in 0..6 { for j in 0..7 {
        if 0 < i and i < 5 and 0 < j and j < 6 { P[b, c, i, j] = X[b, c, i - 1, j - 1]; } } } } }
      for b in 0..n { for o in 0..2 { for i in 0..4 { for j in 0..5 { for c in 0..3 { for r in 0..3 { for s in 0..3 {
        Y[b, o, i, j] = Y[b, o, i, j] + P[b, c, i + r, j + s] * W[o, c, r, s]; } } } } } } } }
    """),
    "strided convolution": ("C", """
    kernel @k(A: Buffer[(c, n), float32], W: Buffer[(d, c, 3), float32], C: Buffer[(d, (n - 3) // 2 + 1),
    float32], c: index[0..], d: index[0..], n: index[0..]) { for o in 0..d { for i in 0..(n - 3) // 2 + 1 { for
    r in 0..c { for s in 0..3 { C[o, i] = C[o, i] + A[r, i * 2 + s] * W[o, r, s]; } } } } }
    """),
}  # fmt: skip
UNREAD: Final = {
    "running sum": ("an iteration over i reads what others store to C", """
    kernel @k(A: Buffer[(n,), float32], C: Buffer[(n,), float32], n: index[0..]) { for i in 0..n { C[i] = A[i] +
    select(i > 0, C[max(i - 1, 0)], 0f); } }
    """),
    "place of the largest": ("an iteration over k reads what others store to C", """
    kernel @k(A: Buffer[(n, m), float32], C: Buffer[(n,), float32], D: Buffer[(n,), int64], n: index[0..], m:
    index[0..]) { for i in 0..n { C[i] = -inff; for k in 0..m { if A[i, k] > C[i] { C[i] = A[i, k]; D[i] =
    int64(k); } } } }
    """),
    "beyond 64 bits": ("i * m may leave 64 bits", """
    kernel @k(A: Buffer[(n, m), float32], C: Buffer[(n * m,), float32], n: index[0..], m: index[0..]) { for i in
    0..n { for j in 0..m { C[i * m + j] = A[i, j] * 2f; } } }
    """),
    "scatter": ("data decides where C is stored", """
    kernel @k(I: Buffer[(n,), int32], C: Buffer[(n,), float32], n: index[0..]) { for i in 0..n { if 0i32 <= I[i]
    and index(I[i]) < n { C[index(I[i])] = 1f; } } }
    """),
    "data decides how often": ("data decides how often the loop over j runs", """
    kernel @k(I: Buffer[(n,), int32], C: Buffer[(n,), float32], n: index[0..]) { for i in 0..n { for j in
    0..index(I[i]) { C[i] = C[i] + 1f; } } }
    """),
    "an assertion": ("it has a check", """
    kernel @k(A: Buffer[(n,), float32], C: Buffer[(n,), float32], n: index[0..]) { check n < 9 else 1; for i in
    0..n { C[i] = A[i]; } }
    """),
    "outside": ("subscript 0, i + 1, may be n or more", """
    kernel @k(A: Buffer[(n,), float32], C: Buffer[(n,), float32], n: index[0..]) { for i in 0..n { C[i] = A[i +
    1]; } }
    """),
    "a scan": ("an iteration over i needs what the one before stored to S", """
    kernel @k(A: Buffer[(n,), float32], S: Buffer[(), float32], n: index[0..]) { for i in 0..n { S[] = S[] *
    0.5f + A[i]; } }
    """),
}  # fmt: skip
