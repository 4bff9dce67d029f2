"""Programs as decorated Python functions: networks, cells and loops."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import CompileError
from legato.relay import Tensor, relay_model


@relay
def linear_loss(a: float, b: float, x: Tensor(("n",)), y: Tensor(("n",))):
    y_hat = a * x + b
    return (y - y_hat) ** 2


def test_a_loss() -> None:
    x, y = np.arange(4, dtype="float32"), np.ones(4, "float32")
    np.testing.assert_allclose(linear_loss(2, 0.5, x, y), (y - (2 * x + 0.5)) ** 2)


@relay
def mlp(
    data: Tensor(("n", 784), "float32"),
    w0: Tensor((784, 128), "float32"),
    b0: Tensor((128,), "float32"),
    w1: Tensor((128, 10), "float32"),
    b1: Tensor((10,), "float32"),
) -> Tensor(("n", 10), "float32"):
    lv0 = data @ w0 + b0
    lv1 = relay.nn.relu(lv0)
    return lv1 @ w1 + b1


def test_a_network_with_a_symbolic_batch() -> None:
    main = mlp.module["main"]
    assert str(main.params[0].ty) == "Tensor[(n, 784), float32]"  # type: ignore[union-attr]
    assert str(main.ret_type) == "Tensor[(n, 10), float32]"  # type: ignore[union-attr]
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=s).astype("float32") * 0.1 for s in ((784, 128), (128,), (128, 10), (10,))]
    exe = legato.compile(mlp)
    for batch in (1, 3):
        data = rng.normal(size=(batch, 784)).astype("float32")
        want = np.maximum(data @ weights[0] + weights[1], 0) @ weights[2] + weights[3]
        np.testing.assert_allclose(mlp(data, *weights), want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(exe(data, *weights), want, rtol=1e-4, atol=1e-5)


@relay_model
class SmallNet:
    """Convolution, pooling and a dense layer."""

    w_conv: Tensor((16, 3, 3, 3), "float32")
    w_dense: Tensor((10, 4096), "float32")
    b_dense: Tensor((10,), "float32")

    def features(self, x):
        act = relay.nn.relu(relay.nn.conv2d(x, self.w_conv, kernel_size=(3, 3), padding=(1, 1)))
        return relay.nn.max_pool2d(act, pool_size=(2, 2), strides=(2, 2))

    def forward(self, x: Tensor((1, 3, 32, 32), "float32")):
        flat = relay.nn.batch_flatten(self.features(x))
        return relay.nn.dense(flat, self.w_dense) + self.b_dense


def test_a_convolutional_network() -> None:
    rng = np.random.default_rng(1)
    shapes = {"w_conv": (16, 3, 3, 3), "w_dense": (10, 4096), "b_dense": (10,)}
    net = SmallNet(**{name: rng.normal(size=s).astype("float32") * 0.1 for name, s in shapes.items()})
    main = net.module["main"]
    assert [p.name for p in main.params] == ["x", *shapes]
    assert str(main.body.ty) == "Tensor[(1, 10), float32]"
    x = rng.normal(size=(1, 3, 32, 32)).astype("float32")
    np.testing.assert_allclose(legato.compile(net)(x, *net.params.values()), net(x), rtol=1e-4, atol=1e-4)
    with pytest.raises(legato.base.errors.RunError, match="SmallNet: no value for weight w_conv, w_dense, b_dense"):
        SmallNet()(x)


@relay
def counted(i: int, j: int, k: int):
    while ((i + j < 10) != (j * k < 100)) == (k >= i + j):
        i, j, k = i + j, j + k, k + 1
    return i, j, k


def test_a_while_loop_is_a_function_that_calls_itself_last() -> None:
    python = counted.__wrapped__
    exe = legato.compile(counted)
    for given in ((1, 1, 5), (7, 9, 2), (0, 0, 0), (3, 1, 4)):
        assert tuple(int(v) for v in counted(*given)) == python(*given)
        assert tuple(int(v) for v in exe(*map(np.int32, given))) == python(*given)


@relay_model
class Cell:
    """tanh(x W + b + h)."""

    w: Tensor((20, 10))
    b: Tensor((20,))

    def __init__(self, w: np.ndarray, b: np.ndarray) -> None:  # type: ignore[type-arg]
        self.w, self.b = w, b

    def forward(self, x: Tensor((1, 10)), h: Tensor((1, 20))):
        return relay.tanh(relay.nn.dense(x, self.w) + self.b + h)


@relay_model
class Sequence:
    """A cell over a sequence of any length, then a second layer."""

    def __init__(self, cell: Cell, out: np.ndarray) -> None:  # type: ignore[type-arg]
        self.cell, self.out = cell, out

    def forward(self, xs: Tensor(("steps", 1, 10)), h: Tensor((1, 20))):
        for t in range(xs.shape[0]):
            h = self.cell(xs[t], h)
        return h @ self.out


def test_a_cell_over_a_sequence() -> None:
    rng = np.random.default_rng(2)
    w, b, out = (rng.normal(size=s).astype("float32") * 0.3 for s in ((20, 10), (20,), (20, 2)))
    net = Sequence(Cell(w, b), out)
    assert list(net.params) == ["cell_w", "cell_b"], "what is annotated is a weight, another array a constant"
    exe = legato.compile(net)
    for steps in (0, 1, 5):
        xs, h = rng.normal(size=(steps, 1, 10)).astype("float32"), np.zeros((1, 20), "float32")
        want = h
        for x in xs:
            want = np.tanh(x @ w.T + b + want)
        np.testing.assert_allclose(net(xs, h), want @ out, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(exe(xs, h, w, b), want @ out, rtol=1e-4, atol=1e-5)


@relay
def with_a_model(x: Tensor((1, 10))):
    return CELL(x, np.zeros((1, 20), "float32"))


CELL = Cell(np.ones((20, 10), "float32"), np.zeros(20, "float32"))


def test_functions_use_models_with_their_weights() -> None:
    x = np.full((1, 10), 0.05, "float32")
    with pytest.raises(CompileError, match=r"numpy.zeros runs in NumPy, not in Relay"):
        _ = with_a_model.module

    @relay
    def fixed(x: Tensor((1, 10))):
        return CELL(x, relay.zeros((1, 20), "float32"))

    np.testing.assert_allclose(fixed(x), np.full((1, 20), np.tanh(0.5)), rtol=1e-5)
    assert len(fixed.module["main"].params) == 1  # type: ignore[union-attr]
