"""ONNX Runtime as a generator: it passes the conformance test, and runs a region of a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import legato
from legato.arith.expr import Var
from legato.base.errors import GeneratorError, UnsupportedError
from legato.generators import OnnxRuntime, partition
from legato.generators.onnx_model import onnx_model
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Call, Function
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.testing import check_generator, resnet
from legato.transform._copy import Copy
from legato.transform._external import is_external
from tools.models import get

MAXIMA = {"max", "min", "nn.max_pool2d", "nn.global_max_pool2d"}  # which NaN of several there are is ONNX Runtime's


def test_it_keeps_its_promises() -> None:
    report = check_generator(OnnxRuntime(threads=1), finite=True)
    assert len(report.operators) == 60
    assert set(report.operators) >= MAXIMA
    others = check_generator(OnnxRuntime(threads=1, operators=frozenset(report.operators) - MAXIMA))
    assert len(others.operators) == 56


def agree(got: np.ndarray, wanted: np.ndarray) -> None:
    """Requires equal results, as sums in another order give them."""
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


def compute(func: Function) -> list[str]:
    """The operators of a function."""
    return [n.op.name for n in post_order(func.body) if isinstance(n, Call) and isinstance(n.op, Op)]


def regions(module: Module) -> list[list[str]]:
    """The operators of what is for generators."""
    return [compute(f) for f in module.functions.values() if is_external(f)]


@pytest.mark.heavy
@pytest.mark.models
def test_a_region_of_resnet_and_the_rest_agree_with_the_whole(tmp_path: Path) -> None:
    whole = legato.from_onnx(get("resnet18").path())
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    wanted = legato.compile(whole)(x)
    for engine in (OnnxRuntime(), OnnxRuntime(operators=frozenset({"nn.conv2d", "nn.relu", "add"}))):
        cut = partition(whole, [engine])
        exe = legato.compile(cut, generators=[engine])
        agree(exe(x), wanted)
    assert sum(found.count("nn.conv2d") for found in regions(cut)) == 20
    assert {"nn.max_pool2d", "nn.dense"} & set(compute(cut["main"]))  # type: ignore[arg-type]
    exe.save(tmp_path / "r.legato")
    agree(legato.load(tmp_path / "r.legato", generators=[engine])(x), wanted)


def test_a_small_network_of_our_own() -> None:
    module, params = resnet.get_workload(batch_size=2, num_classes=10, image_shape=(3, 32, 32), num_layers=18)
    names = [p.name for p in module["main"].params]  # type: ignore[union-attr]
    module = infer(module)
    x = np.random.default_rng(0).standard_normal((2, 3, 32, 32)).astype(np.float32)
    inputs = [params.get(name, x) for name in names]
    wanted = legato.compile(module)(*inputs)
    engine = OnnxRuntime(operators=frozenset({"nn.batch_norm", "nn.relu", "nn.conv2d"}), threads=1)
    cut = partition(module, [engine])
    agree(legato.compile(cut, generators=[engine])(*inputs), wanted)
    assert any(found.count("nn.conv2d") > 1 for found in regions(cut))


def test_models_are_data() -> None:
    """What a file has of a region is a whole model; one that names other files is refused."""
    engine = OnnxRuntime(threads=1)
    params = "%x: Tensor[(n, 4), float32], %w: Tensor[(4, 4), float32]"
    cut = partition(legato.parse(f"def @main({params}) {{ nn.relu(nn.dense(%x, %w)) }}"), [engine])
    model = onnx.load_from_string(engine.model(cut["onnxruntime_main_0"]))  # type: ignore[arg-type]
    onnx.checker.check_model(model)
    assert [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == ["n", 4]
    outside = model.graph.initializer.add(name="c", data_location=onnx.TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="/etc/passwd")
    for data, message in ((model.SerializeToString(), "has its constant 'c' in another file"), (b"?", "no ONNX model")):
        with pytest.raises(Exception, match=message):
            engine.load(data)


def test_dims_of_one_name_are_two() -> None:
    params = "%x: Tensor[(n, 2), float32], %y: Tensor[(m, 2), float32]"
    main = legato.parse(f"def @main({params}) {{ (concatenate((%x, %y)), exp(%x)) }}")["main"]
    assert isinstance(main, Function)
    renamed = Copy(dims={p.ty.shape[0]: Var("n", lo=0) for p in main.params}).expr(main)  # type: ignore[union-attr]
    assert isinstance(renamed, Function)
    model = onnx.load_from_string(onnx_model(renamed))
    infos = (*model.graph.input, *model.graph.output)
    assert [info.type.tensor_type.shape.dim[0].dim_param for info in infos] == ["n", "n1", "n + n", "n"]


@pytest.mark.parametrize(
    "call",
    [
        'nn.conv2d(%x, %w, kernel_size=[1, 1], channels=2, data_layout="NHWC", kernel_layout="HWIO")',
        "nn.avg_pool2d(%x, pool_size=[2, 2], ceil_mode=True)",
        "nn.adaptive_avg_pool2d(%x, output_size=[1, 2])",
        'cast(%x, dtype="int32")',
        'cast(%x, dtype="float64")',
        "nn.batch_norm(%x, %v, %v, %v, %v, axis=0).0",
        "topk(%x).0",
        "nn.max_pool2d(%x, pool_size=[2, 2], padding=[2, 2])",
        "sort(%x)",
    ],
)
def test_calls_without_a_form(call: str) -> None:
    params = "%x: Tensor[(2, 2, 2, 2), float32], %w: Tensor[(1, 1, 2, 2), float32], %v: Tensor[(2), float32]"
    main = legato.parse(f"def @main({params}) {{ {call} }}")["main"]
    assert isinstance(main, Function)
    calls = [n for n in post_order(main.body) if isinstance(n, Call)]
    assert not any(map(OnnxRuntime().supports, calls))
    with pytest.raises(UnsupportedError, match=r"ONNX"):
        onnx_model(main)


IMAGES = "%x: Tensor[(1, 2, 4, 4), float32]"
INF = np.full((1, 2, 4, 4), -np.inf, np.float32)
SOME = np.array(INF)
SOME[0, 0, 3, 3], SOME[0, 1, 0, 0] = 1, np.finfo(np.float32).min
IMAGE = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
TRUE, FALSE = np.array([True, False, True]), np.array([[False, True, False], [False, False, True]])


@pytest.mark.parametrize(
    ("params", "call", "arrays"),
    [
        ("%c: Tensor[(3), bool], %a: Tensor[(3), bool], %b: Tensor[(2, 3), bool]", "where(%c, %a, %b)",
         [TRUE, ~TRUE, FALSE]),
        ("%c: Tensor[(3), bool], %a: Tensor[(3), int32], %b: Tensor[(1), int32]", "where(%c, %a, %b)",
         [TRUE, np.arange(3, dtype=np.int32), np.array([7], np.int32)]),
        (IMAGES, "nn.max_pool2d(%x, pool_size=[2], strides=[2], padding=[1])", [IMAGE]),
        (IMAGES, "nn.avg_pool2d(%x, pool_size=[2], strides=[1], padding=[1], dilation=[1])",
         [IMAGE]),
        (f"{IMAGES}, %w: Tensor[(3, 2, 3, 3), float32]",
         "nn.conv2d(%x, %w, strides=[2], padding=[1], dilation=[1])", [IMAGE, np.ones((3, 2, 3, 3), np.float32)]),
        *((IMAGES, call, [x]) for x in (INF, SOME) for call in (
            "nn.max_pool2d(%x, pool_size=[3, 3], padding=[1, 1])",
            "nn.max_pool2d(%x, pool_size=[2, 2], dilation=[2, 2])",
            "nn.global_max_pool2d(%x)", "max(%x, axis=[2, 3])",
        )),
    ],
)  # fmt: skip
def test_calls_that_it_takes_after_all(params: str, call: str, arrays: list[Any]) -> None:
    module = legato.parse(f"def @main({params}) {{ {call} }}")
    cut = partition(module, [OnnxRuntime()])
    assert len(cut.functions) == 2
    got = legato.compile(cut, generators=[OnnxRuntime()])(*arrays)
    np.testing.assert_array_equal(got, evaluate(module, arrays))


@pytest.mark.parametrize(("dtype", "call"), [("float32", "sort"), ("float16", "sin")])
def test_one_error_without_a_form(dtype: str, call: str) -> None:
    local = f'fn (%y: Tensor[(2), {dtype}], Compiler="onnxruntime") {{ {call}(%y) }}'
    module = legato.parse(f"def @main(%x: Tensor[(2), {dtype}]) {{ {local}(%x) }}")
    where = "generator 'onnxruntime', function @onnxruntime_main"
    with pytest.raises(GeneratorError, match=f"{where}: compile failed: UnsupportedError: "):
        legato.compile(module, generators=[OnnxRuntime()])
