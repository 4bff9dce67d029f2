"""Packed functions that are declared, in C, and of other libraries."""

from __future__ import annotations

import ctypes
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato import relax, relay
from legato.base.errors import CompileError, PackedError
from legato.interp import evaluate

MODULE = legato.parse("""#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32], %c: int64) {
  let %y = call_pure_packed((exp(%x), (shape[n], %c)), name="scale", shapes=[[n, 4], []], dtypes=[float32, int64]);
  (%y.0 + %x, %y.1)
}""")
TYPE = "fn (Tensor[(n, m), float32], (Shape[(n,)], int64)) -> (Tensor[(n, m), float32], int64)"
X, C = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4), np.int64(5)


def _scale(x: Any, more: Any) -> Any:
    (k,), c = more
    return x * np.float32(k) + np.float32(c), np.int64(x.size)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("packed") / "libpacked.so"
    source = Path(__file__).with_name("packed.c")
    subprocess.run(["cc", "-std=c11", "-O1", "-shared", "-fPIC", "-o", path, source], check=True)
    return ctypes.CDLL(str(path))


def test_c_functions_do_what_python_does(library: ctypes.CDLL, tmp_path: Path) -> None:
    packed = {"scale": legato.packed(library.scale, TYPE, pure=True)}
    exe = legato.compile(MODULE, packed=packed)
    exe.save(tmp_path / "program.legato")
    wanted = evaluate(MODULE, [X, C], packed={"scale": _scale})
    for run in (exe, legato.load(tmp_path / "program.legato", packed=packed)):
        for x in (X, X[:1], X[:0]):
            y, count = run(x, C)
            assert count == x.size
            assert np.allclose(y, np.exp(x) * len(x) + 5 + x)
    assert np.allclose(exe(X, C)[0], wanted[0], rtol=1e-6)
    assert np.allclose(evaluate(MODULE, [X, C], packed=packed)[0], wanted[0])
    assert legato.verify(MODULE, [X, C], packed=packed).holds


def test_a_c_function_that_fails_is_an_error(library: ctypes.CDLL) -> None:
    packed = {"scale": legato.packed(library.fails, TYPE)}
    exe = legato.compile(MODULE, packed=packed)
    out = {t.name: np.full(s, 9, t.dtype) for t, s in zip(exe.outputs, [(3, 4), ()], strict=True)}
    for run in (lambda: exe.run({"x": X, "c": C}, out=out), lambda: evaluate(MODULE, [X, C], packed=packed)):
        with pytest.raises(PackedError, match=r"^packed function 'scale' failed: it returned -3, wanted 0$"):
            run()
    assert all((array == 9).all() for array in out.values())


def test_c_functions_are_declared_and_know_what_they_fill(library: ctypes.CDLL) -> None:
    with pytest.raises(PackedError, match="packed function 'scale': a C function without a type"):
        legato.compile(MODULE, packed={"scale": library.scale})
    module = legato.parse("""#[version = "0.0.5"]
    def @main() { call_packed((), name="f", shapes=[[None]], dtypes=[int8]) }""")
    packed = {"f": legato.packed(library.scale, "fn () -> Tensor[(n,), int8]")}
    for run in (lambda: legato.compile(module, packed=packed), lambda: evaluate(module, packed=packed)):
        with pytest.raises(PackedError, match=r"'f': is a C function, which fills .*: \(\) -> \(int8\[\?\]\)$"):
            run()


DECLARED = [
    "fn (Tensor[(n, m), float32], (Shape[(n,)], int64)) -> (Tensor[(n, m), float32], int32)",
    "fn (Tensor[(n, m), float32], Shape[(n,)], int64) -> (Tensor[(n, m), float32], int64)",
    "fn (Tensor[(n, 5), float32], (Shape[(n,)], int64)) -> (Tensor[(n, 5), float32], int64)",
    "fn (Tensor[(n,), float32], (Shape[(n,)], int64)) -> (Tensor[(n,), float32], int64)",
    "fn (Tensor[(n, m), float32], (Shape[(n,)], int64)) -> Tensor[(n, m), float32]",
]


@pytest.mark.parametrize("ty", DECLARED)
def test_calls_that_cannot_fit_are_told_before_they_run(ty: str) -> None:
    packed = {"scale": legato.packed(_scale, ty)}
    for run in (lambda: legato.compile(MODULE, packed=packed), lambda: evaluate(MODULE, [X, C], packed=packed)):
        with pytest.raises(PackedError) as error:
            run()
        assert "packed function 'scale': is called as (float32[n, 4], ((dim n), int64[])) -> " in str(error.value)


def test_effects_that_are_declared_are_none_of_pure_calls() -> None:
    with pytest.raises(PackedError, match="'scale': is declared to have effects, and the call says that it has none"):
        legato.compile(MODULE, packed={"scale": legato.packed(_scale, TYPE, pure=False)})


@pytest.mark.parametrize(
    ("ty", "message"),
    [
        ("fn (Tensor[(n, n), float32], (Shape[(n,)], int64)) -> (Tensor[(n, n), float32], int64)",
         "argument 0 is float32[3, 4], declared as float32[n, n], where n = 3"),
        ("fn (Tensor[(n, m), float32], (Shape[(m,)], int64)) -> (Tensor[(n, m), float32], int64)",
         "argument 1 is dim 3, declared as dim m, where n = 3, m = 4"),
        ("fn (Tensor[(n, m), float32], (Shape[(n + 1,)], int64)) -> (Tensor[(n, m), float32], int64)",
         "argument 1 is dim 3, declared as dim n + 1, where n = 3, m = 4"),
        ("fn (Tensor[(n, m), float32], (Shape[(n,)], int64)) -> (Tensor[(n + 1, m), float32], int64)",
         "result 0 is float32[3, 4], declared as float32[n + 1, m], where n = 3, m = 4"),
        ("fn (Tensor[(2 * n, m), float32], (Shape[(k,)], int64)) -> (Tensor[(n, m), float32], int64)",
         "argument 0 is float32[3, 4], declared as float32[n*2, m], where m = 4, k = 3, n = 3"),
    ],
)  # fmt: skip
def test_dims_of_a_declared_type_are_checked_in_each_call(ty: str, message: str) -> None:
    packed = {"scale": legato.packed(_scale, ty)}
    exe = legato.compile(MODULE, packed=packed)
    for run in (lambda: exe(X, C), lambda: evaluate(MODULE, [X, C], packed=packed)):
        with pytest.raises(PackedError) as error:
            run()
        assert str(error.value) == f"packed function 'scale': {message}"


@pytest.mark.parametrize(
    "ty", ["int8", "fn (fn () -> int8) -> int8", "fn () -> Shape[(n,)]", "fn (Tensor[(2 * n,), int8]) -> ()"]
)
def test_types_that_no_packed_function_has(ty: str) -> None:
    with pytest.raises(CompileError):
        legato.packed(_scale, ty)


def test_executables_are_pickled_with_their_functions() -> None:
    exe = legato.compile(MODULE, packed={"scale": _scale})
    again = pickle.loads(pickle.dumps(exe))
    assert all(np.array_equal(a, b) for a, b in zip(again(X, C), exe(X, C), strict=True))


def test_torch_sees_tensors_where_they_lie() -> None:
    torch = pytest.importorskip("torch")

    def scale(x: Any, more: Any) -> Any:
        (k,), c = more
        t = torch.from_dlpack(x)
        assert t.data_ptr() == x.ctypes.data
        return t * k + torch.from_dlpack(c), torch.tensor(t.numel())

    exe = legato.compile(MODULE, packed={"scale": scale})
    assert np.allclose(exe(X, C)[0], evaluate(MODULE, [X, C], packed={"scale": _scale})[0])


def test_every_way_to_run_a_module_is_given_them() -> None:
    packed, wanted = {"scale": _scale}, evaluate(MODULE, [X, C], packed={"scale": _scale})[0]
    module = relay.IRModule(MODULE)
    for run in (
        relay.build(module, packed=packed),
        relay.create_executor("debug", module, packed=packed).evaluate(),
        relay.create_executor("vm", module, packed=packed).evaluate(),
    ):
        assert np.allclose(run(X, C)[0], wanted)
    assert np.allclose(relax.VirtualMachine(relax.build(MODULE, packed=packed))["main"](X, C)[0].numpy(), wanted)
