"""Operators that move elements, make tensors, order and sum them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato.base.errors import TypeCheckError
from legato.relax.frontend.nn.scope import as_shape
from legato.relax.frontend.nn.tensor import Tensor, call_of, emit, get_default_dtype, wrap_nested

__all__ = ["arange", "argsort", "broadcast_to", "chunk", "concat", "cumsum", "empty", "full", "max", "mean", "min",
           "ones", "pad", "permute", "permute_dims", "repeat", "reshape", "sort", "split", "squeeze", "sum", "take",
           "topk", "tril", "triu", "unsqueeze", "zeros"]  # fmt: skip

Axes = int | Sequence[int] | None


# ---------------------------------------------------------------------- moved


def reshape(x: Tensor, shape: Sequence[Any], name: str = "reshape") -> Tensor:
    """The elements in another shape; one extent may be -1, which follows from the others."""
    return emit("reshape", name, x, as_shape(shape, (-1,)))


def permute_dims(x: Tensor, axes: Sequence[int] | None = None, name: str | None = None) -> Tensor:
    """The axes in another order; reversed where `axes` is None."""
    return emit("permute_dims", name or "permute_dims", x, axes)


def permute(x: Tensor, axes: Sequence[int] | None, name: str = "permute") -> Tensor:
    """The axes in another order; reversed where `axes` is None."""
    return permute_dims(x, axes, name)


def broadcast_to(x: Tensor, shape: Sequence[Any], name: str = "broadcast_to") -> Tensor:
    """The elements, repeated along axes of extent 1 and in front."""
    return emit("broadcast_to", name, x, as_shape(shape))


def unsqueeze(x: Tensor, dim: int, name: str = "unsqueeze") -> Tensor:
    """With an axis of extent 1 at `dim`."""
    return emit("expand_dims", name, x, dim)


def squeeze(x: Tensor, axis: int = -1, name: str = "squeeze") -> Tensor:
    """Without the axis `axis`, whose extent is 1."""
    return emit("squeeze", name, x, axis)


def concat(x: Sequence[Tensor], dim: int, name: str = "concat") -> Tensor:
    """Tensors one behind the other along `dim`."""
    return emit("concat", name, list(x), dim)


def split(
    ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0, name: str = "split"
) -> tuple[Tensor, ...]:
    """Equal parts, so many, or those between indices, along an axis."""
    found: tuple[Tensor, ...] = wrap_nested(call_of("split", ary, indices_or_sections, axis), name)
    return found


def chunk(x: Tensor, chunks: int, dim: int = 0, name: str = "chunk") -> tuple[Tensor, ...]:
    """`chunks` equal parts along `dim`."""
    return split(x, chunks, dim, name)


def repeat(x: Tensor, repeats: int, axis: int | None = None, name: str = "repeat") -> Tensor:
    """Each element `repeats` times along an axis; in a row where it is None."""
    return emit("repeat", name, x, repeats, axis)


def take(x: Tensor, indices: Tensor, axis: int | None = None, name: str = "take") -> Tensor:
    """The elements at indices along an axis; of all in a row where it is None."""
    return emit("take", name, x, indices, axis)


def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: float = 0.0, name: str = "pad") -> Tensor:
    """With elements in front of each axis and behind it: (before, after) of each axis in a row, from the first on.

    mode: "constant" (of `value`), "reflect", "replicate" (the edge), …
    """
    if len(pad) % 2:
        raise TypeCheckError(f"pad takes an even number of extents, got {list(pad)}")
    whole = float(value).is_integer() and not x.dtype.startswith(("float", "bfloat"))
    filled = int(value) if whole else value
    return emit("nn.pad", name, x, list(pad), filled, mode)


def triu(x: Tensor, diagonal: int = 0, name: str = "triu") -> Tensor:
    """The last two axes' elements at and above a diagonal, zeros below."""
    return emit("triu", name, x, diagonal)


def tril(x: Tensor, diagonal: int = 0, name: str = "tril") -> Tensor:
    """The last two axes' elements at and below a diagonal, zeros above."""
    return emit("tril", name, x, diagonal)


# ---------------------------------------------------------------------- made


def full(shape: Sequence[Any], fill_value: Any, dtype: str = "float32", name: str = "full") -> Tensor:
    """Of one value everywhere: a number, or a tensor of rank 0."""
    value = fill_value if isinstance(fill_value, Tensor) else Tensor.from_scalar(fill_value, dtype)
    return emit("full", name, as_shape(shape), value, dtype)


def zeros(shape: Sequence[Any], dtype: str = "float32", name: str = "zeros") -> Tensor:
    """Of zeros."""
    return emit("zeros", name, as_shape(shape), dtype)


def ones(shape: Sequence[Any], dtype: str = "float32", name: str = "ones") -> Tensor:
    """Of ones."""
    return emit("ones", name, as_shape(shape), dtype)


def empty(shape: Sequence[Any], dtype: str = "float32", name: str = "empty") -> Tensor:
    """Of zeros: no program reads what nothing wrote."""
    return zeros(shape, dtype, name)


def arange(
    start: Any, end: Any = None, step: int = 1, dtype: str | None = "float32", name: str = "arange"
) -> Tensor:  # fmt: skip
    """From `start` up to, and without, `end` (from 0 up to `start` where it is None)."""
    return emit("arange", name, start, end, step, dtype or get_default_dtype())


# ---------------------------------------------------------------------- ordered


def sort(x: Tensor, axis: int = -1, descending: bool = False, name: str = "sort") -> Tensor:
    """In order along an axis."""
    return emit("sort", name, x, axis, descending)


def argsort(
    data: Tensor, axis: int = -1, descending: bool = False, dtype: str = "int32", name: str = "argsort"
) -> Tensor:
    """The indices that bring an axis in order."""
    return emit("argsort", name, data, axis, descending, dtype)


def topk(
    data: Tensor, k: int = 1, axis: int = -1, ret_type: str = "both", largest: bool = True, dtype: str = "int32",
    name: str = "topk",
) -> Any:  # fmt: skip
    """The `k` largest (or smallest) along an axis: ret_type "values", "indices" or "both", which is both of them."""
    if ret_type not in ("both", "values", "indices"):
        raise TypeCheckError(f"topk with ret_type={ret_type!r}", hint='"both", "values" or "indices"')
    return wrap_nested(call_of("topk", data, k, axis, ret_type, largest, dtype), name)


# ---------------------------------------------------------------------- summed


def _reduction(operator: str, doc: str) -> Callable[..., Tensor]:
    def build(x: Tensor, axis: Axes = None, keepdims: bool = False, name: str = operator) -> Tensor:
        return emit(operator, name, x, axis, keepdims)

    build.__name__ = build.__qualname__ = operator
    build.__doc__ = f"{doc} over axes, all where it is None; they stay, of extent 1, with `keepdims`."
    return build


sum = _reduction("sum", "The sum")
mean = _reduction("mean", "The average")
max = _reduction("max", "The largest")
min = _reduction("min", "The smallest")


def cumsum(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None,
    name: str = "cumsum",
) -> Tensor:  # fmt: skip
    """Sums of all elements up to each, along an axis, or in a row; without the element itself if `exclusive`."""
    return emit("cumsum", name, data, axis, dtype, bool(exclusive))
