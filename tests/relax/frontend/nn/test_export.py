"""What a spec says is what functions of the program take, and what they give is what methods give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato import relax
from legato.base.errors import CompileError, LegatoError, RunError, TypeCheckError, UnsupportedError
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.expr import Function
from legato.relax.frontend import nn
from legato.script import parse, show
from tests.relax.frontend.nn.traced import values

T = nn.spec.Tensor


class Perceptron(nn.Module):
    def __init__(self) -> None:
        self.fc1 = nn.Linear(6, 4)
        self.fc2 = nn.Linear(4, 2, bias=False)

    def main(self, x: nn.Tensor) -> nn.Tensor:
        return self.fc2(nn.op.relu(self.fc1(x)))

    def parts(self, pair: Any, rows: Any, scale: float = 2.0) -> Any:
        a, (b, c) = pair
        return [self.fc1(a) * scale, (b, nn.op.zeros([rows, "2 * rows"])), c + 1]


ROWS = {"x": T(["n", 6], "float32")}
PAIR = {"pair": (T(["n", 6], "float32"), [T([], "int32"), T(["rows - 1"], "float32")]), "rows": int}
WEIGHTS = values(4, 6), values(4), values(2, 4)


def _wanted(x: Any) -> Any:
    return np.maximum(x @ WEIGHTS[0].T + WEIGHTS[1], 0) @ WEIGHTS[2].T


def test_a_program_is_that_of_its_script() -> None:
    mod, params = Perceptron().export_tvm({"main": ROWS})
    assert [name for name, _ in params] == ["fc1.weight", "fc1.bias", "fc2.weight"]
    assert alpha_equal(mod, parse("""
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 6), "float32"), fc1_weight: R.Tensor((4, 6), "float32"),
        fc1_bias: R.Tensor((4,), "float32"), fc2_weight: R.Tensor((2, 4), "float32"),
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            permute_dims = R.permute_dims(fc1_weight)
            matmul = R.matmul(x, permute_dims)
            add = R.add(matmul, fc1_bias)
            relu = R.nn.relu(add)
            permute_dims1 = R.permute_dims(fc2_weight)
            matmul1 = R.matmul(relu, permute_dims1)
            R.output(matmul1)
        return matmul1
"""))  # fmt: skip
    assert alpha_equal(mod, parse(show(mod)))


@pytest.mark.parametrize("mode", ["plain", "packed"])
def test_parameters_follow_the_inputs(mode: str) -> None:
    mod, _ = Perceptron().export_tvm({"main": {**ROWS, "$": {"param_mode": mode}}, "parts": PAIR})
    vm = relax.VirtualMachine(relax.build(mod), relax.cpu())
    for n in (1, 5):
        x = values(n, 6)
        np.testing.assert_allclose(vm["main"](x, *WEIGHTS), _wanted(x), rtol=1e-4, atol=1e-5)
    a, (b, zeros), c = vm["parts"]((x, [np.int32(3), values(3)]), 4, *WEIGHTS)
    np.testing.assert_allclose(a, 2 * (x @ WEIGHTS[0].T + WEIGHTS[1]), rtol=1e-4, atol=1e-5)
    assert (int(b), zeros.shape, c.shape) == (3, (4, 8), (3,))
    with pytest.raises(RunError, match="rows"):
        vm["parts"]((x, [np.int32(3), values(3)]), 7, *WEIGHTS)


def test_parameters_that_are_bound() -> None:
    mod, params = Perceptron().export_tvm({"main": ROWS})
    named = {name.replace(".", "_"): w for (name, _), w in zip(params, WEIGHTS, strict=True)}
    x = values(3, 6)
    np.testing.assert_allclose(relax.build(mod, params=named)["main"](x), _wanted(x), rtol=1e-4, atol=1e-5)


def test_a_parameter_of_two_names_is_one() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.table = nn.Embedding("v", 3)
            self.out = nn.Linear(3, "v", bias=False)
            self.out.weight = self.table.weight

        def main(self, x: nn.Tensor) -> nn.Tensor:
            return self.out(self.table(x))

    mod, params = Tied().export_tvm({"main": {"x": T(["n"], "int32")}})
    assert [name for name, _ in params] == ["table.weight"]
    w = values(5, 3)
    np.testing.assert_allclose(legato.compile(mod)(np.array([4, 0], np.int32), w), w[[4, 0]] @ w.T, rtol=1e-5)


class Rows(nn.Module):
    def __init__(self) -> None:
        self.cache = nn.KVCache(16, [2])
        self.w = nn.Parameter([2])

    def step(self, x: nn.Tensor, total: Any) -> Any:
        self.cache.append(x * self.w)
        return nn.op.sum(self.cache.view(total), 0)

    def plain(self, x: nn.Tensor) -> Any:
        return x + 1


STEP = {"step": {"x": T(["n", 2], "float32"), "total": int}}


@pytest.mark.parametrize("mode", ["plain", "packed"])
def test_state_goes_through_methods(mode: str) -> None:
    options = {"param_mode": mode, "effect_mode": mode}
    spec = {"step": {**STEP["step"], "$": options}, "plain": {"x": T([2], "float32"), "$": {"effect_mode": "none"}}}
    mod, _ = Rows().export_tvm(spec)
    vm = relax.VirtualMachine(relax.build(mod), relax.cpu())
    (state,) = vm["_initialize_effect"]()
    w, rows = values(2), [values(1, 2), values(3, 2)]
    pack: Callable[[Any], Any] = (lambda v: v) if mode == "plain" else lambda v: (v,)
    for count, x in zip((1, 4), rows, strict=True):
        wanted = evaluate(mod, [x, np.int64(count), pack(state), pack(w)], "step")
        found, (state,) = vm["step"](x, count, state, w)
        np.testing.assert_allclose(found, wanted[0], rtol=1e-5)
        np.testing.assert_array_equal(state, wanted[1][0])
    np.testing.assert_allclose(state, np.concatenate(rows) * w, rtol=1e-6)
    with pytest.raises(RunError, match="wanted total"):
        vm["step"](x, 5, state, w)
    np.testing.assert_array_equal(vm["plain"](w, w), w + 1)


def test_compiled_models() -> None:
    torch = pytest.importorskip("torch")
    model = Rows()
    found = model.jit(STEP)
    with pytest.raises(RunError, match="parameters w have no data"):
        found["step"](torch.ones(1, 2), 1)
    model.w.data = np.array([1, 2], np.float32)
    for _ in range(2):
        assert found["step"](torch.ones(1, 2), 1).tolist() == [1, 2]
        assert found["step"](torch.ones(3, 2), 4).tolist() == [4, 8]
        found.reset()
    numbers = model.jit(STEP, out_format="numpy")
    assert isinstance(numbers["step"](np.ones((1, 2), np.float32), 1), np.ndarray)
    for act, kind, message in (
        (lambda: found["none"], RunError, "no method 'none'; it has step"),
        (lambda: model.jit(STEP, out_format="x"), CompileError, "no out_format 'x'"),
        (lambda: model.jit(STEP, "cuda"), CompileError, "no device 'cuda'"),
    ):
        with pytest.raises(kind, match=message):
            act()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_tensors_of_torch_go_in_and_come_out(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    layer = nn.Linear(2, 3, dtype=dtype)
    reference = torch.nn.Linear(2, 3, dtype=kind)
    layer.load_state_dict(reference.state_dict())
    x = torch.arange(8, dtype=kind).reshape(2, 4).T  # rows do not lie one behind the other
    found = layer.jit({"forward": {"x": T(["n", 2], dtype)}})["forward"](x)
    assert found.dtype == kind
    torch.testing.assert_close(found, reference(x).detach(), rtol=2e-2, atol=2e-2)


class Outside(nn.Module):
    def __init__(self) -> None:
        self.cache = nn.KVCache(1, [2])

    def main(self, x: nn.Tensor, count: Any) -> Any:
        scaled = nn.op.extern("my.scale", [x, count, 2.5], nn.Tensor.placeholder(x.shape, "float32"))
        return scaled, nn.op.extern("my.sum", x, [nn.Tensor.placeholder([1], "float32")])

    def loud(self, x: nn.Tensor) -> Any:
        self.cache.append(x)
        nn.op.print_(x)
        nn.op.debug_func("my.log", x + 1, x.shape[0], True)
        return x * 2


def test_functions_outside_of_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    def scale(x: Any, count: Any, factor: Any, out: Any) -> None:
        out[...] = x * count[0] * factor

    seen: list[Any] = []
    packed = {
        "my.scale": scale,
        "my.sum": lambda x, out: out.fill(x.sum()),
        "my.log": lambda x, rows, flag: seen.append((x.tolist(), rows, bool(flag))),
    }
    x = np.array([[1, 2], [3, 4]], np.float32)
    rows = {"x": T(["n", 2], "float32")}
    quiet, _ = Outside().export_tvm({"main": {**rows, "count": int, "$": {"effect_mode": "none"}}})
    for scaled, (total,) in (
        relax.build(quiet, packed=packed)["main"](x, 3), evaluate(quiet, [x, np.int64(3)], packed=packed)
    ):  # fmt: skip
        np.testing.assert_array_equal(scaled, x * 7.5)
        assert total.tolist() == [10]
    found = Outside().jit({"loud": rows}, out_format="numpy", debug=True, packed=packed)["loud"](x)
    np.testing.assert_array_equal(found, x * 2)
    assert capsys.readouterr().out == "[[1. 2.]\n [3. 4.]]\n"
    assert seen == [((x + 1).tolist(), (2,), True)]


class Odd(nn.Module):
    """What methods should not do."""

    def __init__(self) -> None:
        self.linears = [nn.Linear(6, 6)]
        self.fc = nn.Linear(6, 6)
        self.cache = nn.KVCache(1, [6])

    def main(self, x: nn.Tensor) -> nn.Tensor:
        return self.fc(x)

    def unseen(self, x: nn.Tensor) -> nn.Tensor:
        return self.linears[0](x)

    def appending(self, x: nn.Tensor) -> nn.Tensor:
        self.cache.append(nn.op.zeros([1, 5]))
        return x

    def any_of(self, *args: nn.Tensor) -> None: ...


class Inside(nn.Module):
    def __init__(self) -> None:
        self.own = self

    def main(self, x: nn.Tensor) -> nn.Tensor:
        return x


def _odd(spec: Any) -> Callable[[], Any]:
    return lambda: Odd().export_tvm(spec)


NO_PARAMS, NO_EFFECTS = {"param_mode": "none"}, {"effect_mode": "none"}
WRONG: list[tuple[Callable[[], Any], type[LegatoError], str]] = [
    (_odd({}), TypeCheckError, "a spec of {}"),
    (_odd({"none": ROWS}), TypeCheckError, "Odd has no method none"),
    (_odd({"main": 1}), TypeCheckError, "the spec of main is a int"),
    (_odd({"main": {}}), TypeCheckError, "main takes x; its spec tells $"),
    (_odd({"main": {**ROWS, "y": int}}), TypeCheckError, "main takes x; its spec tells x, y"),
    (_odd({"main": {"x": "float32"}}), TypeCheckError, "argument x: 'float32' is no spec"),
    (_odd({"main": {"x": [T([1], "int8"), 3]}}), TypeCheckError, "argument x_1: 3 is no spec"),
    (_odd({"main": {**ROWS, "$": {"mode": "plain"}}}), TypeCheckError, r'"\$" in the spec of main'),
    (_odd({"main": {**ROWS, "$": {"param_mode": "x"}}}), TypeCheckError, "param_mode is plain or packed or none"),
    (_odd({"main": {"x": T(["n", 7], "float32")}}), TypeCheckError, "matmul"),
    (_odd({"main": {"x": T(["n", 6], "float64")}}), TypeCheckError, "float"),
    (_odd({"main": {**ROWS, "$": NO_PARAMS}}), TypeCheckError, "is no parameter of the model"),
    (_odd({"unseen": ROWS}), TypeCheckError, "is no parameter of the model"),
    (_odd({"appending": ROWS}), TypeCheckError, r"is appended to rows"),
    (_odd({"appending": {**ROWS, "$": NO_EFFECTS}}), CompileError, "a cache outside of a method"),
    (lambda: Inside().export_tvm({"main": ROWS}), CompileError, "own is a module inside of itself"),
    (lambda: Odd().export_tvm({"main": ROWS}, allow_extern=True), UnsupportedError, "hold no functions from outside"),
    (lambda: T("n", "float32"), TypeCheckError, "a shape is a list of dims, got 'n'"),
    (lambda: T(["n / 2"], "float32"), TypeCheckError, "'n / 2' is no dim"),
    (lambda: T(["1 // 0"], "float32"), TypeCheckError, "is no dim"),
    (lambda: T(["9 - 10"], "float32"), TypeCheckError, "no dim"),
    (lambda: T([True], "float32"), TypeCheckError, "True is no dim"),
    (lambda: T([1.5], "float32"), TypeCheckError, "1.5 is no dim"),
    (lambda: T(["(" * 300], "float32"), TypeCheckError, "is no dim"),
    (lambda: nn.spec.MethodSpec(print, ["x"], []), TypeCheckError, "0 specs for the arguments x"),
    (_odd(nn.spec.ModuleSpec(None, ["a", "a"], [nn.spec.MethodSpec(abs, [], [])] * 2)), TypeCheckError, "of one name"),
    (lambda: nn.spec.Tuple("t", 3), TypeCheckError, "argument t: 3 are no specs"),
    (lambda: nn.spec.Object(object), UnsupportedError, "no opaque object"),
    (lambda: nn.ExternModule({}), UnsupportedError, "no nn.ExternModule"),
    (lambda: nn.SourceModule({}, "", "c"), UnsupportedError, "no nn.SourceModule"),
    (lambda: nn.add_extern(None), UnsupportedError, "no nn.add_extern"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_specs(case: int) -> None:
    act, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        act()


def test_a_spec_of_arguments() -> None:
    model = Perceptron()
    given = (values(3, 6), [np.int32(1), values(4)])
    spec = nn.spec.MethodSpec.from_torch([given, 5], model.parts)
    assert [repr(s) for s in spec.arg_specs][:1] == [
        '(Tensor([3, 6], "float32"), [Tensor([], "int32"), Tensor([4], "float32")])'
    ]
    mod, _ = model.export_tvm(nn.spec.ModuleSpec(model, ["main"], [spec]))
    assert evaluate(mod, [given, np.int64(5), *WEIGHTS])[1][1].shape == (5, 10)
    with pytest.raises(TypeCheckError, match="takes x, got 2 arguments"):
        nn.spec.MethodSpec.from_torch([1, 2], model.main)


def test_dims_are_told_by_names_and_by_arithmetic() -> None:
    n = nn.Parameter(["n"]).shape[0]
    assert T(["n", "2 * n + 1", n // 2, 3], "float32").ty == T([n, 2 * n + 1, "n // 2", "7 % 4"], "float32").ty
    assert repr(T(["n", 3], "float32")) == 'Tensor([n, 3], "float32")'
    main = Perceptron().export_tvm({"main": ROWS})[0]["main"]
    assert isinstance(main, Function)
    assert main.attrs["num_input"] == 1
