"""Gradients of whole models are those of PyTorch: the model zoo, evaluated by torch operator by operator."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import legato
from legato.infer.infer import infer
from legato.interp import Data
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.relay import testing
from tests.autodiff.test_torch import as_torch, tensors
from tests.autodiff.twin import Twin
from tests.heavy import light

ATTENTION = """
def @main(%x: Tensor[(2, 6, 16), float32], %wq: Tensor[(16, 16), float32], %wk: Tensor[(16, 16), float32],
          %wv: Tensor[(16, 16), float32], %mask: Tensor[(6, 6), bool]) -> Tensor[(2, 6, 16), float32] {
  let %q = transpose(reshape(nn.dense(%x, %wq), newshape=[2, 6, 4, 4]), axes=[0, 2, 1, 3]);
  let %k = transpose(reshape(nn.dense(%x, %wk), newshape=[2, 6, 4, 4]), axes=[0, 2, 1, 3]);
  let %v = transpose(reshape(nn.dense(%x, %wv), newshape=[2, 6, 4, 4]), axes=[0, 2, 1, 3]);
  let %scores = matmul(%q, transpose(%k, axes=[0, 1, 3, 2])) * 0.5f;
  let %weights = nn.softmax(where(%mask, %scores, negative(10000f)), axis=-1);
  reshape(transpose(matmul(%weights, %v), axes=[0, 2, 1, 3]), newshape=[2, 6, 16])
}"""

MODELS: dict[str, Callable[[], Any]] = {
    "mlp": lambda: testing.mlp.get_workload(batch_size=3)[0],
    "lstm": lambda: testing.lstm.get_workload(iterations=4, num_hidden=8, batch_size=2)[0],
    "gru": lambda: testing.gru.get_workload(iterations=4, num_hidden=8, batch_size=2)[0],
    "attention": lambda: legato.parse(ATTENTION),
    "resnet-18": lambda: testing.resnet.get_workload(2, 10, 18, (3, 32, 32))[0],
    "mobilenet": lambda: testing.mobilenet.get_workload(2, 10, (3, 32, 32))[0],
    "mobilenet-v2": lambda: testing.mobilenet_v2.get_workload(2, 10, (3, 32, 32))[0],
}


def arguments(main: Function, rng: np.random.Generator) -> list[Any]:
    """Random parameters: variances are positive, weights of the size that keeps sums of about 1."""
    found = []
    for p in main.params:
        assert isinstance(p.ty, TensorType)
        shape = p.ty.static_shape()
        if p.ty.dtype.is_bool:
            found.append(np.asarray(rng.random(shape) < 0.7))
        elif "var" in p.name or "gamma" in p.name:
            found.append(rng.uniform(0.5, 1.5, shape).astype(np.float32))
        else:
            scale = 1.0 if len(shape) < 2 or p.name in ("x", "data") else np.prod(shape[1:]) ** -0.5
            found.append((rng.standard_normal(shape) * scale).astype(np.float32))
    return found


def require_equal(mod: Module, args: list[Any], rtol: float) -> None:
    """Compiled gradients of all parameters, for a random cotangent, are PyTorch's."""
    given = tuple(map(as_torch, args))
    out = tensors(Twin(mod)(*given))
    rng = np.random.default_rng(1)
    dys = [rng.standard_normal(tuple(t.shape)).astype(np.float32) for t in out]
    wanted = torch.autograd.grad(out, tensors(given), [torch.from_numpy(d) for d in dys], allow_unused=True)
    _, gradients = legato.compile(legato.autodiff.vjp(mod))(*args, *dys)
    for got, w, t in zip(tensors(as_torch(gradients)), wanted, tensors(given), strict=True):
        w = torch.zeros_like(t) if w is None else w
        scale = max(float(w.abs().max()), 1e-6)
        np.testing.assert_allclose(got.detach().numpy(), w.numpy(), rtol=0, atol=rtol * scale)


@pytest.mark.parametrize("name", light(MODELS, MODELS.keys() - {"mobilenet", "mobilenet-v2"}))
def test_models(name: str) -> None:
    made = MODELS[name]()
    mod = infer(made if isinstance(made, Module) else made.module)
    main = mod["main"]
    assert isinstance(main, Function)
    require_equal(mod, arguments(main, np.random.default_rng(zlib.crc32(name.encode()))), 1e-3)


def test_tree_lstm() -> None:
    """The gradients of the weights of a recursive program over a tree, and of the tree's own vectors."""
    mod = infer(testing.tree_lstm.get_net(num_inputs=6, num_hidden=5).module)
    main = mod["main"]
    assert isinstance(main, Function)
    rng = np.random.default_rng(4)
    by_name = {con.name: con for data in mod.types.values() for con in data.constructors}

    def tree(depth: int) -> Data:
        children: Any = Data(by_name["Nil"], ())
        for _ in range(depth):
            children = Data(by_name["Cons"], (tree(depth - 1), children))
        return Data(by_name["Rose"], (rng.standard_normal((1, 6)).astype(np.float32), children))

    weights = [rng.standard_normal(p.ty.static_shape()).astype(np.float32) for p in main.params[1:]]  # type: ignore[union-attr]
    require_equal(mod, [tree(3), *weights], 1e-4)


class Block(torch.nn.Module):
    """A layer of a vision transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.proj = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        parts = self.qkv(self.before(x)).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(parts[0] @ parts[1].transpose(-1, -2) * (width // self.heads) ** -0.5, -1)
        x = x + self.proj((weights @ parts[2]).transpose(1, 2).reshape(n, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.after(x))))


class ViT(torch.nn.Module):
    """A vision transformer of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = torch.nn.Conv2d(3, 16, 4, 4)
        self.token, self.places = (torch.nn.Parameter(torch.randn(1, n, 16)) for n in (1, 5))
        self.blocks = torch.nn.Sequential(Block(16, 2), Block(16, 2))
        self.norm, self.head = torch.nn.LayerNorm(16), torch.nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        result: torch.Tensor = self.head(self.norm(self.blocks(x))[:, 0])
        return result


@pytest.mark.filterwarnings("ignore")
def test_a_vision_transformer_from_onnx(tmp_path: Path) -> None:
    """A model that torch exports is differentiable, by its weights too."""
    torch.manual_seed(0)
    model = ViT().eval()
    for weight in model.parameters():  # no two are alike: the exporter would make one of them
        torch.nn.init.normal_(weight, 0.5, 0.3)
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    path = str(tmp_path / "vit.onnx")
    torch.onnx.export(model, (x,), path, dynamo=False, do_constant_folding=False, input_names=["x"])
    mod, params = legato.relay.frontend.from_onnx(path, freeze_params=False)
    dy = torch.randn(2, 3)
    model(x).backward(dy)
    named = dict(model.named_parameters())
    wrt = ["x", *(name for name in params if name in named)]
    assert len(wrt) >= 25  # the exporter transposes the other weights, under names of its own
    exe = legato.compile(legato.autodiff.vjp(mod.module, wrt))
    main = mod.module["main"]
    assert isinstance(main, Function)
    given = {"x": x.detach().numpy(), **{name: np.asarray(a) for name, a in params.items()}}
    _, gradients = exe(*(given[p.name] for p in main.params), dy.numpy())
    for name, got in zip(wrt, gradients, strict=True):
        wanted = x.grad if name == "x" else named[name].grad
        assert wanted is not None
        scale = max(float(wanted.abs().max()), 1e-3)
        np.testing.assert_allclose(got, wanted.numpy(), rtol=0, atol=1e-4 * scale)
