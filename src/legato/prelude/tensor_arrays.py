"""Tensor arrays as Relay's prelude had them: lists of tensors, as text, for one dtype (and one shape).

A tensor of any shape is a value of `tensor_D_t`, whose constructors say its rank; one of a given shape is a value of
`static_tensor_D_S_t`. Functions over lists of these have the dtype (and the shape) in their names. Names and types are
the original's; `tensor_array` of a negative number is empty, where that did not end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

__all__ = ["RANKS", "dynamic_definitions", "dynamic_name", "shape_name", "static_definitions", "static_name"]

RANKS: Final = 7  # tensors of ranks 0 to 6
Shape = Sequence[int | None]  # None: an extent that is not known
Definitions = dict[str, str]  # the text of a definition by what it defines


def dynamic_name(canonical: str, dtype: str) -> str:
    """What `canonical` is called for tensors of `dtype` and any shape."""
    return f"tensor_{dtype}_t" if canonical == "tensor_t" else f"{canonical}_{dtype}"


def shape_name(shape: Shape) -> str:
    """A shape in a name: 2_any_3."""
    return "_".join("any" if d is None else str(d) for d in shape)


def static_name(canonical: str, dtype: str, shape: str, batch_dim: int | None = None) -> str:
    """What `canonical` is called for tensors of `dtype` and a shape, which is as `shape_name` has it."""
    shape = shape or "scalar"
    if canonical == "tensor_t":
        return f"static_tensor_{dtype}_{shape}_t"
    if batch_dim == 1 and canonical not in ("tensor_constructor", "tensor_nil"):
        return f"{canonical}_{dtype}_batch1_{shape}"
    return f"{canonical}_{dtype}_{shape}"


def _tensor(dtype: str, shape: Shape) -> str:
    return f"Tensor[({', '.join('?' if d is None else str(d) for d in shape)}), {dtype}]"


def _slice(x: str) -> str:
    """Rows from %lower to below %upper; those beyond the last are the last."""
    return f"take({x}, arange(%lower, %upper, 1, dtype=int32), axis=0)"


def _cases(cases: Iterable[str]) -> str:
    return "{ " + ", ".join(cases) + " }"


def _lists(n: dict[str, str], t: str, indices: str = "Tensor[(?), int32]") -> Definitions:
    """What is the same for both kinds: functions over lists of `t`, by the names in `n`."""
    nil, read, write = n["tensor_nil"], n["tensor_array_read"], n["tensor_array_write"]
    texts = {
        "tensor_array": f"(%n: int32) -> List[{t}] {{ if (%n <= 0) {{ Nil }} else {{ "
        f"Cons({nil}, @{n['tensor_array']}(%n - 1)) }} }}",
        "tensor_array_read": f"(%a: List[{t}], %n: int32) -> {t} {{ @nth(%a, %n) }}",
        "tensor_array_write": f"(%a: List[{t}], %n: int32, %v: {t}) -> List[{t}] {{ @update(%a, %n, %v) }}",
        "tensor_array_scatter_helper": f"(%a: List[{t}], %i: int32, %limit: int32, %indices: {indices}, "
        f"%values: List[{t}]) -> List[{t}] {{ if (%i == %limit) {{ %a }} else {{ "
        f"@{n['tensor_array_scatter_helper']}(@{write}(%a, take(%indices, %i), @{read}(%values, %i)), %i + 1, %limit, "
        f"%indices, %values) }} }}",
        "tensor_array_scatter": f"(%a: List[{t}], %indices: {indices}, %values: List[{t}]) -> List[{t}] {{ "
        f"@{n['tensor_array_scatter_helper']}(%a, 0, take(shape_of(%indices), 0), %indices, %values) }}",
    }
    return {f"@{n[key]}": f"def @{n[key]}{text}" for key, text in texts.items()}


def _gather(n: dict[str, str], t: str, out: str) -> Definitions:
    """The tensors of a list at these places, stacked."""
    helper, name = n["tensor_array_gather_helper"], n["tensor_array_gather"]
    return {
        f"@{helper}": f"def @{helper}(%a: List[{t}], %found: List[{t}], %i: int32, %indices: Tensor[(?), int32]) "
        f"-> {out} {{ if (%i == 0) {{ @{n['tensor_array_stack']}(%found) }} else {{ @{helper}(%a, "
        f"Cons(@{n['tensor_array_read']}(%a, take(%indices, %i - 1)), %found), %i - 1, %indices) }} }}",
        f"@{name}": f"def @{name}(%a: List[{t}], %indices: Tensor[(?), int32]) -> {out} {{ "
        f"@{helper}(%a, Nil, take(shape_of(%indices), 0), %indices) }}",
    }


def _split(n: dict[str, str], value: str, out: str, take: str, write: str, lengths: str) -> Definitions:
    """A tensor in parts of these lengths, written into a list."""
    helper, name = n["ta_split_helper"], n["tensor_array_split"]
    return {
        f"@{helper}": f"def @{helper}(%a: List[{out}], %v: {value}, %offset: int32, %i: int32, %limit: int32, "
        f"%lengths: {lengths}) -> List[{out}] {{ if (%i == %limit) {{ %a }} else {{ "
        f"let %end = %offset + take(%lengths, %i); @{write}(@{helper}(%a, %v, %end, %i + 1, %limit, %lengths), %i, "
        f"@{take}(%v, %offset, %end)) }} }}",
        f"@{name}": f"def @{name}(%a: List[{out}], %v: {value}, %lengths: {lengths}) -> List[{out}] {{ "
        f"@{helper}(%a, %v, 0, 0, take(shape_of(%lengths), 0), %lengths) }}",
    }


def _concat(name: str, nil: str, join: str, t: str) -> Definitions:
    """The tensors of a list behind each other."""
    return {
        f"@{name}": f"def @{name}(%a: List[{t}]) -> {t} {{ match (%a) {{ Nil => {nil}, Cons(%x, Nil) => %x, "
        f"Cons(%x, %rest) => @{join}(%x, @{name}(%rest)) }} }}"
    }


def _unstack(helper: str, name: str, tensor: str, row: str, t: str) -> Definitions:
    """The rows of a tensor as a list."""
    return {
        f"@{helper}": f"def @{helper}(%i: int32, %end: int32, %x: {tensor}) -> List[{t}] {{ if (%i == %end) {{ Nil }} "
        f"else {{ Cons({row}(take(%x, %i, axis=0)), @{helper}(%i + 1, %end, %x)) }} }}",
        f"@{name}": f"def @{name}(%x: {tensor}) -> List[{t}] {{ @{helper}(0, take(shape_of(%x), 0), %x) }}",
    }


class _Names(dict[str, str]):
    """Names by canonical name, made when they are asked for."""

    def __init__(self, dtype: str, shape: str | None = None, batch_dim: int | None = None) -> None:
        super().__init__()
        self._dtype, self._shape, self._batch_dim = dtype, shape, batch_dim

    def __missing__(self, canonical: str) -> str:
        shape, dtype = self._shape, self._dtype
        found = dynamic_name(canonical, dtype) if shape is None else ""
        self[canonical] = found or static_name(canonical, dtype, shape or "", self._batch_dim)
        return self[canonical]


def dynamic_definitions(dtype: str) -> Definitions:
    """Everything for tensors of `dtype` and any shape."""
    n = _Names(dtype)
    t, ranks = n["tensor_t"], [n[f"tensor{k}"] for k in range(RANKS)]
    fields = ", ".join(f"{c}({_tensor(dtype, [None] * k)})" for k, c in enumerate(ranks))
    take = _cases(f"{c}(%x) => {c}({_slice('%x')})" for c in ranks[1:])
    join = _cases(f"({c}(%x), {c}(%y)) => {c}(concatenate((%x, %y), axis=0))" for c in ranks[1:])
    expand = _cases(f"{c}(%x) => {up}(expand_dims(%x, axis=0))" for c, up in pairwise(ranks))
    bodies = {
        "tensor_take": f"(%t: {t}, %lower: int32, %upper: int32) -> {t} {{ match? (%t) {take} }}",
        "tensor_concatenate": f"(%s: {t}, %t: {t}) -> {t} {{ match? ((%s, %t)) {join} }}",
        "tensor_expand_dims": f"(%t: {t}) -> {t} {{ match? (%t) {expand} }}",
        "tensor_array_stack": f"(%a: List[{t}]) -> {t} {{ let %b = @map(@{n['tensor_expand_dims']}, %a); "
        f"@foldl(@{n['tensor_concatenate']}, @hd(%b), @tl(%b)) }}",
    }
    found = {t: f"type {t} {{ {n['tensor_nil']}, {fields} }}"}
    found |= {f"@{n[key]}": f"def @{n[key]}{body}" for key, body in bodies.items()}
    found |= _lists(n, t) | _gather(n, t, t)
    found |= _split(n, t, t, n["tensor_take"], n["tensor_array_write"], "Tensor[(?), int32]")
    found |= _concat(n["tensor_array_concat"], n["tensor_nil"], n["tensor_concatenate"], t)
    for k in range(1, RANKS):
        helper, name = n[f"tensor_array_unstack_tensor{k}_helper"], n[f"tensor_array_unstack_tensor{k}"]
        found |= _unstack(helper, name, _tensor(dtype, [None] * k), ranks[k - 1], t)
    return found


def static_definitions(
    dtype: str,
    shape: Shape,
    batch_dim: int | None = None,
    *,
    indices: Shape | None = None,
    split: tuple[Shape | None, Shape | None] = (None, None),
) -> Definitions:
    """Everything for tensors of `dtype` and one shape, and of what of other shapes these need.

    indices: the shape of the indices of another scatter, which has it in its name. split: the shapes of what split
    takes, values and lengths; None: this shape, and any number.
    """
    own, found = _Static(dtype, shape, batch_dim), Definitions()
    rows, stacked = own.of((None, *shape[1:])), own.of((1 if batch_dim == 1 else None, *shape))
    n, t = own.names, own.type
    for each in (own, rows, stacked, own.of(shape[1:])) if shape else (own, stacked):
        found |= each.definition()
    found |= own.get_data() | own.expand(stacked) | _lists(n, t)
    if indices is not None:
        named = _Names(dtype, f"{shape_name(shape) or 'scalar'}_indices_{shape_name(indices)}", batch_dim)
        named |= {key: n[key] for key in ("tensor_nil", "tensor_array", "tensor_array_read", "tensor_array_write")}
        found |= _lists(named, t, _tensor("int32", indices))
    found |= stacked.join() | own.stack(stacked) | _gather(n, t, stacked.type)
    if shape:
        value = own if split[0] is None else own.of(split[0])
        lengths = _tensor("int32", [None] if split[1] is None else split[1])
        found |= (
            value.definition() | own.take() | value.take() | own.join() | rows.join() | _lists(rows.names, rows.type)
        )
        write = rows.names["tensor_array_write"]
        found |= _split(n, value.type, rows.type, value.names["tensor_take"], write, lengths)
        found |= _concat(
            n["tensor_array_concat"], rows.names["tensor_nil"], rows.names["tensor_concatenate"], rows.type
        )
        row = own.of(shape[1:])
        helper, name = n["tensor_array_unstack_helper"], n["tensor_array_unstack"]
        found |= _unstack(helper, name, own.tensor, row.names["tensor_constructor"], row.type)
    return found


class _Static:
    """Definitions for one shape."""

    def __init__(self, dtype: str, shape: Shape, batch_dim: int | None) -> None:
        self.dtype, self.shape, self.batch_dim = dtype, tuple(shape), batch_dim
        self.names = _Names(dtype, shape_name(shape), batch_dim)
        self.type, self.make = self.names["tensor_t"], self.names["tensor_constructor"]
        self.tensor = _tensor(dtype, shape)

    def of(self, shape: Shape) -> _Static:
        """The same for another shape."""
        return _Static(self.dtype, shape, self.batch_dim)

    def definition(self) -> Definitions:
        """The data type."""
        return {self.type: f"type {self.type} {{ {self.names['tensor_nil']}, {self.make}({self.tensor}) }}"}

    def _function(self, key: str, text: str) -> Definitions:
        name = self.names[key]
        return {f"@{name}": f"def @{name}{text}"}

    def get_data(self) -> Definitions:
        """The tensor in a value."""
        text = f"(%t: {self.type}) -> {self.tensor} {{ match? (%t) {{ {self.make}(%x) => %x }} }}"
        return self._function("tensor_get_data", text)

    def take(self) -> Definitions:
        """Some rows."""
        rows = self.of((None, *self.shape[1:]))
        body = f"match? (%t) {{ {self.make}(%x) => {rows.make}({_slice('%x')}) }}"
        text = f"(%t: {self.type}, %lower: int32, %upper: int32) -> {rows.type} {{ {body} }}"
        return rows.definition() | self._function("tensor_take", text)

    def join(self) -> Definitions:
        """Two tensors behind each other."""
        rows = self.of((None, *self.shape[1:]))
        case = f"({self.make}(%x), {self.make}(%y)) => {rows.make}(concatenate((%x, %y), axis=0))"
        text = f"(%s: {self.type}, %t: {self.type}) -> {rows.type} {{ match? ((%s, %t)) {{ {case} }} }}"
        return rows.definition() | self._function("tensor_concatenate", text)

    def expand(self, stacked: _Static) -> Definitions:
        """A tensor as the only row of one."""
        body = f"match? (%t) {{ {self.make}(%x) => {stacked.make}(expand_dims(%x, axis=0)) }}"
        return self._function("tensor_expand_dims", f"(%t: {self.type}) -> {stacked.type} {{ {body} }}")

    def stack(self, stacked: _Static) -> Definitions:
        """The tensors of a list as rows of one; with a batch of 1, the first."""
        join = f"@foldl(@{stacked.names['tensor_concatenate']}, @hd(%b), @tl(%b))"
        body = f"let %b = @map(@{self.names['tensor_expand_dims']}, %a); {'@hd(%b)' if self.batch_dim == 1 else join}"
        return self._function("tensor_array_stack", f"(%a: List[{self.type}]) -> {stacked.type} {{ {body} }}")
