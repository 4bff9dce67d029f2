"""A decoder block of a language model, for sequences of any length: compiled = interpreted = torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato import relax
from legato.interp import evaluate
from legato.relax.frontend import nn
from legato.relax.frontend.nn import op
from tests.relax.frontend.nn.traced import LUCK, model

torch = pytest.importorskip("torch")
WIDTH, HEADS, INNER, WORDS = 16, 2, 24, 11
HALF = WIDTH // HEADS // 2


class Attention(nn.Module):
    def __init__(self) -> None:
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        b, n, _ = x.shape
        q, k, v = (op.reshape(f(x), (b, n, HEADS, 2 * HALF)) for f in (self.q_proj, self.k_proj, self.v_proj))
        found = op.scaled_dot_product_attention(_turned(q), _turned(k), v, is_causal=True)
        return self.o_proj(op.reshape(found, (b, n, WIDTH)))


def _turned(x: nn.Tensor) -> nn.Tensor:
    """Pairs of numbers, turned by angles that grow with the position."""
    rates = op.exp(op.arange(HALF) * (-np.log(10000.0) / HALF))
    angles = op.unsqueeze(op.arange(x.shape[1]), 1) * rates
    cos, sin = (op.unsqueeze(op.concat([f(angles)] * 2, 1), 1) for f in (op.cos, op.sin))
    a, b = op.split(x, 2, axis=-1)
    return x * cos + op.concat([-b, a], -1) * sin


class Block(nn.Module):
    def __init__(self) -> None:
        self.input_layernorm = nn.RMSNorm(WIDTH, -1, bias=False)
        self.self_attn = Attention()
        self.post_attention_layernorm = nn.RMSNorm(WIDTH, -1, bias=False)
        self.gate_proj, self.up_proj = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        y = self.post_attention_layernorm(x)
        return x + self.down_proj(op.silu(self.gate_proj(y)) * self.up_proj(y))


class Decoder(nn.Module):
    def __init__(self) -> None:
        self.embed_tokens = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList([Block()])
        self.norm = nn.RMSNorm(WIDTH, -1, bias=False)

    def main(self, words: nn.Tensor) -> nn.Tensor:
        return op.matmul(self.norm(self.layers(self.embed_tokens(words))), op.permute_dims(self.embed_tokens.weight))


def _reference(state: dict[str, Any], words: Any) -> Any:
    """The same in torch, with weights by name."""
    F = torch.nn.functional

    def norm(x: Any, name: str) -> Any:
        return F.rms_norm(x, (WIDTH,), state[f"{name}.weight"], 1e-5)

    def turned(x: Any) -> Any:
        rates = torch.exp(torch.arange(HALF) * (-np.log(10000.0) / HALF))
        angles = (torch.arange(x.shape[2])[:, None] * rates).repeat(1, 2)
        a, b = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()

    x = state["embed_tokens.weight"][words.long()]
    for layer in ("layers.0",):
        y = norm(x, f"{layer}.input_layernorm")
        q, k, v = (
            F.linear(y, state[f"{layer}.self_attn.{n}_proj.weight"]).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for n in "qkv"
        )
        seen = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + F.linear(seen, state[f"{layer}.self_attn.o_proj.weight"])
        y = norm(x, f"{layer}.post_attention_layernorm")
        gate, up, down = (state[f"{layer}.{n}_proj.weight"] for n in ("gate", "up", "down"))
        x = x + F.linear(F.silu(F.linear(y, gate)) * F.linear(y, up), down)
    return norm(x, "norm") @ state["embed_tokens.weight"].T


def test_a_decoder_at_several_lengths() -> None:
    built = Decoder()
    state = {name: torch.from_numpy(LUCK.standard_normal(p.shape).astype("float32") / 4) for name, p in
             built.named_parameters()}  # fmt: skip
    mod, weights = model(built, state, {"main": {"words": nn.spec.Tensor(["b", "n"], "int32")}})
    vm = relax.VirtualMachine(relax.build(mod), relax.cpu())
    for shape in ((1, 1), (2, 3), (1, 9)):
        words = LUCK.integers(0, WORDS, shape, "int32")
        wanted = _reference(state, torch.from_numpy(words)).numpy()
        found = vm["main"](words, *weights)
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(evaluate(mod, [words, *weights]), wanted, rtol=2e-4, atol=2e-5)
