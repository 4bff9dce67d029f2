"""The model zoo: types and sizes of the models as they are known, and compiled = interpreted on small ones."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError
from legato.interp import evaluate
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.testing import MODELS
from tests.heavy import light

# Arguments of get_net, result type, and millions of parameters (as the papers' models have them).
FULL: dict[str, tuple[dict[str, Any], str, float]] = {
    "char_rnn": ({}, "Tensor[(200,), int32]", 0.13),
    "dcgan": ({"batch_size": 1}, "Tensor[(1, 3, 64, 64), float32]", 12.66),
    "densenet": (
        {"densenet_size": 121, "classes": 1000, "batch_size": 1, "image_shape": (3, 224, 224)},
        "Tensor[(1, 1000), float32]",
        8.06,
    ),
    "dqn": ({"batch_size": 1}, "Tensor[(1, 18), float32]", 1.69),
    "gru": ({"iterations": 5, "num_hidden": 256}, "Tensor[(1, 256), float32]", 0.39),
    "inception_v3": (
        {"batch_size": 1, "num_classes": 1000, "image_shape": (3, 299, 299)},
        "Tensor[(1, 1000), float32]",
        23.87,
    ),
    "lstm": ({"iterations": 5, "num_hidden": 256}, "Tensor[(1, 256), float32]", 0.53),
    "mlp": ({"batch_size": 2}, "Tensor[(2, 10), float32]", 0.11),
    "mobilenet": ({}, "Tensor[(1, 1000), float32]", 4.25),
    "mobilenet_v2": ({}, "Tensor[(1, 1000), float32]", 3.54),
    "resnet": ({"batch_size": 1, "num_classes": 1000, "num_layers": 50}, "Tensor[(1, 1000), float32]", 25.6),
    "squeezenet": (
        {"batch_size": 1, "image_shape": (3, 224, 224), "num_classes": 1000, "version": "1.0"},
        "Tensor[(1, 1000), float32]",
        1.25,
    ),
    "tree_lstm": ({}, "Tensor[(1, 150), float32]", 0.27),
    "vgg": ({"batch_size": 1, "num_layers": 16}, "Tensor[(1, 1000), float32]", 138.36),
}

SMALL: dict[str, dict[str, Any]] = {
    "char_rnn": {"num_chars": 9, "num_hidden": 8, "steps": 12},
    "dcgan": {"batch_size": 1, "ngf": 4, "random_len": 8},
    "densenet": {"densenet_size": 121, "classes": 5, "image_shape": (3, 32, 32), "blocks": (2, 1, 2, 1)},
    "dqn": {"batch_size": 1, "num_actions": 4, "image_shape": (2, 40, 40)},
    "gru": {"iterations": 3, "num_hidden": 8},
    "inception_v3": {"num_classes": 5, "image_shape": (3, 75, 75)},
    "lstm": {"iterations": 3, "num_hidden": 8},
    "mlp": {"batch_size": 2, "image_shape": (1, 4, 4)},
    "mobilenet": {"num_classes": 5, "image_shape": (3, 32, 32)},
    "mobilenet_v2": {"num_classes": 5, "image_shape": (3, 32, 32), "alpha": 0.25},
    "resnet": {"num_classes": 5, "num_layers": 8, "image_shape": (3, 24, 24)},
    "squeezenet": {"num_classes": 5, "version": "1.1", "image_shape": (3, 40, 40)},
    "tree_lstm": {"num_inputs": 6, "num_hidden": 4},
    "vgg": {"batch_size": 1, "num_classes": 5, "image_shape": (3, 32, 32)},
}


def file(name: str) -> Any:
    return import_module(f"legato.testing.{name}")


def test_every_model_is_tested() -> None:
    assert set(MODELS) == set(FULL) == set(SMALL)


@pytest.mark.parametrize("name", MODELS)
def test_models_have_their_types_and_sizes(name: str) -> None:
    arguments, result, millions = FULL[name]
    net = getattr(relay.testing, name).get_net(**arguments)
    mod = relay.transform.InferType()(net if isinstance(net, relay.IRModule) else relay.IRModule.from_expr(net))
    main = mod["main"]
    assert str(main.ret_type) == result
    assert main.params[0].name == "data"
    sizes = [int(np.prod(p.checked_type.concrete_shape)) for p in main.params[1:]]
    assert round(sum(sizes) / 1e6, 2) == millions
    assert relay.analysis.well_formed(mod)


@pytest.mark.parametrize("name", light(MODELS, set(MODELS) - {"inception_v3"}))
@pytest.mark.shared(2)
def test_compiled_models_compute_what_they_mean(name: str) -> None:
    mod, params = file(name).get_workload(**SMALL[name])
    assert isinstance(mod, Module)
    bound = relay.IRModule(mod)
    bound["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    bound = relay.transform.InferType()(bound)
    data = value_of(bound, bound["main"].params[0].ty)
    want = evaluate(bound.module, [data])
    got = relay.build(bound)(data)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * float(np.abs(want).max()))


def value_of(mod: Any, ty: Any) -> Any:
    """An input: a tensor, or a tree of such with a root, two children, and a child of one of these."""
    rng = np.random.default_rng(0)
    if isinstance(ty, TensorType):
        return rng.normal(size=ty.concrete_shape).astype(ty.dtype.numpy)
    (_, rose), (_, cons, nil) = mod.get_type("Tree"), mod.get_type("List")

    def tree(*children: Any) -> Any:
        below = nil()
        for child in children:
            below = cons(child, below)
        return rose(rng.normal(size=ty.args[0].concrete_shape).astype("float32"), below)

    return tree(tree(tree()), tree())


def test_layouts_of_channels_last_compute_the_same() -> None:
    first, params = file("resnet").get_workload(num_classes=5, num_layers=8, image_shape=(3, 24, 24))
    last, _ = file("resnet").get_workload(num_classes=5, num_layers=8, image_shape=(24, 24, 3), layout="NHWC")
    turned = {n: v.transpose(2, 3, 1, 0) if v.ndim == 4 else v for n, v in params.items()}
    data = np.random.default_rng(0).normal(size=(1, 3, 24, 24)).astype("float32")
    results = []
    for mod, weights, x in ((first, params, data), (last, turned, data.transpose(0, 2, 3, 1))):
        names = [p.name for p in mod["main"].params]
        results.append(evaluate(mod, [x, *(weights[n] for n in names[1:])]))
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-6)


def test_parameters_are_random_but_fixed_by_the_seed() -> None:
    from legato.testing.init import create_workload

    net = file("mlp").get_net(1)
    (_, one), (_, two), (_, three) = (create_workload(net, seed=s) for s in (0, 0, 1))
    assert np.array_equal(one["fc1_weight"], two["fc1_weight"])
    assert not np.array_equal(one["fc1_weight"], three["fc1_weight"])
    assert not one["fc1_bias"].any()
    _, ones = create_workload(net, lambda name, shape, rng: np.ones(shape))
    assert all((v == 1).all() for v in ones.values())


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("vgg", {"batch_size": 1, "num_layers": 12}, "there is no VGG of 12 layers"),
        ("densenet", {"densenet_size": 7}, "there is no DenseNet-7"),
        ("squeezenet", {"version": "2"}, "there is no SqueezeNet 2"),
        ("resnet", {"num_layers": 20}, "there is no ResNet of 20 layers for images of height 224"),
        ("resnet", {"layout": "NWHC"}, "there is no model in layout 'NWHC'"),
        ("dcgan", {"batch_size": 1, "oshape": (3, 32, 32)}, "the generator makes images of 64×64, not 32×32"),
    ],
)
def test_models_that_do_not_exist(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError) as error:
        file(name).get_workload(**arguments)
    assert error.value.message == message
