"""Transformers as ONNX Runtime's tools leave them: fused by its optimiser, and decoders with a cache."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import legato
from legato.frontend.onnx import from_onnx
from legato.interp import evaluate
from tests.frontend.onnx.decoder_graph import OWN, SIZE, WORDS, decoder
from tests.frontend.onnx.microsoft import HALF
from tests.frontend.onnx.peer import Array, legato_outputs, ort_outputs

HEADS, HIDDEN = 4, 32
FUSED = {"bert": {"Attention", "BiasGelu", "EmbedLayerNormalization", "SkipLayerNormalization"},
         "gpt2": {"FastGelu", "SkipLayerNormalization"}, "t5": {"SkipSimplifiedLayerNormalization"}}  # fmt: skip


def _small(kind: str) -> Any:
    """A model of a few random layers."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    if kind == "bert":
        config = transformers.BertConfig(
            vocab_size=50, hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=HEADS, intermediate_size=64,
            max_position_embeddings=16, attn_implementation="eager",
        )  # fmt: skip
        return transformers.BertModel(config)
    if kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=50, n_positions=16, n_embd=HIDDEN, n_layer=2, n_head=HEADS, attn_implementation="eager",
            use_cache=False, eos_token_id=1, bos_token_id=1,
        )  # fmt: skip
        return transformers.GPT2Model(config)
    config = transformers.T5Config(vocab_size=50, d_model=HIDDEN, d_kv=8, d_ff=64, num_layers=2, num_heads=HEADS)
    return transformers.T5EncoderModel(config)


def _optimised(kind: str, folder: Path) -> Any:
    """The model as ONNX Runtime's optimiser for transformers leaves it."""
    torch = pytest.importorskip("torch")
    names = ["input_ids", "attention_mask"]

    class Hidden(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = _small(kind)

        def forward(self, ids: Any, mask: Any) -> Any:
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    path = folder / "model.onnx"
    args = (torch.randint(0, 50, (2, 7)), torch.ones(2, 7, dtype=torch.int64))
    axes = {name: {0: "batch", 1: "length"} for name in names}
    torch.onnx.export(Hidden().eval(), args, str(path), input_names=names, output_names=["y"], dynamo=False,
                      opset_version=17, dynamic_axes=axes)  # fmt: skip
    from onnxruntime.transformers import optimizer

    return optimizer.optimize_model(str(path), model_type=kind, num_heads=HEADS, hidden_size=HIDDEN, opt_level=0)


def _saved(optimised: Any, folder: Path) -> onnx.ModelProto:
    """The file that the optimiser saves, which names the domains of its operators."""
    optimised.save_model_to_file(str(folder / "optimised.onnx"))
    return onnx.load(folder / "optimised.onnx")


def _tokens() -> dict[str, Array]:
    rng = np.random.default_rng(1)
    mask = np.ones((3, 6), np.int64)
    mask[1, 4:] = 0
    return {"input_ids": rng.integers(0, 50, (3, 6)), "attention_mask": mask}


@pytest.mark.parametrize("kind", FUSED)
def test_optimised_models(kind: str, tmp_path: Path) -> None:
    """In float32, for any batch and length; and as the same tool converts them to 16 bits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter
        optimised = _optimised(kind, tmp_path)
        proto = _saved(optimised, tmp_path)
        optimised.convert_float_to_float16(keep_io_types=True)
        small = _saved(optimised, tmp_path)
    assert {node.op_type for node in proto.graph.node if node.domain} >= FUSED[kind]
    feeds = {value.name: _tokens()[value.name] for value in proto.graph.input}
    (wanted,) = ort_outputs(proto, feeds)
    module = from_onnx(proto)
    args = [feeds[param.name] for param in module["main"].params]
    found = [evaluate(module, args)]
    if kind == "bert":
        found.append(np.asarray(legato.compile(module)(*args)))
    for got in found:
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    assert onnx.TensorProto.FLOAT16 in {tensor.data_type for tensor in small.graph.initializer}
    (half,) = legato_outputs(small, feeds)
    np.testing.assert_allclose(half, wanted, rtol=HALF, atol=HALF * np.abs(wanted).max())


def _step(ids: Array, lengths: list[int], cache: tuple[Array, Array]) -> dict[str, Array]:
    total = max(lengths)
    mask = (np.arange(total) < np.array(lengths)[:, None]).astype(np.int64)
    return {"ids": ids, "mask": mask, "past_key": cache[0], "past_value": cache[1]}


def test_a_decoder_with_its_cache() -> None:
    """A prompt, and tokens one by one: each call goes on from the cache of the one before."""
    proto, rng = decoder(), np.random.default_rng(4)
    module = from_onnx(proto)
    program = legato.compile(module)
    names = [param.name for param in module["main"].params]
    cache = (np.zeros((2, OWN, 0, SIZE), np.float32),) * 2
    lengths = [0, 0]
    for count in (5, 1, 1):
        lengths = [n + count for n in lengths]
        feeds = _step(rng.integers(0, WORDS, (2, count)), lengths, cache)
        wanted = ort_outputs(proto, feeds)
        args = [feeds[name] for name in names]
        results: list[Any] = [evaluate(module, args), program(*args)]
        for found in results:
            for got, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-4)
        cache = wanted[1], wanted[2]
