"""Right programs over the whole language, small, for mutations."""

from __future__ import annotations

VERSION = '#[version = "0.0.5"]\n'

_LIST = "type List[A] { Cons(A, List[A]), Nil }\n"
_OPTION = "type Option[A] { Some(A), None }\n"

PROGRAMS = [
    """def @main(%x: Tensor[(1, 784), float32], %w1, %b1, %w2) {
  let %h = nn.relu(nn.bias_add(nn.dense(%x, %w1, units=256), %b1));
  nn.softmax(nn.dense(%h, %w2, units=10), axis=-1)
}""",
    """def @main(%x: Tensor[(n, 3, 32, 32), float32], %w, %g, %b, %m, %v, %d) {
  %0 = nn.conv2d(%x, %w, channels=16, kernel_size=[3, 3], padding=[1, 1]);
  %1 = nn.batch_norm(%0, %g, %b, %m, %v);
  %2 = nn.max_pool2d(nn.relu(%1.0), pool_size=[2, 2], strides=[2, 2]);
  nn.dense(nn.batch_flatten(%2), %d, units=10)
}""",
    """def @main(%i: int32, %acc: Tensor[(?,), float32]) {
  if (equal(%i, 0)) { %acc } else { @main(%i - 1, %acc + 1f) }
}""",
    """def @main(%n: int32) {
  let %loop = fn (%i: int32, %a: int32) -> int32 { if (%i < 1) { %a } else { %loop(%i - 1, %a + %i) } };
  %loop(%n, 0)
}""",
    """def @main(%x: float32) {
  let %r = ref(%x);
  let %tick = fn () { ref_write(%r, ref_read(%r) * 2f) };
  %tick();
  %tick();
  (%r, ref_read(%r))
}""",
    _LIST
    + """def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil }
}
def @main(%x: float32) { @map(fn (%y: float32) { %y > 2f }, Cons(%x, Cons(1f, Nil))) }""",
    _LIST
    + _OPTION
    + """def @somes[A](%xs: List[Option[A]]) -> List[A] {
  match (%xs) { Nil => Nil, Cons(None, %r) => @somes(%r), Cons(Some(%v), %r) => Cons(%v, @somes(%r)) }
}
def @main(%a: Option[int32], %b: Option[int32]) {
  match ((%a, %b)) { (Some(%x), Some(%y)) => %x + %y, (Some(%x), None) => %x, (_, _) => 0 }
}""",
    _LIST
    + """type Tree[A] { Rose(A, List[Tree[A]]) }
extern type Storage
def @size[A](%t: Tree[A]) -> int32 {
  let %sum = fn (%ts: List[Tree[A]]) -> int32 {
    match (%ts) { Nil => 0, Cons(%t0, %rest) => @size(%t0) + %sum(%rest) }
  };
  match (%t) { Rose(_, %sub) => 1 + %sum(%sub) }
}
def @main(%s: Storage, %x: float32) { (%s, @size(Rose(%x, Cons(Rose(%x, Nil), Nil)))) }""",
    """def @halves(%x: Tensor[(2 * n, 4), float32]) -> Tensor[(2, n, 4), float32] { reshape(%x, newshape=[2, -1, 4]) }
def @pair[n: ShapeVar(1, 64)](%x: Tensor[(n,), float32], %y: Tensor[(n + 1,), float32]) { concatenate((%x, %y)) }
def @main(%x: Tensor[(6, 4), float32], %y: Tensor[(m, 4), float32], %z: Tensor[(?,), int64]) {
  let %c = match_cast(%z, Tensor[(k,), int64]);
  (@halves(%x), @halves(%y), @pair(ones(shape=[3]), ones(shape=[4])), shape[k, 2 * m + 1])
}""",
    """def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C { fn (%x: A) -> C { %f(%g(%x)) } }
def @id(%x) { %x }
def @main(%x: Tensor[(2, 2), float32]) {
  let %twice: fn [A](fn (A) -> A, A) -> A = fn (%f, %y) { %f(%f(%y)) };
  (@compose(exp, tanh)(%x), %twice(@id, 1), %twice(negative, %x), @id(@id)(True))
}""",
    """def @main(%c: bool, %x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) {
  let %z: Tensor[(?, 4), float32] = if (%c) { %x } else { concatenate((%x, %y), axis=0) };
  let %d = dataflow {
    let %a = sum(%z, axis=[1], keepdims=True);
    let %b: (_, _) = split(%a, indices_or_sections=[1], axis=1);
    output(%a, %b.0)
  };
  (%d.0, (%d.1,), -3i64, 2.5f, cast(%z, dtype="int8"), (&add)(%x, %x))
}""",
    """def @even(%i: int32) { if (%i == 0) { True } else { @odd(%i - 1) } }
def @odd(%i: int32) { if (%i == 0) { False } else { @even(%i - 1) } }
def @main(%n: int32, Primitive=1, %t: (int32, (float32, Shape[(2, 3)]))) {
  let %p = fn (%q) { %q.0 };
  (@even(%n), %p((%n, 1f)), %t.1.0, take(strided_slice(arange(stop=10), begin=[1], end=[5]), %n), @odd)
}""",
    """type box { Put(Tensor[(?, 2), float32], ref(int32)) }
def @grow(%b: box) -> box {
  match (%b) { Put(%x, %n) => { ref_write(%n, ref_read(%n) + 1); Put(concatenate((%x, %x)), %n) } }
}
def @main(%x: Tensor[(3, 2), float32]) { match? (@grow(Put(%x, ref(0)))) { Put(%y, _) => sum(%y) } }""",
    """def @main(%x: Tensor[(5, 2, 8), float32], %w: Tensor[(1, 16, 8), float32], %i: Tensor[(2, 3), int64]) {
  let %a = where(less(%x, 0f), %x, zeros_like(%x));
  let %b = transpose(%a, axes=[1, 0, 2]);
  let %s = nn.batch_matmul(%b, %b, transpose_b=True);
  (topk(%s, k=1), gather_nd(%x, %i), one_hot(%i, 1f, 0f, depth=4))
}""",
]
