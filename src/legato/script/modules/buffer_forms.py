"""`T.Buffer(shape, dtype)`: what scripts say of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from legato.base import dtype as dt
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.script.modules import options
from legato.script.modules.forms import BufferForm, ScalarType
from legato.tir.buffer import Layout, Scope

__all__ = ["Buffer", "BufferType", "dtype_of"]

_SCOPES: Final[Mapping[str, Scope]] = {
    "": Scope.GLOBAL, "global": Scope.GLOBAL, "shared": Scope.LOCAL, "shared.dyn": Scope.LOCAL, "local": Scope.LOCAL,
    "register": Scope.REGISTER,
}  # fmt: skip


class BufferType:
    """`T.Buffer(shape, dtype)`, also `T.Buffer[shape, dtype]`."""

    def __call__(self, shape: Any, dtype: Any = "float32", *, scope: str = "global", **layout: Any) -> BufferForm:
        own = {name: layout.pop(name) for name in _LAYOUT if name in layout}
        odd = [name for name, value in layout.items() if value not in _USUAL.get(name, (None,))]
        if odd:
            hint = "buffers are dense, in rows"
            raise UnsupportedError(f"a buffer with {odd[0]}={layout[odd[0]]!r}", hint=hint)
        extents = _shape(shape)
        return BufferForm(extents, dtype_of(dtype), _scope(scope), _layout(len(extents), **own) if own else None)

    __iter__ = None  # `[…]` of any index is a buffer: there is no last one

    def __getitem__(self, given: Any) -> BufferForm:
        shape, *dtype = given if isinstance(given, tuple) and isinstance(given[0], tuple) else (given,)
        return self(shape, *dtype)


_LAYOUT: Final = ("order", "halo", "halo_value", "pad")


def _layout(rank: int, order: Any = None, halo: Any = (), halo_value: Any = 0.0, pad: Any = ()) -> Layout:
    """How a buffer lies in memory; see `tir.buffer.Layout`."""
    listed = tuple(range(rank)) if order is None else _numbers(order, "order")
    around = tuple(_pair(h) for h in options.sequence(halo, "halo"))
    return Layout(listed, around, float(halo_value), _numbers(pad, "pad"))


def _numbers(given: Any, what: str) -> tuple[int, ...]:
    return tuple(options.number(n, f"a number of {what}") for n in options.sequence(given, what))


def _pair(given: Any) -> tuple[int, int]:
    found = _numbers(given, "halo")
    if len(found) != 2:
        raise TypeCheckError(f"halo: {len(found)} numbers, wanted (before, after)")
    return found


_USUAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "data": (None,), "strides": (None, (), []), "elem_offset": (None, 0), "align": (-1, 0, 64),
    "offset_factor": (0, 1), "buffer_type": ("", "default"), "axis_separators": (None, (), []), "layout": (None,),
    "allocated_addr": (None,),
}  # fmt: skip
Buffer: Final = BufferType()


def _shape(shape: Any) -> tuple[Any, ...]:
    return tuple(shape) if isinstance(shape, tuple | list) else (shape,)


_WORDS: Final[Mapping[Any, dt.DType]] = {"handle": dt.handle, "index": dt.index}  # that loop programs alone have


def dtype_of(given: Any) -> dt.DType:
    return given.dtype if isinstance(given, ScalarType) else _WORDS.get(given) or dt.dtype(given)


def _scope(name: str) -> Scope:
    if name not in _SCOPES:
        raise UnsupportedError(f"memory scope {name!r}", hint=f"one of {', '.join(filter(None, _SCOPES))}")
    return _SCOPES[name]
