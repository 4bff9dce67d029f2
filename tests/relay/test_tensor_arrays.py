"""The prelude's tensor arrays: by their names, interpreted and compiled, as NumPy has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError
from legato.relay.prelude import Prelude, StaticTensorArrayOps, TensorArrayOps
from legato.runtime.values import Data

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


def random(shape: Any, dtype: str = "float32") -> Array:
    return (8 * RNG.random(shape)).astype(dtype)


def plain(value: Any) -> Any:
    """Lists as lists, tensors as arrays, what was not written as None."""
    if not isinstance(value, Data):
        return np.asarray(value)
    found = []
    while value.constructor.name == "Cons":
        found.append(plain(value.fields[0]))
        value = value.fields[1]
    if value.constructor.name == "Nil":
        return found
    return None if "tensor_nil" in value.constructor.name else np.asarray(value.fields[0])


def check(mod: relay.IRModule, want: Any, *args: Any) -> None:
    """What @main gives, by both executors."""
    for kind in ("debug", "vm"):
        got = plain(relay.create_executor(kind, mod).evaluate()(*args))
        assert isinstance(got, list) == isinstance(want, list)
        pairs = list(zip(got, want, strict=True)) if isinstance(want, list) else [(got, want)]
        for a, b in pairs:
            assert (a is None) == (b is None)
            if b is not None:
                np.testing.assert_array_equal(a, b)
                assert a.dtype == b.dtype


class Names:
    """Names of tensor arrays of a dtype, and of a shape if one is given."""

    def __init__(self, dtype: str, shape: Any = None, batch_dim: int | None = None) -> None:
        self.p, self._of = Prelude(), (dtype,) if shape is None else (dtype, shape, batch_dim)
        self.rank, self.dtype, self.shape = len(shape or ()), dtype, shape
        if shape is not None:
            StaticTensorArrayOps(self.p, dtype, shape, batch_dim).register()

    def __getattr__(self, name: str) -> Any:
        get = self.p.get_global_var if self.shape is None else self.p.get_global_var_static
        return get(name, *self._of)

    def tensor(self, rank: int, shape: Any = None) -> Any:
        if self.shape is None:
            return self.p.get_tensor_ctor(f"tensor{rank}", self.dtype)
        return self.p.get_tensor_ctor_static("tensor_constructor", self.dtype, self.shape if shape is None else shape)

    def filled(self, *values: Any, rank: int = 2) -> Any:
        """A tensor array of these."""
        array = self.tensor_array(relay.const(len(values)))
        for n, value in enumerate(values):
            array = self.tensor_array_write(array, relay.const(n), self.tensor(rank)(value))
        return array

    def main(self, params: Any, body: Any) -> relay.IRModule:
        self.p.mod["main"] = relay.Function(list(params), body)
        return self.p.mod


SCALARS = {"size": "int32", "at": "int32", "low": "int32", "high": "int32"}


def variables(*names: str, dtype: str = "float32") -> Any:
    """Variables for matrices of 3 columns, or for numbers by these names."""
    return [
        relay.var(name, SCALARS[name]) if name in SCALARS else relay.var(name, shape=(relay.Any(), 3), dtype=dtype)
        for name in names
    ]


def places(name: str = "places") -> Any:
    return relay.var(name, shape=(relay.Any(),), dtype="int32")


KINDS = [("float32", None), ("int32", [2, 3])]


@pytest.mark.parametrize(("dtype", "shape"), KINDS)
@pytest.mark.shared(2)
def test_making_reading_writing(dtype: str, shape: Any) -> None:
    n = Names(dtype, shape)
    size, at = variables("size", "at")
    check(n.main([size], n.tensor_array(size)), [None] * 4, 4)
    n = Names(dtype, shape)
    check(n.main([size, at], n.tensor_array_read(n.tensor_array(size), at)), None, 5, 1)
    n = Names(dtype, shape)
    a, b = variables("a", "b", dtype=dtype)
    check(n.main([a, b], n.filled(a, b)), [x := random((2, 3), dtype), y := random((2, 3), dtype)], x, y)


@pytest.mark.parametrize(("dtype", "shape"), KINDS)
@pytest.mark.shared(2)
def test_stacking_and_gathering(dtype: str, shape: Any) -> None:
    (a, b), at = variables("a", "b", dtype=dtype), places()
    x, y = random((2, 3), dtype), random((2, 3), dtype)
    n = Names(dtype, shape)
    check(n.main([a, b], n.tensor_array_stack(n.filled(a, b, a))), np.stack([x, y, x]), x, y)
    n = Names(dtype, shape)
    mod = n.main([a, b, at], n.tensor_array_gather(n.filled(a, b, a), at))
    check(mod, np.stack([y, x, x]), x, y, np.int32([1, 0, 2]))


@pytest.mark.parametrize(("dtype", "shape"), KINDS)
@pytest.mark.shared(2)
def test_one_tensor(dtype: str, shape: Any) -> None:
    v, w, low, high = variables("v", "w", "low", "high", dtype=dtype)
    x = random((2, 3), dtype)
    n = Names(dtype, shape)
    check(n.main([v, low, high], n.tensor_take(n.tensor(2)(v), low, high)), x[1:2], x, 1, 2)
    n = Names(dtype, shape)
    check(n.main([v, w], n.tensor_concatenate(n.tensor(2)(v), n.tensor(2)(w))), np.concatenate([x, x]), x, x)
    n = Names(dtype, shape)
    check(n.main([v], n.tensor_expand_dims(n.tensor(2)(v))), x[None], x)
    n = Names(dtype, shape)
    unstack = n.tensor_array_unstack_tensor2 if shape is None else n.tensor_array_unstack
    check(n.main([v], unstack(v)), list(x), x)
    if shape is not None:
        n = Names(dtype, shape)
        check(n.main([v], n.tensor_get_data(n.tensor(2)(v))), x, x)


@pytest.mark.parametrize(("dtype", "shape"), [("float32", None), ("int32", [relay.Any(), 3])])
def test_concatenating_a_list(dtype: str, shape: Any) -> None:
    n, (a, b) = Names(dtype, shape), variables("a", "b", dtype=dtype)
    x, y = random((2, 3), dtype), random((1, 3), dtype)
    check(n.main([a, b], n.tensor_array_concat(n.filled(a, b))), np.concatenate([x, y]), x, y)


@pytest.mark.parametrize(("dtype", "shape", "indices"), [*((*k, None) for k in KINDS), ("float32", [2, 3], [2])])
def test_scattering(dtype: str, shape: Any, indices: Any) -> None:
    n, (a, b, c, v, w), at = Names(dtype, shape), variables("a", "b", "c", "v", "w", dtype=dtype), places()
    scatter = n.tensor_array_scatter
    if indices is not None:
        ops = StaticTensorArrayOps(n.p, dtype, shape)
        ops.define_tensor_array_scatter(indices, True)
        scatter = n.p.mod.get_global_var(ops.get_name("tensor_array_scatter", {"indices": indices}))
    arrays = [random((2, 3), dtype) for _ in range(5)]
    mod = n.main([a, b, c, at, v, w], scatter(n.filled(a, b, c), at, n.filled(v, w)))
    want = [arrays[4], arrays[1], arrays[3]]
    check(mod, want, *arrays[:3], np.int32([2, 0]), *arrays[3:])


@pytest.mark.parametrize(
    ("dtype", "shape", "split"),
    [("float32", None, None), ("float32", [4, 3], None), ("int32", [relay.Any(), 3], ([4, 3], [2]))],
)
@pytest.mark.shared(3)
def test_splitting(dtype: str, shape: Any, split: Any) -> None:
    n, (a, b, v), lengths = Names(dtype, shape), variables("a", "b", "v", dtype=dtype), places("lengths")
    rows, value = n, n.tensor(2)
    if shape is not None:
        rows = Names(dtype, [relay.Any(), 3])
        rows.p = n.p
        StaticTensorArrayOps(n.p, dtype, rows.shape).register()
    if split is not None:
        StaticTensorArrayOps(n.p, dtype, split[0]).register()
        StaticTensorArrayOps(n.p, dtype, shape).define_tensor_array_split(*split, force_update=True)
        value = n.tensor(2, split[0])
    x, y, z = random((2, 3), dtype), random((2, 3), dtype), random((4, 3), dtype)
    mod = n.main([a, b, v, lengths], n.tensor_array_split(rows.filled(a, b, a), value(v), lengths))
    check(mod, [z[:3], z[3:], x], x, y, z, np.int32([3, 1]))


def test_scalars_and_batches_of_one() -> None:
    n, a, b = Names("float32", []), relay.var("a"), relay.var("b")
    check(n.main([a, b], n.tensor_array_stack(n.filled(a, b))), np.float32([3, 4]), np.float32(3), np.float32(4))
    n, a = Names("float32", [2], 1), relay.var("a")
    assert n.tensor_array_stack.name_hint == "tensor_array_stack_float32_batch1_2"
    check(n.main([a], n.tensor_array_stack(n.filled(a))), np.float32([[1, 2]]), np.float32([1, 2]))


def test_variables_without_annotations_take_any_extent() -> None:
    n, v, w = Names("float32"), relay.var("v"), relay.var("w")
    mod = n.main([v, w], n.tensor_concatenate(n.tensor(1)(v), n.tensor(1)(w)))
    for size in (2, 5):
        x = random(size)
        check(mod, np.concatenate([x, x[1:]]), x, x[1:])


def test_names_are_defined_once_and_when_asked_for() -> None:
    p = Prelude()
    assert not [v for v in p.mod.get_global_vars() if "tensor" in v.name_hint]
    read = p.get_global_var("tensor_array_read", "int8")
    assert (read.name_hint, p.get_type("tensor_t", "int8").name_hint) == ("tensor_array_read_int8", "tensor_int8_t")
    before = p.mod.module
    assert (
        p.get_global_var("tensor_array_read", "int8")
        == read
        == TensorArrayOps(p, "int8").get_global_var("tensor_array_read")
    )
    assert p.mod.module is before
    assert p.get_name_static("tensor_array", "int8", [relay.Any(), 3]) == "tensor_array_int8_any_3"
    assert p.get_name_static("tensor_t", "int8", []) == "static_tensor_int8_scalar_t"
    with pytest.raises(CompileError, match="is no extent"):
        StaticTensorArrayOps(p, "int8", [-1]).register()
    with pytest.raises(CompileError, match="unknown dtype"):
        p.get_global_var("tensor_array_read", "float31")
