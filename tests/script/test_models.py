"""Classes with weights as programs."""

from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import CompileError, RunError, TypeCheckError
from legato.relay import ScriptModel, Tensor, relay_model


@relay_model
class Layer:
    """A dense layer."""

    w: Tensor(("out", "in"))
    b: Tensor(("out",))
    active: bool = True

    def forward(self, x):
        y = relay.nn.dense(x, self.w) + self.b
        return relay.nn.relu(y) if self.active else y


@relay_model
class Wide(Layer):
    """With a factor of its own, and a helper that is no method."""

    factor: Tensor((), "float32")

    @staticmethod
    @relay
    def squared(x: Tensor(("n", 4))):
        return x * x

    def scaled(self, x, by=2.0):
        return x * self.factor * by

    @property
    def computed(self) -> float:
        raise AssertionError("it is not run")

    def forward(self, x: Tensor(("n", 4))):
        y = relay.nn.dense(x, self.w)
        return self.scaled(y) + self.scaled(self.squared(x), by=0.5)


@relay_model
class Network:
    """Layers in a list, repeated."""

    def __init__(self, layers: list[Any], head: Any) -> None:
        self.layers, self.head = layers, head
        self.offset = np.full((4,), 0.5, "float32")

    def step(self, x):
        for layer in self.layers:
            x = layer(x) + self.offset
        return x

    def forward(self, x: Tensor(("n", 4)), steps: int):
        for _ in range(steps):
            x = self.step(x)
        if x.shape[0] == 1:
            return self.head(x)
        return self.head(x)


def dense(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w.T + b, 0)


def test_a_model_of_models() -> None:
    rng = np.random.default_rng(0)
    ws = [rng.normal(size=(4, 4)).astype("float32") for _ in range(3)]
    bs = [rng.normal(size=4).astype("float32") for _ in range(3)]

    @relay_model
    class Fixed(Layer):
        w: Tensor((4, 4))
        b: Tensor((4,))

    net = Network([Fixed(w=ws[0], b=bs[0]), Fixed(w=ws[1], b=bs[1])], Fixed(w=ws[2], active=False))
    main = net.module["main"]
    names = [p.name for p in main.params]  # type: ignore[union-attr]
    assert names == ["x", "steps", "layers_0_w", "layers_0_b", "layers_1_w", "layers_1_b", "head_w", "head_b"]
    loop = next(f for gv, f in net.module.graph_functions() if gv.name == "main_while")
    assert "head_w" not in [p.name for p in loop.params], "a loop has the weights that it uses"
    x = rng.normal(size=(2, 4)).astype("float32")
    with pytest.raises(RunError, match="Network: no value for weight head_b"):
        net(x, 1)
    net.head.b = bs[2]
    want = x
    for _ in range(2):
        for w, b in zip(ws[:2], bs[:2], strict=True):
            want = dense(want, w, b) + 0.5
    want = want @ ws[2].T + bs[2]
    np.testing.assert_allclose(net(x, 2), want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(legato.compile(net)(x, np.int32(2), *net.params.values()), want, rtol=1e-4, atol=1e-4)
    assert relay.structural_equal(relay.parse(relay.IRModule(net.module).astext()), net.module)


def test_inheritance_and_helpers() -> None:
    model = Wide(w=np.eye(4, dtype="float32"), b=np.zeros(4, "float32"), factor=np.float32(3))
    assert isinstance(model, Layer)
    assert isinstance(model, ScriptModel)
    assert Wide.__doc__ == "With a factor of its own, and a helper that is no method."
    x = np.array([[1, 2, 3, 4]], "float32")
    np.testing.assert_allclose(model(x), x * 6 + x * x * 1.5)
    assert list(model.params) == ["w", "b", "factor"]
    assert str(model) == str(model.mod)


def test_dims_of_weights_and_inputs_are_the_same_by_name() -> None:
    @relay_model
    class Product:
        w: Tensor(("k", 3))

        def forward(self, x: Tensor(("n", "k"))):
            return x @ self.w

    main = Product().module["main"]
    assert "constraints" not in main.attrs  # type: ignore[union-attr]
    assert str(main.body.ty) == "Tensor[(n, 3), float32]"  # type: ignore[union-attr]


def test_what_a_model_cannot_be() -> None:
    with pytest.raises(TypeCheckError, match="class Layer has no attribute 'v'"):
        Layer(v=1)

    @relay_model
    class Asks:
        def __init__(self) -> None:
            self.inner = Wide()

        def forward(self, x: Tensor((1, 4))):
            return x * self.inner.computed

    with pytest.raises(CompileError, match=r"self.computed is a property"):
        _ = Asks().module
