"""Operators of ONNX Runtime's own domain that its optimiser writes into the models it saves."""

from __future__ import annotations

from legato.base.errors import UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import activation, nn
from legato.ir.expr import Expr

DOMAIN = "com.microsoft"


def gelu(b: Emitter, x: Expr) -> Expr:
    return b.nn.gelu(x)


def bias_gelu(b: Emitter, x: Expr, bias: Expr) -> Expr:
    return b.to(b.nn.gelu(b.add(b.wide(x), b.wide(bias))), b.dtype(x))


def fast_gelu(b: Emitter, x: Expr, bias: Expr | None = None) -> Expr:
    total = b.wide(x) if bias is None else b.add(b.wide(x), b.wide(bias))
    return b.to(b.nn.gelu(total, approximate="tanh"), b.dtype(x))


def quick_gelu(b: Emitter, x: Expr, *, alpha: float = 1.702) -> Expr:
    return activation.swish(b, x, alpha=alpha)


def fused_mat_mul(
    b: Emitter,
    x: Expr,
    y: Expr,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Expr:
    """alpha · x′ · y′, where the last two dims of an operand may be swapped."""
    if transBatchA or transBatchB:
        raise UnsupportedError("transposed batch dimensions")
    dtype = b.sum_dtype(x, alpha != 1.0)
    z = b.matmul(_swapped(b, x) if transA else x, _swapped(b, y) if transB else y, out_dtype=dtype)
    return z if alpha == 1.0 else b.to(b.multiply(z, b.like(alpha, z)), b.dtype(x))


def _swapped(b: Emitter, x: Expr) -> Expr:
    rank = b.rank(x)
    return x if rank < 2 else b.transpose(x, axes=(*range(rank - 2), rank - 1, rank - 2))


def skip_layer_normalization(
    b: Emitter,
    x: Expr,
    skip: Expr,
    gamma: Expr,
    beta: Expr | None = None,
    bias: Expr | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Expr | None, ...]:
    """Of x + skip (+ bias), over the last dim; the fourth output is that sum."""
    first = b.wide(x) if bias is None else b.add(b.wide(x), b.wide(bias))
    total = b.add(first, b.wide(skip))
    shape = b.dims_of(total)[-1:]
    shift = b.full(b.like(0, total), shape=shape) if beta is None else b.broadcast(beta, shape)
    y = b.nn.layer_norm(total, b.broadcast(gamma, shape), shift, axis=-1, epsilon=epsilon, center=beta is not None)
    return b.to(y, b.dtype(x)), None, None, b.to(total, b.dtype(x))


def fused_conv(
    b: Emitter,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    added: Expr | None = None,
    *,
    activation: str = "",
    activation_params: tuple[float, ...] = (),
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    y = nn.conv(b, x, weight, bias, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
                pads=pads, strides=strides)  # fmt: skip
    return _activated(b, y if added is None else b.add(y, added), activation, activation_params)


def fused_gemm(
    b: Emitter,
    x: Expr,
    y: Expr,
    c: Expr | None = None,
    *,
    activation: str = "",
    activation_alpha: float = 0.0,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Expr:
    z = nn.gemm(b, x, y, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return _activated(b, z, activation, (activation_alpha,))


def _activated(b: Emitter, x: Expr, name: str, params: tuple[float, ...]) -> Expr:
    """`name` applied to `x`; the parameters are the operator's attributes in the order of their names."""
    simple = {"": lambda: x, "Relu": lambda: b.nn.relu(x), "Tanh": lambda: b.tanh(x), "Sigmoid": lambda: b.sigmoid(x)}
    if name in simple:
        return simple[name]()
    if name == "LeakyRelu" and len(params) == 1:
        return b.nn.leaky_relu(x, alpha=params[0])
    if name == "Clip" and len(params) == 2:
        return b.clip(x, a_min=params[0], a_max=params[1])
    if name == "HardSigmoid" and len(params) == 2:
        return b.nn.hard_sigmoid(x, alpha=params[0], beta=params[1])
    raise UnsupportedError(f"activation {name} with {len(params)} parameters")
