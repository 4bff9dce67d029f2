"""Calls: what goes in, what comes out, what is refused and how."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import legato.base.target
from legato.base.errors import InternalError, PlatformError, RunError
from legato.base.target import cpu_flags
from legato.runtime import Constraint, DimInfo, Executable, FunctionInfo, HostOpInfo, Program, constant_offsets
from tests.runtime.images import executable, function, image, program, tensor

X = np.arange(5, dtype=np.float32)


def message_of(call: object, *args: object, **kwargs: object) -> str:
    with pytest.raises(RunError) as error:
        call(*args, **kwargs)  # type: ignore[operator]
    return str(error.value)


def passing(inputs: list[object], dims: list[DimInfo | str], **more: object) -> Executable:
    """A program of a given signature; what it computes does not matter: it is never reached."""
    info = function("nonsense", inputs, [tensor("y", "float32", 1)], dims, **more)  # type: ignore[arg-type]
    return executable(of=program(functions={"main": info}))


# ---------------------------------------------------------------------------------------------------- calls


def test_call() -> None:
    exe = executable(scale=3)
    y = exe(X)
    assert isinstance(y, np.ndarray)
    np.testing.assert_array_equal(y, X * 3)
    assert (y.dtype, y.flags.owndata) == (np.float32, True)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000])
def test_any_size(n: int) -> None:
    x = np.random.default_rng(n).random(n, np.float32)
    np.testing.assert_array_equal(executable()(x), x * np.float32(3))


def test_run_by_name() -> None:
    result = executable().run({"x": X})
    assert list(result) == ["y"]
    np.testing.assert_array_equal(result["y"], X * 3)


def test_out() -> None:
    exe, out = executable(), np.zeros(5, np.float32)
    assert exe.run({"x": X}, out={"y": out})["y"] is out
    np.testing.assert_array_equal(out, X * 3)


def test_relocated_table() -> None:
    exe = executable("table")
    assert [int(exe(np.array([i]))[0]) for i in (0, 1)] == [2222, 1111]  # type: ignore[index]


def test_nested_results() -> None:
    x, outs = tensor("x", "float32", "n"), [tensor(name, "float32", "n") for name in "abc"]
    info = function("scale", [x], outs[:1], ["n"])
    info = FunctionInfo(
        info.offset, info.inputs, tuple(outs), (2, (0, 1)), info.dims,
        (("input", 0), ("output", 1), ("dim", "n")),
    )  # fmt: skip
    c, (_, b) = executable(of=program(functions={"main": info}))(X)  # type: ignore[misc]
    np.testing.assert_array_equal(b, X * 3)
    assert c.shape == (5,)


def test_facts() -> None:
    exe = executable("row_sum", threads=2)
    assert [str(t) for t in exe.inputs] == ["x: float32[n, m]"]
    assert [str(t) for t in exe.outputs] == ["y: float32[n]"]
    assert (exe.target, exe.threads, dict(exe.stats)) == ("x86-64-v2", 2, {"kernels": 6})
    assert int(exe.peak_memory) == 0
    assert exe.module_after("fuse") == "fused"
    assert message_of(exe.module_after, "lower") == "the program after 'lower' was not kept; kept: fuse"
    assert repr(exe) == "<executable row_sum(x: float32[n, m] -> y: float32[n]) for x86-64-v2, 2 threads>"
    assert exe.entry("main").with_threads(1).threads == 1
    assert message_of(exe.entry, "f").startswith("the program has no function 'f'; it has main, row_sum")


def test_constants_are_aligned() -> None:
    constants = [("a", np.zeros(3, np.int8)), ("b", np.zeros(0)), ("c", np.zeros(65, np.uint8)), ("d", np.zeros(1))]
    assert constant_offsets(constants) == {"a": 0, "b": 64, "c": 64, "d": 192}


def test_memory_is_given_back() -> None:
    exe = executable("nest")
    exe(np.array([10, 1 << 20]))
    kept = [weakref.ref(exe._free[0]), weakref.ref(exe._code), weakref.ref(exe._parts.owner)]
    gc.disable()  # no cycle may keep them
    try:
        del exe
        assert [ref() for ref in kept] == [None] * 3
    finally:
        gc.enable()


# ---------------------------------------------------------------------------------------------------- inputs


def test_copies_where_memory_is_not_plain() -> None:
    exe, wide = executable(), np.arange(10, dtype=np.float32)
    np.testing.assert_array_equal(exe(wide[::2]), wide[::2] * 3)
    np.testing.assert_array_equal(exe(wide[::-1]), wide[::-1] * 3)
    np.testing.assert_array_equal(exe(wide.astype(">f4")), wide * 3)
    packed = np.zeros(41, np.uint8)[1:].view(np.float32)
    packed[:] = wide
    assert not packed.flags.aligned
    np.testing.assert_array_equal(exe(packed), wide * 3)


def test_read_only_input() -> None:
    x = X.copy()
    x.flags.writeable = False
    np.testing.assert_array_equal(executable()(x), X * 3)


def test_torch_tensor(torch: Any) -> None:
    exe = executable()
    np.testing.assert_array_equal(exe(torch.arange(5, dtype=torch.float32)), X * 3)
    text = message_of(exe, torch.ones(5, requires_grad=True))
    assert text.startswith('input "x": this torch.Tensor gives no CPU array by DLPack: ')


def test_array_protocol() -> None:
    class Holder:
        def __init__(self) -> None:
            self.__array_interface__ = X.__array_interface__

    np.testing.assert_array_equal(executable()(Holder()), X * 3)


def test_bfloat16_passes_through() -> None:
    info = function("nonsense", [tensor("x", "bfloat16", "n")], [tensor("y", "bfloat16", "n")], ["n"])
    exe = executable(of=program(functions={"main": info}))
    with pytest.raises(InternalError, match="native code returned the unknown status 77"):
        exe(np.zeros(3, ml_dtypes.bfloat16))


def test_not_an_array() -> None:
    assert message_of(executable(), [1.0, 2.0]) == (
        'input "x": not an array\n'
        "  got:    list\n"
        "  wanted: a NumPy array or anything with __dlpack__\n"
        "  hint: numpy.asarray(x, dtype=…)"
    )


def test_wrong_dtype() -> None:
    assert message_of(executable(), np.zeros((2, 3))) == (
        'input "x": wrong dtype\n'
        "  got:    float64[2, 3]\n"
        "  wanted: float32[n]\n"
        "  hint: x.astype('float32') converts it"
    )


def test_wrong_rank() -> None:
    image_batch = passing([tensor("x", "float32", "n", 3, "h")], ["n", "h"])
    assert message_of(image_batch, np.zeros((3, 8), np.float32)) == (
        'input "x": 2 dimensions instead of 3\n'
        "  got:    float32[3, 8]\n"
        "  wanted: float32[n, 3, h]\n"
        "  hint: x[None] puts a dimension of size 1 in front"
    )
    assert message_of(image_batch, np.zeros((2, 1, 3, 8), np.float32)).endswith(
        "hint: x.squeeze(1) removes a dimension of size 1"
    )
    assert "hint" not in message_of(image_batch, np.float32(1))


def test_wrong_fixed_size() -> None:
    exe = passing([tensor("x", "float32", "n", 3)], ["n"])
    assert message_of(exe, np.zeros((2, 4), np.float32)) == (
        'input "x": wrong size of dimension 1\n  got:    float32[2, 4]\n  wanted: float32[n, 3]'
    )


def test_dims_that_disagree() -> None:
    exe = passing([tensor("x", "float32", "n", 3), tensor("ids", "int64", ("+", ("*", 2, "n"), 1))], ["n"])
    assert message_of(exe, np.zeros((2, 3), np.float32), np.zeros(4, np.int64)) == (
        'input "ids": wrong size of dimension 0\n'
        "  got:    int64[4]\n"
        '  wanted: int64[2*n + 1] where n = 2 (dimension 0 of input "x")'
    )


def test_dim_out_of_range() -> None:
    exe = passing([tensor("x", "float32", "n")], [DimInfo("n", 1, 8)])
    assert message_of(exe, np.zeros(9, np.float32)) == (
        'input "x": dimension 0 is out of range\n  got:    9\n  wanted: 1 <= n <= 8'
    )
    assert "wanted: 1 <= n <= 8" in message_of(exe, np.zeros(0, np.float32))


def test_constraint() -> None:
    constraint = Constraint(("%", "n", 4), 0, "reshape of %3")
    exe = passing([tensor("x", "float32", "n")], ["n"], constraints=(constraint,))
    assert message_of(exe, np.zeros(6, np.float32)) == (
        "reshape of %3: the sizes do not fit\n  got:    2 and 0\n"
        '  wanted: n % 4 = 0, where n = 6 (dimension 0 of input "x")'
    )


def test_wrong_number_of_inputs() -> None:
    exe = passing([tensor("x", "float32", "n"), tensor("y", "int8")], ["n"])
    assert message_of(exe, X) == "main: got 1 inputs, wanted 2: x: float32[n], y: int8[]"


def test_wrong_names() -> None:
    exe = passing([tensor("image", "float32", "n"), tensor("mask", "int8")], ["n"])
    assert message_of(exe.run, {"imgae": X, "mask": X}) == (
        "no input is called 'imgae'; there are image: float32[n], mask: int8[]\n  hint: did you mean 'image'?"
    )
    assert message_of(exe.run, {"mask": X}) == "missing inputs: image: float32[n]"
    assert message_of(executable().run, {"x": X}, out={"z": X}) == ("no output is called 'z'; there are y: float32[n]")


def test_impossible_output() -> None:
    info = function("scale", [tensor("x", "float32", "n")], [tensor("y", "float32", ("-", "n", 3))], ["n"])
    exe = executable(of=program(functions={"main": info}))
    assert message_of(exe, X[:1]) == (
        'output "y" would have the shape (-2,): float32[n - 3] where n = 1 (dimension 0 of input "x")'
    )
    info = function("scale", [tensor("x", "int8", "n")], [tensor("y", "float32", ("*", "n", 2**50))], ["n"])
    exe = executable(of=program(functions={"main": info}))
    assert message_of(exe, np.zeros(1, np.int8)) == (
        'output "y" would have the shape (1125899906842624,): more than 70368744177664 bytes: '
        'float32[n*1125899906842624] where n = 1 (dimension 0 of input "x")'
    )
    info = function("scale", [tensor("x", "int8", "n")], [tensor("y", "float32", ("*", "n", 2**43))], ["n"])
    exe = executable(of=program(functions={"main": info}))
    assert message_of(exe, np.zeros(1, np.int8)) == "out of memory: no room for an output float32[8796093022208]"


# ---------------------------------------------------------------------------------------------------- out


def test_out_of_another_shape() -> None:
    assert message_of(executable().run, {"x": X}, out={"y": np.zeros(4, np.float32)}) == (
        'out "y": wrong shape or dtype\n  got:    float32[4]\n  wanted: float32[5]'
    )
    assert "got:    float64[5]" in message_of(executable().run, {"x": X}, out={"y": np.zeros(5)})


def test_out_that_cannot_be_written() -> None:
    out = np.zeros(5, np.float32)
    out.flags.writeable = False
    assert message_of(executable().run, {"x": X}, out={"y": out}) == (
        'out "y": not writable\n  got:    a read-only array\n  wanted: an array to write into'
    )
    assert message_of(executable().run, {"x": X}, out={"y": np.zeros(10, np.float32)[::2]}) == (
        'out "y": not contiguous\n  got:    strides of (8,) bytes\n  wanted: float32[5] in C order, aligned'
    )
    assert message_of(executable().run, {"x": X}, out={"y": [0] * 5}) == (
        'out "y": not a NumPy array\n  got:    list\n  wanted: float32[5]'
    )


def test_out_that_overlaps() -> None:
    memory = np.zeros(9, np.float32)
    assert message_of(executable().run, {"x": memory[:5]}, out={"y": memory[4:]}) == (
        'out "y" shares memory with input "x"\n'
        "  hint: inputs are still read while outputs are written; give an array of its own"
    )
    info = function("scale", [tensor("x", "float32", 5)], [tensor(n, "float32", 5) for n in "ab"])
    exe = executable(of=program(functions={"main": info}))
    text = message_of(exe.run, {"x": X}, out={"a": memory[:5], "b": memory[2:7]})
    assert text.startswith('out "b" shares memory with out "a"\n')


# ---------------------------------------------------------------------------------------------------- failures


def test_failed_check() -> None:
    exe = executable("check")
    assert message_of(exe, -X - 1) == "x is negative at index 0"
    np.testing.assert_array_equal(exe(X), X)


def test_number_of_threads() -> None:
    assert message_of(executable, threads=257) == "threads: got 257, wanted 1 to 256"
    assert message_of(executable, threads=-1) == "threads: got -1, wanted 1 to 256"


def test_operator_run_by_its_reference() -> None:
    np.testing.assert_array_equal(executable("by_host")(X), X * 2)


def test_operator_that_fails() -> None:
    def fail(info: HostOpInfo, inputs: object) -> list[np.ndarray]:
        raise ValueError("no convergence")

    exe = executable("by_host", host_ops=fail)
    with pytest.raises(RunError, match=r"^operator twice failed: ValueError: no convergence$") as error:
        exe(X)
    assert isinstance(error.value.__cause__, ValueError)
    exe = executable("by_host", host_ops=lambda info, inputs: [inputs[0].astype("f8")])
    assert message_of(exe, X) == "operator twice failed: gave float64[5]; its type says float32[5]"
    exe = executable("by_host", host_ops=lambda info, inputs: [])
    assert message_of(exe, X) == "operator twice failed: gave 0 results; its type has 1"


def test_operator_whose_inputs_are_written() -> None:
    def write(info: HostOpInfo, inputs: list[np.ndarray]) -> list[np.ndarray]:
        inputs[0][0] = 7
        return inputs

    assert message_of(executable("by_host", host_ops=write), X) == (  # type: ignore[arg-type]
        "operator twice failed: ValueError: assignment destination is read-only"
    )


def test_operator_without_its_reference() -> None:
    assert message_of(executable("by_host", host_ops=None), X) == (
        "operator twice failed: it has no native code and is run by its reference, which was not given\n"
        "  hint: load the artifact with legato.load, in an installation that has the compiler"
    )


def test_a_call_within_a_call() -> None:
    inner = executable(scale=2)

    def run(info: HostOpInfo, inputs: list[np.ndarray]) -> list[np.ndarray]:
        return [inner(inputs[0])]  # type: ignore[list-item]

    np.testing.assert_array_equal(executable("by_host", host_ops=run)(X), X * 2)  # type: ignore[arg-type]


def test_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legato.base.target, "cpu_flags", lambda: cpu_flags() - {"avx512f"})
    exe = executable(of=program(target="x86-64-v4"))  # made, looked at and saved anywhere
    with pytest.raises(PlatformError, match=r"^compiled for x86-64-v4, but this CPU lacks .*avx512f"):
        exe(X)


def test_malformed_image() -> None:
    made = image()
    with pytest.raises(InternalError, match="the code image or its relocations are malformed"):
        Executable.from_parts(program(), made.data, made.code_size, [len(made.data)], [])


def test_program_without_inputs() -> None:
    bare = Program("x86-64-v2", {"main": function("nonsense", [], [])})
    made = image()
    exe = Executable.from_parts(bare, made.data, made.code_size, made.relocations, [])
    assert message_of(exe, X) == "main: got 1 inputs, wanted 0: nothing"
    with pytest.raises(InternalError):
        exe()
