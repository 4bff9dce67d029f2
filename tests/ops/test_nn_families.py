"""References of the neural-network operators against PyTorch, over parameter sweeps.

That computes agree with references is the generic test's business; here the references themselves are checked.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from legato.interp import evaluate_op
from legato.ir.attrs import make_attrs
from legato.ops import table

torch = pytest.importorskip("torch")
F = torch.nn.functional
Array = np.ndarray[Any, Any]


def run(name: str, *args: Any, **attrs: Any) -> Any:
    """The result of operator `name` by its reference."""
    op = table()[name]
    return evaluate_op(op, args, make_attrs(op, attrs))


def data(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    """Standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def grid(*choices: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Every combination."""
    return list(itertools.product(*choices))


def ints(low: int, high: int, *shape: int, seed: int = 0) -> Array:
    """Uniform int64 numbers in [low, high)."""
    return np.random.default_rng(seed).integers(low, high, shape)


def close(actual: Array, expected: Any, tol: float = 2e-5) -> None:
    """Equal shapes and dtypes, and values up to `tol` of the largest."""
    wanted = expected.numpy()
    assert actual.dtype == wanted.dtype
    assert actual.shape == wanted.shape
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-30)
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=tol * scale)


t = torch.from_numpy

# ------------------------------------------------------------------------------- convolution


@pytest.mark.parametrize(("stride", "pad", "dilation", "groups"), grid((1, 2), (0, 1), (1, 2), (1, 2, 4)))
def test_conv2d(stride: int, pad: int, dilation: int, groups: int) -> None:
    x, w = data(2, 4, 9, 8), data(8, 4 // groups, 3, 2, seed=1)
    steps, pads = (stride, stride + 1), (pad, pad + 1)
    actual = run("nn.conv2d", x, w, strides=steps, padding=pads, dilation=dilation, groups=groups)
    expected = F.conv2d(t(x), t(w), None, steps, pads, dilation, groups)
    close(actual, expected)


def test_conv_layouts_and_ranks() -> None:
    x, w = data(1, 3, 6, 7), data(5, 3, 3, 3, seed=1)
    expected = F.conv2d(t(x), t(w), padding=1)
    nhwc = run("nn.conv2d", x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), padding=1, data_layout="NHWC",
               kernel_layout="HWIO")  # fmt: skip
    close(nhwc.transpose(0, 3, 1, 2), expected)
    close(run("nn.conv2d", x, w, padding=[1, 1], out_layout="NHWC").transpose(0, 3, 1, 2), expected)
    uneven = F.conv2d(F.pad(t(x), (2, 0, 1, 3)), t(w))
    close(run("nn.conv2d", x, w, padding=(1, 2, 3, 0)), uneven)
    x1, w1 = data(2, 4, 9), data(6, 2, 3, seed=1)
    close(run("nn.conv1d", x1, w1, padding=2, groups=2, strides=2), F.conv1d(t(x1), t(w1), None, 2, 2, 1, 2))
    x3, w3 = data(1, 2, 4, 5, 3), data(3, 2, 2, 3, 2, seed=1)
    close(run("nn.conv3d", x3, w3, padding=1), F.conv3d(t(x3), t(w3), padding=1))


def test_conv_of_integers_accumulates_in_out_dtype() -> None:
    x, w = np.full((1, 64, 1, 1), 127, np.int8), np.full((1, 64, 1, 1), 127, np.int8)
    assert run("nn.conv2d", x, w, out_dtype="int32").item() == 64 * 127 * 127


@pytest.mark.parametrize(("stride", "pad", "dilation", "groups"), grid((1, 2, 3), (0, 2), (1, 2), (1, 2)))
def test_conv2d_transpose(stride: int, pad: int, dilation: int, groups: int) -> None:
    x, w = data(2, 4, 5, 4), data(4, 3, 3, 2, seed=1)
    extra = max(stride, dilation) - 1
    actual = run("nn.conv2d_transpose", x, w, strides=(stride, stride), padding=(pad, 1), output_padding=(extra, 0),
                 dilation=(dilation, 1), groups=groups)  # fmt: skip
    close(actual, F.conv_transpose2d(t(x), t(w), None, stride, (pad, 1), (extra, 0), groups, (dilation, 1)))


def test_conv_transpose_ranks() -> None:
    x, w = data(1, 3, 6), data(3, 2, 4, seed=1)
    close(run("nn.conv1d_transpose", x, w, strides=3, padding=1), F.conv_transpose1d(t(x), t(w), stride=3, padding=1))
    x, w = data(1, 2, 3, 2, 3), data(2, 2, 2, 3, 2, seed=1)
    close(run("nn.conv3d_transpose", x, w, strides=2), F.conv_transpose3d(t(x), t(w), stride=2))


# ------------------------------------------------------------------------------- pooling


@pytest.mark.parametrize(("size", "stride", "pad", "ceil"), grid((2, 3), (1, 2, 3), (0, 1), (False, True)))
def test_pool2d(size: int, stride: int, pad: int, ceil: bool) -> None:
    x = data(2, 3, 8, 7)
    same = {"pool_size": (size, size), "strides": stride, "padding": (pad, pad), "ceil_mode": ceil}
    close(run("nn.max_pool2d", x, **same), F.max_pool2d(t(x), size, stride, pad, ceil_mode=ceil))
    for count in (False, True):
        expected = F.avg_pool2d(t(x), size, stride, pad, ceil, count)
        close(run("nn.avg_pool2d", x, **same, count_include_pad=count), expected)


def test_pool_ranks_dilation_and_nan() -> None:
    x = data(1, 2, 11)
    close(run("nn.max_pool1d", x, pool_size=3, dilation=2, padding=1), F.max_pool1d(t(x), 3, 1, 1, 2))
    close(run("nn.avg_pool1d", x, pool_size=4, strides=3, padding=2), F.avg_pool1d(t(x), 4, 3, 2, False, False))
    x = data(1, 2, 5, 4, 5)
    close(run("nn.max_pool3d", x, pool_size=2, strides=2, padding=1), F.max_pool3d(t(x), 2, 2, 1))
    close(run("nn.avg_pool3d", x, pool_size=2, strides=1), F.avg_pool3d(t(x), 2, 1))
    x = np.array([[[[1, np.nan, -np.inf, -np.inf, -np.inf]]]], np.float32)
    np.testing.assert_array_equal(run("nn.max_pool2d", x, pool_size=(1, 2)).ravel(), [np.nan, np.nan, -np.inf, -np.inf])


def test_average_of_integers_rounds_towards_zero() -> None:
    x = np.array([[[-3, 2, 3, 4]]], np.int8)
    assert run("nn.avg_pool1d", x, pool_size=2, strides=2).ravel().tolist() == [0, 3]
    assert run("nn.avg_pool1d", np.array([[[-3, -2]]], np.int8), pool_size=2).ravel().tolist() == [-2]


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (7, 5), (9, 2)])
def test_adaptive_pool(size: tuple[int, int]) -> None:
    x = data(2, 3, 7, 5)
    close(run("nn.adaptive_avg_pool2d", x, output_size=size), F.adaptive_avg_pool2d(t(x), size))
    close(run("nn.adaptive_max_pool2d", x, output_size=size), F.adaptive_max_pool2d(t(x), size))
    row = x.reshape(2, 3, 35)
    close(run("nn.adaptive_avg_pool1d", row, output_size=size[0]), F.adaptive_avg_pool1d(t(row), size[0]))
    close(run("nn.global_avg_pool2d", x), F.adaptive_avg_pool2d(t(x), 1))
    close(run("nn.global_max_pool2d", x), F.adaptive_max_pool2d(t(x), 1))


# ------------------------------------------------------------------------------- products


@pytest.mark.parametrize(
    ("a", "b"),
    [((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((2, 2, 3), (3,))],
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = data(*a), data(*b, seed=1)
    close(run("matmul", x, y), torch.matmul(t(x), t(y)))


def test_dense_and_batch_matmul() -> None:
    x, w = data(2, 3, 4), data(5, 4, seed=1)
    close(run("nn.dense", x, w), F.linear(t(x), t(w)))
    close(run("nn.matmul", x, w, transpose_b=True), F.linear(t(x), t(w)))
    x, y = data(2, 3, 4), data(2, 5, 4, seed=1)
    close(run("nn.batch_matmul", x, y), torch.bmm(t(x), t(y).mT))
    left, right = x.transpose(0, 2, 1), y.transpose(0, 2, 1)
    close(run("nn.batch_matmul", left, right, transpose_a=True, transpose_b=False), torch.bmm(t(x), t(y).mT))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("ii", [(4, 4)]),
        ("iij->ji", [(3, 3, 2)]),
        ("a,b,c->cab", [(2,), (3,), (4,)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [data(*s, seed=n) for n, s in enumerate(shapes)]
    close(run("einsum", tuple(arrays), equation=equation), torch.einsum(equation, *map(t, arrays)))


# ------------------------------------------------------------------------------- activations and norms


@pytest.mark.parametrize(
    ("name", "attrs", "peer"),
    [
        ("nn.relu", {}, F.relu),
        ("nn.leaky_relu", {"alpha": 0.1}, lambda x: F.leaky_relu(x, 0.1)),
        ("nn.elu", {"alpha": 0.7}, lambda x: F.elu(x, 0.7)),
        ("nn.celu", {"alpha": 0.7}, lambda x: F.celu(x, 0.7)),
        ("nn.selu", {}, F.selu),
        ("nn.gelu", {}, F.gelu),
        ("nn.gelu", {"approximate": "tanh"}, lambda x: F.gelu(x, approximate="tanh")),
        ("nn.silu", {}, F.silu),
        ("nn.mish", {}, F.mish),
        ("nn.softplus", {"beta": 2.0}, lambda x: F.softplus(x, 2.0)),
        ("nn.softsign", {}, F.softsign),
        ("nn.hard_sigmoid", {"alpha": 1 / 6}, F.hardsigmoid),
        ("nn.hard_swish", {}, F.hardswish),
        ("nn.thresholded_relu", {"alpha": 0.5}, lambda x: F.threshold(x, 0.5, 0.0)),
        ("nn.softmax", {"axis": 1}, lambda x: F.softmax(x, 1)),
        ("nn.log_softmax", {"axis": 0}, lambda x: F.log_softmax(x, 0)),
    ],
)
def test_activation(name: str, attrs: dict[str, Any], peer: Any) -> None:
    x = data(40, 30) * 5
    close(run(name, x, **attrs), peer(t(x)))


def test_prelu_bias_and_dropout() -> None:
    x, w = data(2, 3, 4), data(3, seed=1)
    close(run("nn.prelu", x, w), F.prelu(t(x), t(w)))
    close(run("nn.bias_add", x, w), t(x) + t(w).reshape(3, 1))
    kept, mask = run("nn.dropout", x)
    assert (kept == x).all()
    assert (mask == 1).all()


def test_norms() -> None:
    x, g, b = data(2, 6, 4, 5) + 3, data(6, seed=1), data(6, seed=2)
    mean, var = data(6, seed=3), np.abs(data(6, seed=4))
    out, kept_mean, kept_var = run("nn.batch_norm", x, g, b, mean, var, epsilon=1e-3)
    close(out, F.batch_norm(t(x), t(mean), t(var), t(g), t(b), eps=1e-3))
    assert (kept_mean == mean).all()
    assert (kept_var == var).all()
    close(run("nn.instance_norm", x, g, b), F.instance_norm(t(x), weight=t(g), bias=t(b)))
    for groups in (1, 2, 6):
        close(run("nn.group_norm", x, g, b, num_groups=groups), F.group_norm(t(x), groups, t(g), t(b)))
    g, b = data(4, 5, seed=1), data(4, 5, seed=2)
    close(run("nn.layer_norm", x, g, b, axis=(2, 3)), F.layer_norm(t(x), (4, 5), t(g), t(b)))
    close(run("nn.layer_norm", x, g[0], b[0]), F.layer_norm(t(x), (5,), t(g[0]), t(b[0])))
    close(run("nn.rms_norm", x, g, axes=(-2, -1), epsilon=1e-4), F.rms_norm(t(x), (4, 5), t(g), 1e-4))
    close(run("nn.l2_normalize", x, eps=1e-12, axis=1), F.normalize(t(x)))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_lrn(size: int) -> None:
    x = data(2, 7, 3)
    actual = run("nn.lrn", x, size=size, alpha=0.3, beta=0.6, bias=1.5)
    square = F.pad((t(x) ** 2).unsqueeze(1), (0, 0, (size - 1) // 2, size // 2))
    total = F.avg_pool2d(square, (size, 1), 1).squeeze(1)
    close(actual, t(x) / (1.5 + 0.3 * total) ** 0.6)


# ------------------------------------------------------------------------------- indexing and sorting


def test_take_and_gather() -> None:
    x, i = data(4, 5, 3), ints(0, 5, 2, 6)
    close(run("take", x, i, axis=1), t(x)[:, t(i)])
    close(run("take", x, i - 5, axis=1, mode="fast"), t(x)[:, t(i)])
    close(run("take", x, i + 15, axis=1, mode="wrap"), t(x)[:, t(i)])
    close(run("take", x, np.array([-7, 99]), axis=1), t(x)[:, [0, 4]])
    close(run("take", x, ints(0, 60, 7)), t(x).reshape(-1)[t(ints(0, 60, 7))])
    i = ints(0, 5, 4, 2, 3)
    close(run("gather", x, i, axis=1), torch.gather(t(x), 1, t(i)))
    close(run("gather", x, i - 5, axis=1), torch.gather(t(x), 1, t(i)))
    batched = run("take", x, i[:, :, 0], axis=1, batch_dims=1)
    close(batched, torch.stack([t(x)[n][t(i[n, :, 0])] for n in range(4)]))
    pairs = np.stack([ints(0, 4, 6), ints(0, 5, 6, seed=1)])
    close(run("gather_nd", x, pairs), t(x)[t(pairs[0]), t(pairs[1])])
    assert run("take", np.zeros((0, 2), np.float32), np.array([3]), axis=0).tolist() == [[0, 0]]


@pytest.mark.parametrize(("reduction", "peer"), [("add", "sum"), ("mul", "prod"), ("min", "amin"), ("max", "amax")])
def test_scatter_elements(reduction: str, peer: str) -> None:
    x, i, u = data(4, 5), ints(-4, 4, 3, 5), data(3, 5, seed=1)
    actual = run("scatter_elements", x, i, u, axis=0, reduction=reduction)
    close(actual, t(x).scatter_reduce(0, t(i % 4), t(u), peer))
    rows = np.array([[0, 3, 3, -1]])
    more = data(4, 5, seed=2)
    wanted = t(x).scatter_reduce(0, t(np.repeat(rows.T % 4, 5, 1)), t(more), peer)
    close(run("scatter_nd", x, rows, more, mode=reduction), wanted)


def test_scatter_update_keeps_the_last_and_drops_what_is_outside() -> None:
    x = np.zeros(3, np.float32)
    at, new = np.array([0, 0, 7, -1, -9]), np.arange(1, 6, dtype=np.float32)
    assert run("scatter_elements", x, at, new).tolist() == [2, 0, 4]
    assert run("scatter_nd", x, at[None], new).tolist() == [2, 0, 4]


def test_one_hot() -> None:
    i = ints(0, 4, 3, 2)
    on, off = np.array(1, np.int64), np.array(0, np.int64)
    close(run("one_hot", i, on, off, depth=4), F.one_hot(t(i), 4))
    assert run("one_hot", np.array([-1, 4]), on, off, depth=4).sum() == 0


@pytest.mark.parametrize("ascending", [False, True])
def test_sort(ascending: bool) -> None:
    x = ints(0, 6, 3, 40).astype(np.float32)
    x[1, 3] = x[2, 7] = np.nan
    values, places = torch.sort(t(x), dim=1, descending=not ascending, stable=True)
    np.testing.assert_array_equal(run("sort", x, is_ascend=ascending), values.numpy())
    np.testing.assert_array_equal(run("argsort", x, is_ascend=ascending, dtype="int64"), places.numpy())
    got_values, got_places = run("topk", x, k=9, is_ascend=ascending, dtype="int64")
    np.testing.assert_array_equal(got_values, values[:, :9].numpy())
    np.testing.assert_array_equal(got_places, places[:, :9].numpy())


# ------------------------------------------------------------------------------- images

SIZES = [(5, 7), (10, 14), (3, 4), (8, 20), (1, 1)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("align", [False, True])
def test_resize2d(size: tuple[int, int], align: bool) -> None:
    x = data(2, 3, 5, 7)
    mode = "align_corners" if align else "half_pixel"
    same = {"size": size, "coordinate_transformation_mode": mode}
    close(run("image.resize2d", x, **same), F.interpolate(t(x), size, mode="bilinear", align_corners=align))
    cubic = F.interpolate(t(x), size, mode="bicubic", align_corners=align)
    close(run("image.resize2d", x, **same, method="cubic", cubic_alpha=-0.75), cubic, 5e-5)


@pytest.mark.parametrize("size", SIZES)
def test_resize2d_nearest(size: tuple[int, int]) -> None:
    x = data(1, 2, 5, 7)
    floor = run("image.resize2d", x, size=size, method="nearest_neighbor", coordinate_transformation_mode="asymmetric")
    close(floor, F.interpolate(t(x), size, mode="nearest"))
    exact = run("image.resize2d", x, size=size, method="nearest_neighbor", rounding_method="round")
    close(exact, F.interpolate(t(x), size, mode="nearest-exact"))


def test_upsampling_and_blocks() -> None:
    x = data(1, 4, 3, 5)
    close(run("nn.upsampling", x, scale_h=2.0, scale_w=3.0), F.interpolate(t(x), scale_factor=(2, 3)))
    corners = run("nn.upsampling", x, scale_h=2.0, scale_w=2.0, method="bilinear", align_corners=True)
    close(corners, F.interpolate(t(x), scale_factor=2, mode="bilinear", align_corners=True))
    close(run("nn.depth_to_space", x, block_size=2, mode="CRD"), F.pixel_shuffle(t(x), 2))
    back = run("nn.space_to_depth", run("nn.depth_to_space", x, block_size=2), block_size=2)
    np.testing.assert_array_equal(back, x)


def test_resize_with_a_given_scale_uses_it_for_coordinates() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    actual = run("image.resize1d", x, size=(2,), scale=(0.6,), coordinate_transformation_mode="asymmetric")
    np.testing.assert_allclose(actual.ravel(), [0, 1 / 0.6], rtol=1e-6)
