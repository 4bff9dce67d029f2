"""Windows that move over the spatial dims of a tensor (N, C, spatial…): of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Const, cdiv, const, max_
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim

__all__ = ["Windows", "divided", "kernel_windows", "surrounded", "windows_of", "with_kernel",
           "within"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Windows:
    """How windows move over the spatial dims; one entry per dim. `pads`: all befores, then all afters.

    `around` is automatic padding that follows from symbolic extents, (before, after) of each dim; then there are no
    `pads`.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    around: tuple[tuple[Dim, Dim], ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether an operator can say all of the padding."""
        return not self.around and min(self.pads) >= 0

    @property
    def reach(self) -> tuple[int, ...]:
        """Elements from the first to the last that one window touches."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def windows_of(
    b: Emitter, x: Expr, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int],
    auto_pad: str,
) -> Windows:  # fmt: skip
    """The windows that the attributes describe on `x` (N, C, spatial…), automatic padding worked out."""
    rank = b.rank(x) - 2
    if rank not in (1, 2, 3):
        raise UnsupportedError(f"{rank} spatial dimensions; 1 to 3 are possible")
    strides, dilations = tuple(strides) or (1,) * rank, tuple(dilations) or (1,) * rank
    for name, values in (("kernel_shape", kernel), ("strides", strides), ("dilations", dilations)):
        if len(values) != rank or min(values) < 1:
            raise ImportModelError(f"{name} is {list(values)}, wanted {rank} positive integers")
    if pads and len(pads) != 2 * rank:
        raise ImportModelError(f"pads is {list(pads)}, wanted {2 * rank} integers")
    plain = Windows(tuple(kernel), strides, dilations, tuple(pads) or (0,) * 2 * rank)
    if auto_pad == "NOTSET":
        return plain
    if auto_pad == "VALID":
        return Windows(plain.kernel, strides, dilations, (0,) * 2 * rank)
    totals = [
        _same_total(d, stride, reach) for d, stride, reach in zip(b.dims_of(x)[2:], strides, plain.reach, strict=True)
    ]
    sides = divided(totals, auto_pad)
    known = tuple(int(d.value) for d in sides if isinstance(d, Const))
    if len(known) == len(sides):
        return Windows(plain.kernel, strides, dilations, known)
    around = tuple(zip(sides[:rank], sides[rank:], strict=True))
    return Windows(plain.kernel, strides, dilations, (0,) * 2 * rank, around)


def _same_total(extent: Dim, stride: int, reach: int) -> Dim:
    """Padding with which there are extent / stride windows, rounded up."""
    if stride == 1:
        return const(reach - 1)
    total = (cdiv(extent, stride) - 1) * stride + reach - extent
    return simplify(total if reach >= stride else max_(total, const(0)))


def divided(totals: Sequence[Dim], auto_pad: str) -> tuple[Dim, ...]:
    """Befores and afters; an odd element goes to the end (SAME_UPPER) or the beginning (SAME_LOWER)."""
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise ImportModelError(f"auto_pad is {auto_pad!r}, wanted NOTSET, SAME_UPPER, SAME_LOWER or VALID")
    small = tuple(simplify(t // const(2)) for t in totals)
    large = tuple(simplify(t - half) for t, half in zip(totals, small, strict=True))
    return small + large if auto_pad == "SAME_UPPER" else large + small


def surrounded(b: Emitter, x: Expr, w: Windows, fill: float) -> Expr:
    """`x` with automatic padding that is not known at compile time, of value `fill`, around it."""
    return b.nn.pad(x, b.like(fill, x), pad_width=((0, 0), (0, 0), *w.around)) if w.around else x


def with_kernel(b: Emitter, weight: Expr, given: Sequence[int]) -> tuple[Expr, tuple[int, ...]]:
    """A weight and its spatial extents, which `given`, if it says anything, states again."""
    if given and len(given) == b.rank(weight) - 2:
        weight = b.agreed(weight, (None, None, *given), "the weight")
    found = tuple(b.known(d, "an extent of the weight") for d in b.dims_of(weight)[2:])
    if given and tuple(given) != found:
        raise ImportModelError(f"kernel_shape is {list(given)}, but the weight has {list(found)}")
    return weight, found


def kernel_windows(
    b: Emitter, x: Expr, weight: Expr, given: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    pads: Sequence[int], auto_pad: str,
) -> tuple[Expr, Windows]:  # fmt: skip
    """The weight of a convolution, and the windows that it and the attributes describe."""
    weight, kernel = with_kernel(b, weight, given)
    return weight, windows_of(b, x, kernel, strides, dilations, pads, auto_pad)


def within(b: Emitter, x: Expr, w: Windows) -> tuple[Expr, tuple[int, ...]]:
    """`x` with zeros around it, or cut, as operators cannot say, and the padding that is left to them."""
    x, pads = surrounded(b, x, w, 0), w.pads
    return (x, pads) if min(pads) >= 0 else (_padded(b, x, pads), (0,) * len(pads))


def _padded(b: Emitter, x: Expr, pads: Sequence[int]) -> Expr:
    half = len(pads) // 2
    width = ((0, 0), (0, 0), *zip(pads[:half], pads[half:], strict=True))
    return b.nn.pad(x, b.like(0, x), pad_width=width)
