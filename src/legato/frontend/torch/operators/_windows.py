"""Windows that move over the last dims of a tensor, as arguments of PyTorch describe them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from legato.base.errors import ImportModelError
from legato.frontend.torch.emitter import Emitter, Size
from legato.ir.expr import Expr

__all__ = ["batched", "numbers", "unbatched"]


def numbers(b: Emitter, given: Sequence[Size] | Size, rank: int, what: str) -> tuple[int, ...]:
    """A number for each of `rank` dims; one stands for all."""
    values = tuple(given) if isinstance(given, Sequence) else (given,)
    found = tuple(b.literal(v, what) for v in values)
    if len(found) not in (1, rank):
        raise ImportModelError(f"{what} is {list(found)}, wanted {rank} integers")
    return found * rank if len(found) == 1 else found


def batched(b: Emitter, x: Expr, rank: int) -> Expr:
    """`x` with a batch before the channels and `rank` spatial dims, one of 1 where it has none."""
    return b.expand_dims(x, axis=0) if b.rank(x) == rank + 1 else x


def unbatched(b: Emitter, x: Expr, rank: int, function: Callable[[Expr], Expr]) -> Expr:
    """What a function of a batch gives, for `x`, which may be a single element of one."""
    y = function(batched(b, x, rank))
    return b.squeeze(y, axis=(0,)) if b.rank(x) == rank + 1 else y
