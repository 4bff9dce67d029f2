"""Networks that are trained, each written once: as a program of Legato, or run by PyTorch.

A network is a function of an engine's operators, `Graph` or `Eager`, which have the same names. Both take the same
arrays as parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from legato import ops as _ops  # noqa: F401  # gives meaning to the builder's operator names
from legato.autodiff.program import main_of
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.expr import Var
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.testing.init import xavier

__all__ = ["NETS", "Eager", "Graph", "Net", "Operators", "batch", "parameters"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class Operators(ABC):
    """What networks are written with."""

    @abstractmethod
    def param(self, name: str, shape: Shape) -> Any:
        """A parameter."""

    @abstractmethod
    def conv(self, x: Any, weight: Any, stride: int, padding: int) -> Any:
        """A convolution of images."""

    @abstractmethod
    def batch_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        """Normalization by the statistics of the batch."""

    @abstractmethod
    def max_pool(self, x: Any) -> Any:
        """The largest of 3 by 3 pixels, every second one."""

    @abstractmethod
    def mean(self, x: Any, axes: Sequence[int]) -> Any:
        """The mean over axes, which are gone."""

    @abstractmethod
    def add(self, x: Any, y: Any) -> Any:
        """Sums, broadcast."""

    @abstractmethod
    def relu(self, x: Any) -> Any:
        """What is positive."""

    @abstractmethod
    def dense(self, x: Any, weight: Any, bias: Any) -> Any:
        """x Wᵀ + b over the last axis."""

    @abstractmethod
    def layer_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        """Normalization over the last axis."""

    @abstractmethod
    def attention(self, q: Any, k: Any, v: Any) -> Any:
        """Softmax of scaled products, of (batch, tokens, size)."""

    @abstractmethod
    def gelu(self, x: Any) -> Any:
        """x Φ(x)."""

    @abstractmethod
    def reshape(self, x: Any, shape: Shape) -> Any:
        """The same elements in another shape."""

    @abstractmethod
    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        """Axes in another order."""

    @abstractmethod
    def join(self, parts: Sequence[Any], axis: int) -> Any:
        """Concatenation."""

    @abstractmethod
    def rows(self, table: Any, numbers: Any) -> Any:
        """Rows of a table."""

    @abstractmethod
    def lstm(self, xs: Any, weights: Sequence[Any]) -> Any:
        """All states of an LSTM over (steps, batch, size); weights as PyTorch has them."""

    @abstractmethod
    def surprise(self, scores: Any, labels: Any) -> Any:
        """The mean of −log p(label) of rows of scores."""


class Graph(Operators):
    """Builds a program."""

    def __init__(self) -> None:
        self.b, self.params = Builder(), list[Var]()

    def param(self, name: str, shape: Shape) -> Any:
        self.params.append(self.b.var(name, shape))
        return self.params[-1]

    def conv(self, x: Any, weight: Any, stride: int, padding: int) -> Any:
        return self.b.nn.conv2d(x, weight, strides=(stride, stride), padding=(padding, padding))

    def batch_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        return self.b.get(self.b.nn.batch_norm_train(x, gamma, beta), 0)

    def max_pool(self, x: Any) -> Any:
        return self.b.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))

    def mean(self, x: Any, axes: Sequence[int]) -> Any:
        return self.b.mean(x, axis=tuple(axes))

    def add(self, x: Any, y: Any) -> Any:
        return self.b.add(x, y)

    def relu(self, x: Any) -> Any:
        return self.b.nn.relu(x)

    def dense(self, x: Any, weight: Any, bias: Any) -> Any:
        *outer, inner = [int(d.value) for d in x.ty.shape]
        flat = x if len(outer) == 1 else self.reshape(x, (int(np.prod(outer)), inner))
        y = self.b.add(self.b.nn.dense(flat, weight), bias)
        return y if len(outer) == 1 else self.reshape(y, (*outer, int(weight.ty.shape[0].value)))

    def layer_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        return self.b.nn.layer_norm(x, gamma, beta)

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        b, size = self.b, int(q.ty.shape[-1].value)
        scores = b.nn.batch_matmul(b.multiply(q, size**-0.5), k, transpose_b=True)
        return b.nn.batch_matmul(b.nn.softmax(scores), v, transpose_b=False)

    def gelu(self, x: Any) -> Any:
        b = self.b
        return b.multiply(b.multiply(x, 0.5), b.add(b.erf(b.multiply(x, 0.5**0.5)), 1.0))

    def reshape(self, x: Any, shape: Shape) -> Any:
        return self.b.reshape(x, newshape=shape)

    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        return self.b.transpose(x, axes=tuple(axes))

    def join(self, parts: Sequence[Any], axis: int) -> Any:
        return self.b.concatenate(self.b.tuple_(parts), axis=axis)

    def rows(self, table: Any, numbers: Any) -> Any:
        return self.b.take(table, numbers, axis=0)

    def lstm(self, xs: Any, weights: Sequence[Any]) -> Any:
        b, (of_x, of_h, bias_x, bias_h) = self.b, weights
        steps, count, _ = (int(d.value) for d in xs.ty.shape)
        size = int(of_h.ty.shape[1].value)
        inputs = b.split(self.dense(xs, of_x, b.add(bias_x, bias_h)), indices_or_sections=steps, axis=0)
        h: Any = b.zeros(shape=(count, size), dtype="float32")
        c: Any = h
        states = []
        for step in range(steps):
            sums = b.add(b.reshape(b.get(inputs, step), newshape=(count, 4 * size)), b.nn.dense(h, of_h))
            parts = b.split(sums, indices_or_sections=4, axis=1)
            i, f, g, o = (b.get(parts, n) for n in range(4))
            c = b.add(b.multiply(b.sigmoid(f), c), b.multiply(b.sigmoid(i), b.tanh(g)))
            h = b.multiply(b.sigmoid(o), b.tanh(c))
            states.append(b.expand_dims(h, axis=0))
        return self.join(states, 0)

    def surprise(self, scores: Any, labels: Any) -> Any:
        b = self.b
        likely = b.nn.log_softmax(scores, axis=1)
        return b.negative(b.mean(b.gather(likely, b.expand_dims(labels, axis=1), axis=1)))


class Eager(Operators):
    """Runs in PyTorch, with these parameters."""

    def __init__(self, params: Mapping[str, torch.Tensor]) -> None:
        self.params = params

    def param(self, name: str, shape: Shape) -> Any:
        return self.params[name]

    def conv(self, x: Any, weight: Any, stride: int, padding: int) -> Any:
        return functional.conv2d(x, weight, stride=stride, padding=padding)

    def batch_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        return functional.batch_norm(x, None, None, gamma, beta, training=True)

    def max_pool(self, x: Any) -> Any:
        return functional.max_pool2d(x, 3, 2, 1)

    def mean(self, x: Any, axes: Sequence[int]) -> Any:
        return x.mean(tuple(axes))

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def relu(self, x: Any) -> Any:
        return functional.relu(x)

    def dense(self, x: Any, weight: Any, bias: Any) -> Any:
        return functional.linear(x, weight, bias)

    def layer_norm(self, x: Any, gamma: Any, beta: Any) -> Any:
        return functional.layer_norm(x, x.shape[-1:], gamma, beta)

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return functional.scaled_dot_product_attention(q, k, v)

    def gelu(self, x: Any) -> Any:
        return functional.gelu(x)

    def reshape(self, x: Any, shape: Shape) -> Any:
        return x.reshape(shape)

    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        return x.permute(tuple(axes))

    def join(self, parts: Sequence[Any], axis: int) -> Any:
        return torch.cat(list(parts), axis)

    def rows(self, table: Any, numbers: Any) -> Any:
        return functional.embedding(numbers, table)

    def lstm(self, xs: Any, weights: Sequence[Any]) -> Any:
        state = xs.new_zeros(1, xs.shape[1], weights[1].shape[1])
        return torch.lstm(xs, (state, state), list(weights), True, 1, 0.0, True, False, False)[0]

    def surprise(self, scores: Any, labels: Any) -> Any:
        return functional.cross_entropy(scores, labels.long())


def resnet18(f: Operators, images: Any, labels: Any) -> Any:
    """He et al., "Deep residual learning for image recognition", 2016, with the statistics of the batch."""

    def layer(x: Any, name: str, inputs: int, outputs: int, window: int, stride: int) -> Any:
        y = f.conv(x, f.param(f"{name}_weight", (outputs, inputs, window, window)), stride, window // 2)
        return f.batch_norm(y, f.param(f"{name}_gamma", (outputs,)), f.param(f"{name}_beta", (outputs,)))

    x, wide = f.max_pool(f.relu(layer(images, "stem", 3, 64, 7, 2))), 64
    for stage, outputs in enumerate((64, 128, 256, 512)):
        for unit in range(2):
            name, stride = f"s{stage}u{unit}", 2 if stage and not unit else 1
            y = f.relu(layer(x, f"{name}a", wide, outputs, 3, stride))
            y = layer(y, f"{name}b", outputs, outputs, 3, 1)
            x = x if wide == outputs else layer(x, f"{name}c", wide, outputs, 1, stride)
            x, wide = f.relu(f.add(y, x)), outputs
    scores = f.dense(f.mean(x, (2, 3)), f.param("out_weight", (1000, 512)), f.param("out_bias", (1000,)))
    return f.surprise(scores, labels)


TOKENS, WIDE, HEADS, BLOCKS = 196, 192, 3, 12


def vit_tiny(f: Operators, images: Any, labels: Any) -> Any:
    """Dosovitskiy et al., "An image is worth 16x16 words", 2021: patches of 16 pixels, 12 blocks of 192."""
    count = BATCH
    x = f.reshape(images, (count, 3, 14, 16, 14, 16))
    x = f.reshape(f.transpose(x, (0, 2, 4, 1, 3, 5)), (count, TOKENS, 768))
    x = f.dense(x, f.param("patch_weight", (WIDE, 768)), f.param("patch_bias", (WIDE,)))
    x = f.add(x, f.param("place", (1, TOKENS, WIDE)))
    for block in range(BLOCKS):
        x = f.add(x, _attention(f, _norm(f, x, f"b{block}_norm1"), f"b{block}", count))
        y = f.gelu(_dense(f, _norm(f, x, f"b{block}_norm2"), f"b{block}_in", WIDE, 4 * WIDE))
        x = f.add(x, _dense(f, y, f"b{block}_out", 4 * WIDE, WIDE))
    return f.surprise(_dense(f, f.mean(_norm(f, x, "norm"), (1,)), "out", WIDE, 1000), labels)


def _attention(f: Operators, x: Any, name: str, count: int) -> Any:
    def heads(part: str) -> Any:
        y = f.reshape(_dense(f, x, f"{name}_{part}", WIDE, WIDE), (count, TOKENS, HEADS, WIDE // HEADS))
        return f.reshape(f.transpose(y, (0, 2, 1, 3)), (count * HEADS, TOKENS, WIDE // HEADS))

    y = f.attention(heads("q"), heads("k"), heads("v"))
    y = f.transpose(f.reshape(y, (count, HEADS, TOKENS, WIDE // HEADS)), (0, 2, 1, 3))
    return _dense(f, f.reshape(y, (count, TOKENS, WIDE)), f"{name}_proj", WIDE, WIDE)


def _dense(f: Operators, x: Any, name: str, inputs: int, outputs: int) -> Any:
    return f.dense(x, f.param(f"{name}_weight", (outputs, inputs)), f.param(f"{name}_bias", (outputs,)))


def _norm(f: Operators, x: Any, name: str) -> Any:
    return f.layer_norm(x, f.param(f"{name}_gamma", (WIDE,)), f.param(f"{name}_beta", (WIDE,)))


def _lstm(f: Operators, xs: Any, inputs: int, size: int) -> Any:
    shapes = {"of_x": (4 * size, inputs), "of_h": (4 * size, size), "x_bias": (4 * size,), "h_bias": (4 * size,)}
    return f.lstm(xs, [f.param(name, shape) for name, shape in shapes.items()])


def char_rnn(f: Operators, chars: Any, following: Any) -> Any:
    """An LSTM of 128 over 64 characters of 32 texts."""
    states = _lstm(f, f.rows(f.param("embed", (96, 64)), chars), 64, 128)
    scores = _dense(f, f.reshape(states, (64 * 32, 128)), "out", 128, 96)
    return f.surprise(scores, f.reshape(following, (64 * 32,)))


def lstm(f: Operators, xs: Any, labels: Any) -> Any:
    """An LSTM of 256 over 64 steps of 8 sequences; what is said of the last state."""
    states = _lstm(f, xs, 256, 256)
    return f.surprise(_dense(f, f.mean(states, (0,)), "out", 256, 10), labels)


BATCH = 8
_IMAGES: dict[str, tuple[Shape, int]] = {"images": ((BATCH, 3, 224, 224), 0), "labels": ((BATCH,), 1000)}


@dataclass(frozen=True, slots=True)
class Net:
    """A network: its title, the loss, and its batch: shapes, each with how many numbers there are, 0 for floats."""

    title: str
    loss: Callable[..., Any]
    inputs: Mapping[str, tuple[Shape, int]]

    def program(self) -> Module:
        """The loss as a program of its parameters and its batch."""
        graph = Graph()
        batch = [
            graph.b.var(name, shape, "int32" if most else "float32") for name, (shape, most) in self.inputs.items()
        ]
        loss = self.loss(graph, *batch)
        return infer(Module.from_expr(graph.b.function([*graph.params, *batch], loss)))


NETS = {
    "resnet18": Net("ResNet-18, batch 8", resnet18, _IMAGES),
    "vit_tiny": Net("ViT-tiny, batch 8", vit_tiny, _IMAGES),
    "char_rnn": Net("CharRNN, 64 characters of 32 texts", char_rnn,
                    {"chars": ((64, 32), 96), "following": ((64, 32), 96)}),
    "lstm": Net("LSTM, 64 steps of 256, batch 8", lstm, {"xs": ((64, 8, 256), 0), "labels": ((8,), 10)}),
}  # fmt: skip


def parameters(net: Net) -> dict[str, Array]:
    """First values of all parameters."""
    rng = np.random.default_rng(0)
    found = {p.name: p.ty for p in main_of(net.program()).params if p.name not in net.inputs}
    return {
        name: xavier(name, ty.concrete_shape, rng).astype(np.float32)
        for name, ty in found.items()
        if isinstance(ty, TensorType)
    }


def batch(net: Net) -> dict[str, Array]:
    """A batch."""
    rng = np.random.default_rng(1)
    return {
        name: rng.integers(most, size=shape, dtype=np.int32) if most else rng.normal(size=shape).astype(np.float32)
        for name, (shape, most) in net.inputs.items()
    }
