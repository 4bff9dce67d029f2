"""`x[i, 1:n, ...]`: elements and parts of tensors and tuples, as NumPy has them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from legato.arith.expr import const, ge, lt
from legato.arith.prove import provably_different, prove, prove_equal
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.ir.expr import Expr
from legato.ir.types import Dim, FuncType, TensorType, TupleType, scalar_type
from legato.ops._computed import stacked
from legato.script.frame import Frame
from legato.script.values import LONGEST, Value, describe, is_dynamic, is_foreign, plain

__all__ = ["element", "fields"]

_END: Final = 2**31 - 1  # a bound that means "to the end"


def element(frame: Frame, base: Value, index: Value) -> Value:
    """`base[index]`."""
    if is_foreign(index):
        raise frame.wrong(f"{describe(index)} is no index of {describe(base)}")
    if isinstance(base, Expr) and not isinstance(base.ty, TupleType | FuncType):
        return _of_tensor(frame, base, index if isinstance(index, tuple) else (index,))
    if isinstance(base, Expr | tuple | list):
        return _of_tuple(frame, fields(frame, base), index)
    if isinstance(base, str) and not isinstance(index, int | slice):
        raise frame.wrong(f"`{base}` is not defined" if base.isidentifier() else f"{base!r} has no elements")
    if isinstance(base, str | np.ndarray):
        if is_dynamic(index):
            return _of_tensor(frame, frame.expr(base), index if isinstance(index, tuple) else (index,))
        try:
            return base[index]
        except (IndexError, TypeError) as error:
            raise frame.wrong(f"element {index!r} of {describe(base)}: {error}") from error
    raise frame.wrong(f"{describe(base)} has no elements")


def fields(frame: Frame, value: Value, wanted: int | None = None) -> tuple[Value, ...]:
    """The fields of a tuple; `wanted`: how many there are, where its type is not known."""
    if isinstance(value, tuple | list):
        return tuple(value)
    if isinstance(value, Expr) and isinstance(value.ty, TupleType):
        bound = frame.bind("t", value)
        return tuple(frame.builder.get(bound, n) for n in range(len(value.ty.fields)))
    if isinstance(value, Expr) and value.ty is None and wanted is not None:
        bound = frame.bind("t", value)
        return tuple(frame.builder.get(bound, n) for n in range(wanted))
    if isinstance(value, Expr) and isinstance(value.ty, TensorType) and value.ty.rank:
        return _rows(frame, value, value.ty)
    raise frame.wrong(f"{describe(value)} has no fields", "only tuples, and tensors of known length, are taken apart")


def _rows(frame: Frame, value: Expr, ty: TensorType) -> tuple[Value, ...]:
    """The parts of a tensor along its first dim."""
    hint = "loop over range(x.shape[0]) and take x[i]"
    if not str(ty.shape[0]).isdigit():
        raise frame.wrong("the number of parts is not known here", hint, [f"got : {ty}"])
    if int(str(ty.shape[0])) > LONGEST:
        raise frame.unsupported(f"{ty.shape[0]} parts of a tensor, each an expression of its own", hint)
    bound = frame.bind("t", value)
    return tuple(_of_tensor(frame, bound, (n,)) for n in range(int(str(ty.shape[0]))))


def _of_tuple(frame: Frame, parts: tuple[Value, ...], index: Value) -> Value:
    if is_dynamic(index):
        hint = "loop over the tuple itself, or make one tensor of it: relay.stack"
        raise frame.unsupported("the element of a tuple is chosen when the program runs", hint)
    try:
        return parts[index]
    except IndexError as error:
        raise frame.wrong(f"a tuple of {len(parts)} fields has no field {index}") from error
    except TypeError as error:
        raise frame.wrong(f"{describe(index)} is no index of a tuple") from error


# ------------------------------------------------------------------ tensors


def _of_tensor(frame: Frame, base: Expr, index: tuple[Value, ...]) -> Expr:
    ty = frame.tensor_type(base, "an element")
    only = index[0] if len(index) == 1 and isinstance(index[0], Expr) else None
    mask = frame.tensor_type(only, "an index") if only is not None else None
    if only is not None and mask is not None and mask.dtype.is_bool and mask.rank != 1:
        return _masked(frame, base, only, mask)
    index = _filled_out(frame, index, ty)
    plan = _Plan(frame, ty)
    for part in index:
        plan.add(part)
    return plan.build(base)


def _filled_out(frame: Frame, index: tuple[Value, ...], ty: TensorType) -> tuple[Value, ...]:
    """`index` with `...` written out, one entry for each dim and each new one."""
    used = sum(1 for i in index if i is not None and i is not ...)
    dots = sum(1 for i in index if i is ...)
    if used > ty.rank:
        raise frame.wrong(f"{used} indices of a tensor of rank {ty.rank}", details=[f"got : {ty}"])
    if dots > 1:
        raise frame.wrong("an index has one `...` at most")
    rest = (slice(None),) * (ty.rank - used)
    at = next((n for n, i in enumerate(index) if i is ...), len(index))
    return (*index[:at], *rest, *index[at + dots :])


def _places(frame: Frame, mask: Expr, extent: Dim) -> Expr:
    """The subscripts of what is set in a mask of one dim, which has the extent of what it masks."""
    ty = frame.tensor_type(mask, "a mask")
    if provably_different(ty.shape[0], extent):
        raise frame.wrong(f"a mask of {ty.shape[0]} elements for a dim of {extent}")
    fitting = frame.call("reshape", mask, newshape=(extent,), allowzero=True)
    found = frame.bind("found", frame.call("argwhere", fitting, dtype=dt.int64))
    return frame.call("squeeze", found, axis=(1,))


def _masked(frame: Frame, base: Expr, mask: Expr, of: TensorType) -> Expr:
    """The elements, or parts, of `base` for which a mask of its first dims is set."""
    ty = frame.tensor_type(base, "an element")
    first = ty.shape[: of.rank]
    if len(first) < of.rank or not all(map(prove_equal, first, of.shape)):
        hint = "compute it from the tensor, or state the shapes of both"
        raise frame.wrong("the mask has other dims than the tensor", hint, [f"mask   : {of}", f"tensor : {ty}"])
    count = (-1, *ty.shape[of.rank :]) if of.rank else (1, *ty.shape)
    flat, flags = frame.call("reshape", base, newshape=count), frame.call("reshape", mask, newshape=(-1,))
    return _of_tensor(frame, flat, (flags,))


class _Plan:
    """What an index means: a slice of all dims, elements that are computed, dims that go and dims that come."""

    def __init__(self, frame: Frame, ty: TensorType) -> None:
        self.frame, self.ty = frame, ty
        self.axis = 0  # the dim that the next index is of
        self.slices: dict[int, tuple[Any, Any, int]] = {}
        self.taken: dict[int, Expr] = {}
        self.gone: list[int] = []
        self.kept: list[bool] = []  # of the result's dims, in order: whether it is one of the tensor's

    def add(self, part: Value) -> None:
        """Notes one entry of the index."""
        if part is None:
            self.kept.append(False)
            return
        axis, self.axis = self.axis, self.axis + 1
        if isinstance(part, slice):
            self._slice(axis, part)
        elif isinstance(part, Expr):
            self._computed(axis, part)
        elif isinstance(part, Dim) or (isinstance(part, int) and not isinstance(part, bool)):
            self._one(axis, part)
        elif getattr(part, "dtype", None) is not None:
            self._computed(axis, self.frame.expr(part))
        else:
            hint = "whole numbers, slices, None, ... and tensors of integers are"
            raise self.frame.wrong(f"{describe(part)} is no index of a tensor", hint)

    def _slice(self, axis: int, part: slice) -> None:
        self.kept.append(True)
        step = 1 if part.step is None else part.step
        if isinstance(step, Expr):
            hint = "only its bounds may be; relay.strided_slice takes steps that are tensors"
            raise self.frame.unsupported("the step of a slice is computed when the program runs", hint)
        if not isinstance(step, int) or step == 0:
            raise self.frame.wrong(f"a slice has the step {step!r}")
        if part.start is None and part.stop is None and step == 1:
            return
        start = (0 if step > 0 else _END) if part.start is None else part.start
        stop = (_END if step > 0 else -_END) if part.stop is None else part.stop
        self.slices[axis] = (start, stop, step)

    def _one(self, axis: int, part: Any) -> None:
        extent = self.ty.shape[axis]
        if isinstance(part, int) and part < 0:
            part = plain(simplify(extent + part))
        at = part if isinstance(part, Dim) else const(part)
        if prove(ge(at, extent)) or prove(lt(at, 0)):
            raise self.frame.wrong(f"index {part} of a dim of {extent}", details=[f"got : {self.ty}"])
        self.slices[axis] = (part, plain(simplify(at + 1)), 1)
        self.gone.append(axis)

    def _computed(self, axis: int, part: Expr) -> None:
        ty = self.frame.tensor_type(part, "an index")
        if ty.dtype.is_float or (ty.dtype.is_bool and ty.rank != 1):
            hint = "cast it to int32" if ty.dtype.is_float else "one of several dims is the only index"
            raise self.frame.wrong("an index is a tensor of integers, or a mask of one dim", hint, [f"got : {ty}"])
        if self.taken:
            raise self.frame.unsupported("two tensors as indices", "use relay.gather_nd")
        self.taken[axis] = _places(self.frame, part, self.ty.shape[axis]) if ty.dtype.is_bool else part
        self.kept += [True] * ty.rank

    def build(self, base: Expr) -> Expr:
        """The expression."""
        frame = self.frame
        found = base
        if self.slices:
            found = self._sliced(found)
        for axis, index in self.taken.items():
            found = frame.call("take", found, index, axis=axis, mode="wrap")
        if self.gone:
            moved = [self._moved(a) for a in self.gone]
            found = frame.call("squeeze", found, axis=tuple(moved))
        for n, kept in enumerate(self.kept):
            if not kept:
                found = frame.call("expand_dims", found, axis=n)
        return found

    def _sliced(self, base: Expr) -> Expr:
        axes, parts = tuple(self.slices), list(zip(*self.slices.values(), strict=True))
        if not any(isinstance(b, Expr) for part in parts for b in part):
            begin, end, strides = parts
            return self.frame.call("strided_slice", base, begin=begin, end=end, strides=strides, axes=axes)
        vectors = [stacked(self.frame.builder, [self._bound(b) for b in part]) for part in parts]
        cut = self.frame.call("dyn.strided_slice", base, *vectors, axes=axes)
        part: Expr = self.frame.bind("part", cut)  # its extents are dims from here on
        return part

    def _bound(self, value: Value) -> Expr:
        bound = self.frame.expr(value, scalar_type(dt.int64))
        ty = self.frame.tensor_type(bound, "a bound of a slice")
        if ty.rank or not ty.dtype.is_int:
            raise self.frame.wrong("a bound of a slice is an integer", details=[f"got : {ty}"])
        return bound

    def _moved(self, axis: int) -> int:
        """Where dim `axis` is after the elements are taken, whose index has dims of its own."""
        for at, index in self.taken.items():
            ty = index.ty
            if at < axis and isinstance(ty, TensorType):
                return axis + ty.rank - 1
        return axis
