"""Scalar functions for rare arguments, called from the slow paths of vector code: one copy per module, as LLVM text.

`@legato.reduce(buf, n)`   buf holds n doubles x. x mod π/2 with all bits (Payne and Hanek 1983): 192 bits of 2/π from
                           the place where x's exponent puts them, times the mantissa, in integers.
                           Out: buf[n + i] and buf[2n + i] the high and low part of the rest, buf[3n + i] the quadrant.
`@legato.fmod(buf, n)`     buf holds n doubles x and n doubles y; x becomes fmod(x, y), exactly: shift and subtract.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["definitions"]

# 2/π in words of 64 bits, most significant first, after one word of zeros.
_TWO_OVER_PI = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
    0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip

_REDUCE = """@legato.two_over_pi = private unnamed_addr constant [{count} x i64] [{words}], align 64

define internal void @legato.reduce(ptr %buf, i64 %n) #0 {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %px = getelementptr double, ptr %buf, i64 %i
  %ph = getelementptr double, ptr %px, i64 %n
  %pl = getelementptr double, ptr %ph, i64 %n
  %pq = getelementptr double, ptr %pl, i64 %n
  %bits = load i64, ptr %px, align 8
  %sign = and i64 %bits, -9223372036854775808
  %negative = icmp ne i64 %sign, 0
  %exponent52 = lshr i64 %bits, 52
  %exponent = and i64 %exponent52, 2047
  %special = icmp eq i64 %exponent, 2047
  %fraction = and i64 %bits, 4503599627370495
  %m = or i64 %fraction, 4503599627370496
  ; first bit of 2/pi that matters, counted from the start of the table: e - 2 + 64 with e = exponent - 1075
  %first0 = sub i64 %exponent, 1013
  %first1 = call i64 @llvm.smax.i64(i64 %first0, i64 0)
  %first = call i64 @llvm.smin.i64(i64 %first1, i64 1087)
  %word = lshr i64 %first, 6
  %shift = and i64 %first, 63
  %p0 = getelementptr i64, ptr @legato.two_over_pi, i64 %word
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %a0 = load i64, ptr %p0, align 8
  %a1 = load i64, ptr %p1, align 8
  %a2 = load i64, ptr %p2, align 8
  %a3 = load i64, ptr %p3, align 8
  %w2 = call i64 @llvm.fshl.i64(i64 %a0, i64 %a1, i64 %shift)
  %w1 = call i64 @llvm.fshl.i64(i64 %a1, i64 %a2, i64 %shift)
  %w0 = call i64 @llvm.fshl.i64(i64 %a2, i64 %a3, i64 %shift)
  ; m * w modulo 2^192: two bits of integer part, then the fraction
  %m128 = zext i64 %m to i128
  %w0x = zext i64 %w0 to i128
  %w1x = zext i64 %w1 to i128
  %t0 = mul i128 %m128, %w0x
  %t1 = mul i128 %m128, %w1x
  %t2 = mul i64 %m, %w2
  %t0h = lshr i128 %t0, 64
  %t2x = zext i64 %t2 to i128
  %t2s = shl i128 %t2x, 64
  %sum0 = add i128 %t1, %t0h
  %h = add i128 %sum0, %t2s
  ; to the nearest quarter turn
  %half = shl i128 1, 125
  %up = add i128 %h, %half
  %q128 = lshr i128 %up, 126
  %q = trunc i128 %q128 to i64
  %qs = shl i128 %q128, 126
  %f = sub i128 %h, %qs
  %fneg = icmp slt i128 %f, 0
  %fminus = sub i128 0, %f
  %size = select i1 %fneg, i128 %fminus, i128 %f
  %lz128 = call i128 @llvm.ctlz.i128(i128 %size, i1 false)
  %lz0 = trunc i128 %lz128 to i64
  %lz = and i64 %lz0, 127
  %lzx = zext i64 %lz to i128
  %normal = shl i128 %size, %lzx
  %top = lshr i128 %normal, 64
  ; times pi/2, of which 64 bits
  %product = mul i128 %top, 14488038916154245684
  %u128 = lshr i128 %product, 64
  %u = trunc i128 %u128 to i64
  %uh = lshr i64 %u, 11
  %ul = and i64 %u, 2047
  %fh = sitofp i64 %uh to double
  %fl = sitofp i64 %ul to double
  %el = sub i64 962, %lz
  %eh = add i64 %el, 11
  %elb = shl i64 %el, 52
  %ehb = shl i64 %eh, 52
  %fnegx = zext i1 %fneg to i64
  %fsign = shl i64 %fnegx, 63
  %rsign = xor i64 %fsign, %sign
  %elbs = or i64 %elb, %rsign
  %ehbs = or i64 %ehb, %rsign
  %sl = bitcast i64 %elbs to double
  %sh = bitcast i64 %ehbs to double
  %rh0 = fmul double %fh, %sh
  %rl = fmul double %fl, %sl
  %rh = select i1 %special, double 0x7FF8000000000000, double %rh0
  %qminus = sub i64 0, %q
  %quadrant = select i1 %negative, i64 %qminus, i64 %q
  store double %rh, ptr %ph, align 8
  store double %rl, ptr %pl, align 8
  store i64 %quadrant, ptr %pq, align 8
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""

_FMOD = """define internal void @legato.fmod(ptr %buf, i64 %n) #0 {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %store ]
  %px = getelementptr double, ptr %buf, i64 %i
  %py = getelementptr double, ptr %px, i64 %n
  %x = load double, ptr %px, align 8
  %y = load double, ptr %py, align 8
  %xb = bitcast double %x to i64
  %yb = bitcast double %y to i64
  %sign = and i64 %xb, -9223372036854775808
  %ax = and i64 %xb, 9223372036854775807
  %ay = and i64 %yb, 9223372036854775807
  %ynan = icmp ugt i64 %ay, 9218868437227405312
  %yzero = icmp eq i64 %ay, 0
  %xbad = icmp uge i64 %ax, 9218868437227405312
  %bad0 = or i1 %ynan, %yzero
  %bad = or i1 %bad0, %xbad
  br i1 %bad, label %store, label %compare
compare:
  %less = icmp ult i64 %ax, %ay
  br i1 %less, label %store, label %split
split:
  %ex0 = lshr i64 %ax, 52
  %ey0 = lshr i64 %ay, 52
  %ex = call i64 @llvm.umax.i64(i64 %ex0, i64 1)
  %ey = call i64 @llvm.umax.i64(i64 %ey0, i64 1)
  %fx = and i64 %ax, 4503599627370495
  %fy = and i64 %ay, 4503599627370495
  %nx = icmp ne i64 %ex0, 0
  %ny = icmp ne i64 %ey0, 0
  %fx1 = or i64 %fx, 4503599627370496
  %fy1 = or i64 %fy, 4503599627370496
  %mx = select i1 %nx, i64 %fx1, i64 %fx
  %my = select i1 %ny, i64 %fy1, i64 %fy
  %steps = sub i64 %ex, %ey
  br label %reduce
reduce:
  %r = phi i64 [ %mx, %split ], [ %twice, %again ]
  %left = phi i64 [ %steps, %split ], [ %fewer, %again ]
  %r1 = sub i64 %r, %my
  %ge = icmp uge i64 %r, %my
  %r2 = select i1 %ge, i64 %r1, i64 %r
  %last = icmp eq i64 %left, 0
  br i1 %last, label %scale, label %again
again:
  %twice = shl i64 %r2, 1
  %fewer = sub i64 %left, 1
  br label %reduce
scale:
  ; the rest is r2 * 2^(ey - 1075): exact in two products, for subnormals too, where these are kept
  %rd = sitofp i64 %r2 to double
  %e = sub i64 %ey, 1075
  %e1 = ashr i64 %e, 1
  %e2 = sub i64 %e, %e1
  %b1 = add i64 %e1, 1023
  %b2 = add i64 %e2, 1023
  %s1b = shl i64 %b1, 52
  %s2b = shl i64 %b2, 52
  %s1 = bitcast i64 %s1b to double
  %s2 = bitcast i64 %s2b to double
  %v1 = fmul double %rd, %s1
  %v2 = fmul double %v1, %s2
  %vb = bitcast double %v2 to i64
  %vs = or i64 %vb, %sign
  %v = bitcast i64 %vs to double
  br label %store
store:
  %result = phi double [ 0x7FF8000000000000, %loop ], [ %x, %compare ], [ %v, %scale ]
  store double %result, ptr %px, align 8
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}"""


def definitions(names: Iterable[str]) -> list[str]:
    """The text of the functions of these names."""
    return [_FMOD if name == "legato.fmod" else _reduce() for name in sorted(names)]


def _reduce() -> str:
    words = ", ".join([f"i64 {w - (1 << 64) if w >> 63 else w}" for w in _TWO_OVER_PI])
    return _REDUCE.format(count=len(_TWO_OVER_PI), words=words)
