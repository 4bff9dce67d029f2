"""Arguments as libraries hand them over: taken with the values that they have, or refused."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.arrays import viewed
from legato.base.errors import ArtifactError, InterruptError, LegatoError, RunError
from legato.runtime import DimInfo, HostOpInfo, load
from legato.runtime.fill import feeds
from legato.runtime.workspace import MAX_KEPT, TRIM
from tests.runtime.images import executable, functions, program, tensor, twice

torch = pytest.importorskip("torch")
X = np.arange(5, dtype=np.float32)


def message_of(call: Callable[[], object], kind: type[LegatoError] = RunError) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


# ---------------------------------------------------------------------------------------------------- tensors of torch


def negated() -> Any:
    return torch.complex(torch.zeros(5), torch.from_numpy(-X)).conj().imag


def test_a_lazy_negation() -> None:
    assert negated().is_neg()
    np.testing.assert_array_equal(executable()(negated()), X * 3)
    np.testing.assert_array_equal(executable().run({"x": negated()})["y"], X * 3)


def test_views_and_parameters() -> None:
    whole = torch.arange(10, dtype=torch.float32)
    np.testing.assert_array_equal(executable()(whole[::2]), whole[::2].numpy() * 3)
    np.testing.assert_array_equal(executable()(torch.nn.Parameter(whole, requires_grad=False)), whole.numpy() * 3)


NARROW = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")


@pytest.mark.parametrize("name", NARROW)
def test_floats_that_numpy_has_not_are_passed_where_they_lie(name: str) -> None:
    tensor = torch.tensor([1.0, 2.0, 4.0, 0.5]).to(getattr(torch, name))
    array = viewed(tensor, "x")
    assert array is not None
    assert (array.ctypes.data, str(array.dtype)) == (tensor.data_ptr(), name)
    from legato.torch.tensors import as_tensor

    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(n,), {name}]) {{ (%x, cast(%x, dtype="float32")) }}\n'
    exe = legato.compile(legato.parse(text))
    for given in (tensor, torch.stack([tensor, tensor], 1)[:, 0], tensor[:0]):
        same, wide = exe(given)
        np.testing.assert_array_equal(wide, given.float().numpy())
        assert same.dtype == array.dtype
        assert torch.equal(as_tensor(same).float(), given.float())
        assert not same.size or as_tensor(same).data_ptr() == same.ctypes.data


def test_a_tensor_of_bfloat16_that_is_donated_is_written_where_it_lies() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(4,), bfloat16]) { nn.relu(%x) }\n'
    tensor = torch.tensor([-1, 2, -3, 4], dtype=torch.bfloat16)
    result = legato.compile(legato.parse(text), donate=["x"])(tensor)
    assert result.ctypes.data == tensor.data_ptr()
    assert tensor.tolist() == [0, 2, 0, 4]


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e5m2"])
def test_tensors_that_require_gradients(name: str) -> None:
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(4,), {name}]) {{ cast(%x, dtype="float32") }}\n'
    exe = legato.compile(legato.parse(text))
    tensor = torch.ones(4).to(getattr(torch, name)).requires_grad_()
    assert "use tensor.detach()" in message_of(lambda: exe(tensor))
    assert exe(tensor.detach()).tolist() == [1, 1, 1, 1]


def test_tensors_without_data() -> None:
    fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")
    with fake_tensor.FakeTensorMode():
        fake = torch.empty(5)
    exe = executable()
    assert (
        message_of(lambda: exe(fake))
        == 'input "x" is a FakeTensor, which only stands for a tensor: it has no data of its own'
    )
    assert message_of(lambda: exe(torch.empty(5, device="meta"))).startswith(
        'input "x": this torch.Tensor gives no CPU'
    )
    batched = lambda: torch.func.vmap(exe)(torch.ones(3, 5))  # noqa: E731
    assert message_of(batched).startswith('input "x": this torch.Tensor gives no CPU array')


# ---------------------------------------------------------------------------------------------------- other arrays


def test_masked_arrays() -> None:
    masked = np.ma.masked_array(X, X > 2)
    wanted = 'input "x" has masked elements, which an array has not; x.filled(0) gives them values'
    assert message_of(lambda: executable()(masked)) == wanted
    assert message_of(lambda: feeds(functions()["main"], {"x": masked})) == wanted
    assert message_of(lambda: feeds(functions()["main"], [masked])) == wanted
    np.testing.assert_array_equal(executable()(np.ma.masked_array(X)), X * 3)
    out = np.ma.masked_array(np.empty(5, np.float32), X > 2)
    assert message_of(lambda: executable().run({"x": X}, out={"y": out})).startswith('out "y": a masked array\n')


def test_objects_whose_protocol_fails() -> None:
    class Device:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            raise TypeError("cannot convert a device array")

    class Other:
        def __dlpack__(self, **options: object) -> object:
            raise AssertionError("no stream")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    kind = 'input "x": this tests'
    assert message_of(lambda: executable()(Device())) == f"{kind}.Device gives no array: cannot convert a device array"
    assert message_of(lambda: executable()(Other())) == f"{kind}.Other gives no CPU array by DLPack: no stream"


def test_inputs_by_name_want_a_mapping() -> None:
    assert message_of(lambda: executable().run([X])) == (  # type: ignore[arg-type]
        "the inputs: not by name\n  got:    list\n  wanted: a dict\n"
        "  hint: called as a function, it takes them in order"
    )


@pytest.mark.parametrize("nested", [(X,), ((X,),), ((), (X, ()))])
def test_tuples_may_nest_as_the_program_has_them(nested: tuple[object, ...]) -> None:
    np.testing.assert_array_equal(executable()(*nested), X * 3)
    assert message_of(lambda: executable()(*nested, (X,))) == "main: got 2 inputs, wanted 1: x: float32[n]"


# ---------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize("threads", ["2", 2.0, True])
def test_threads_is_a_number(threads: Any) -> None:
    assert message_of(lambda: executable(threads=threads)) == f"threads: got {threads!r}, wanted 1 to 256"


@pytest.mark.parametrize("limit", ["1", -1, 1e9, None])
def test_memory_limit_is_a_number(limit: Any) -> None:
    wanted = f"memory_limit: got {limit!r}, wanted a number of bytes, or 0 for none"
    assert message_of(lambda: executable(memory_limit=limit)) == wanted


@pytest.mark.parametrize("path", [b"model.legato", 3, None, open], ids=str)
def test_load_wants_a_path(path: Any) -> None:
    wanted = f"load: got a {type(path).__name__}, wanted the path of a file"
    assert message_of(lambda: load(path), ArtifactError) == wanted


def test_load_of_odd_names(tmp_path: Path) -> None:
    assert "holds no NUL" in message_of(lambda: load("a\0.legato"), ArtifactError)
    assert "File name too long" in message_of(lambda: load(tmp_path / ("a" * 300)), ArtifactError)
    assert "File name too long" in message_of(lambda: executable().save(tmp_path / ("a" * 300)), ArtifactError)


# ---------------------------------------------------------------------------------------------------- the object


@pytest.mark.parametrize("name", ["main", "by_host"])
def test_an_executable_can_be_pickled(name: str) -> None:
    exe = executable(name, threads=2, memory_limit=1 << 20, scale=2)
    again = pickle.loads(pickle.dumps(exe))
    np.testing.assert_array_equal(again(X), exe(X))
    assert (again.function, again.threads, again._limit, again.program) == (name, 2, 1 << 20, exe.program)


def test_copies_are_the_same_object() -> None:
    exe = executable()
    assert copy.copy(exe) is exe
    assert copy.deepcopy({"model": exe})["model"] is exe


def test_an_executable_can_be_referred_to_weakly() -> None:
    exe = executable()
    reference = weakref.ref(exe)
    assert reference() is exe
    del exe
    gc.collect()
    assert reference() is None


# ---------------------------------------------------------------------------------------------------- memory


def test_only_some_workspaces_are_kept_and_all_can_be_released() -> None:
    calls = 2 * MAX_KEPT
    together = threading.Barrier(calls)

    def meet(info: HostOpInfo, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        together.wait()
        return twice(info, inputs)

    exe = executable("by_host", threads=1, host_ops=meet)
    for _ in range(2):
        with ThreadPoolExecutor(calls) as pool:
            assert all(np.array_equal(y, X * 2) for y in pool.map(exe, [X] * calls))  # type: ignore[arg-type]
        assert len(exe._free) == MAX_KEPT
        exe.release()
        assert exe._free == []


def test_workspaces_that_are_not_used_any_more_are_given_back() -> None:
    info = replace(
        functions()["nest"], workspace=("*", "n", 1 << 20), dims=(DimInfo("n"),), inputs=(tensor("x", "int64", "n"),)
    )
    exe = executable("nest", of=program(functions={"nest": info}))
    shallow, wide = np.array([1, 64]), np.array([1, 64, *range(98)])
    exe(wide)
    exe._free.append(exe._new_workspace())  # as after two calls at once
    assert [w.held for w in exe._free] == [100 << 20, 0]
    for _ in range(2 * TRIM):
        exe(shallow)
    assert [w.held for w in exe._free] == [2 << 20]


# ---------------------------------------------------------------------------------------------------- Ctrl-C


def test_an_interrupt_is_no_exception_that_programs_swallow() -> None:
    def stop(info: object, inputs: object) -> list[np.ndarray]:
        raise KeyboardInterrupt

    assert not issubclass(InterruptError, Exception)
    with pytest.raises(KeyboardInterrupt, match="interrupted by Ctrl-C"):
        executable("by_host", host_ops=stop)(X)


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit])
def test_what_ends_a_program_passes_through(kind: type[BaseException]) -> None:
    def stop(info: object, inputs: object) -> list[np.ndarray]:
        raise kind(3)

    exe = executable("by_host", host_ops=stop, of=program())
    with pytest.raises(kind) as error:
        exe(X)
    assert error.value.args == (3,)
