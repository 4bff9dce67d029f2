"""What is measured: the models, their inputs, and the torch modules that their files were made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from legato.base.errors import RunError
from legato.bench.engines import Array, Engine, Feeds
from legato.bench.run import Maker
from tools.bench.peers.process import FRAMEWORKS, peer_engine
from tools.models import Model, cache, get

__all__ = ["ENTRIES", "Entry", "entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One row: a model of tools.models, what people call it, and whether it enters the mean over the table."""

    name: str
    title: str
    scored: bool

    @property
    def model(self) -> Model:
        """The model's record."""
        return get(self.name)

    def others(self) -> dict[str, Maker]:
        """Engines that need more than the file, or an environment of their own."""
        path = self.model.path()
        return {
            "torch": partial(torch_engine, self.name),
            **{name: partial(peer_engine, name, framework, path) for name, framework in FRAMEWORKS.items()},
        }


TABLE = {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "mobilenet_v2": "MobileNetV2",
    "mobilenet_v3_large": "MobileNetV3 large",
    "efficientnet_b0": "EfficientNet-B0",
    "vgg16": "VGG-16",
    "densenet121": "DenseNet-121",
    "inception_v3": "Inception v3, 299 pixels",
    "squeezenet1_1": "SqueezeNet 1.1",
    "shufflenet_v2_x1_0": "ShuffleNetV2",
    "convnext_tiny": "ConvNeXt-Tiny",
    "vit_b_16": "ViT-B/16",
    "bert_base": "BERT-base, 128 tokens",
    "dqn": "DQN",
    "lstm": "LSTM, 64 steps of 256",
    "gru": "GRU, 64 steps of 256",
}
TRAINED = {
    "minilm": "MiniLM, 32 tokens",
    "ppocr_det": "PP-OCR: where text is",
    "ppocr_cls": "PP-OCR: which way up",
    "ppocr_rec": "PP-OCR: what it says",
    "magika": "Magika",
    "basic_pitch": "Basic Pitch",
    "crepe": "CREPE tiny",
    "silero_vad_sequence": "Silero VAD, half a second",
    "silero_vad_op18": "Silero VAD, 32 ms",
    "pnet": "MTCNN: proposals",
    "rnet": "MTCNN: refinement",
    "onet": "MTCNN: landmarks",
}
ENTRIES = (
    *(Entry(name, title, True) for name, title in TABLE.items()),
    *(Entry(name, title, False) for name, title in TRAINED.items()),
)


def entry(name: str) -> Entry:
    """The entry of that name; KeyError where there is none."""
    return {entry.name: entry for entry in ENTRIES}[name]


def torch_engine(name: str, feeds: Feeds, threads: int, fixed: bool) -> Engine:
    """Torch, eager, on the module that the file was exported from; RunError where there is none."""
    import torch

    from tools.models.export import NETS, module

    if name not in NETS:
        raise RunError("the file comes without a torch module")
    torch.set_num_threads(threads)
    net = module(name, cache())
    tensors = [torch.from_numpy(array) for array in feeds.values()]

    def call() -> list[Array]:
        with torch.inference_mode():
            return [tensor.numpy() for tensor in leaves(net(*tensors))]

    return Engine("torch", torch.__version__, call)


def leaves(value: Any) -> Iterator[Any]:
    """The tensors in nested tuples."""
    if isinstance(value, tuple):
        for part in value:
            yield from leaves(part)
    else:
        yield value
