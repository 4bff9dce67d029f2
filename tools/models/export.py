"""Exports torch modules as ONNX files: `python -m tools.models.export FOLDER NET ...`, in a process of its own.

Each network gives a file for one sample (`NET.onnx`), and most a second one with symbolic dimensions
(`NET_batch.onnx`). Both of torch's exporters are used, because files of both are what users have: the older one, with
batch norms kept, and the one that is torch's default since 2.9, which folds them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn

from tools.models import MODELS, nets
from tools.models.images import photos
from tools.models.record import Feeds
from tools.models.sources import download
from tools.zoo.packages import declare_operators

TORCHVISION = "torchvision==0.28.0"  # the one for torch 2.13.0
LARGE = 1024  # bytes from which on a tensor goes into the file of weights
ALIGN = 64


@dataclass(frozen=True, slots=True)
class Net:
    """How one network is built and exported.

    `symbolic` names the symbolic dimensions of every input by their axes; where there are none, only the file for one
    sample is made.
    """

    build: Callable[[Path], nn.Module]
    outputs: tuple[str, ...] = ("y",)
    symbolic: tuple[str, ...] = ("batch",)
    axes: tuple[int, ...] = (0,)
    opset: int = 17
    older: bool = True
    split: bool = False


# -------------------------------------------------------------------------------------------------- the networks


def vision(
    name: str, calibrate: bool = True, size: int = 224, shake: Callable[[nn.Module], None] | None = None, **options: Any
) -> Callable[[Path], nn.Module]:
    """A torchvision definition with random weights, its batch norms set to what real pictures give, and shaken.

    size: the pictures' side; shake: gives weights to what the definition starts with constants; options: its own.
    """

    def build(folder: Path) -> nn.Module:
        net: nn.Module = getattr(torchvision_models(folder / "weights"), name)(weights=None, **options)
        if calibrate:
            calibrate_norms(net, torch.from_numpy(photos(4, size)))
        if shake is not None:
            shake(net)
        return net

    return build


@cache
def torchvision_models(folder: Path) -> Any:
    """torchvision.models, out of its wheel in `folder`.

    Installing it would break others: its C library wants a CUDA build of torch, and without it two operators are
    missing that importing it refers to. They are declared here, and never called.
    """
    found = next(folder.glob("torchvision-*.whl"), None)
    sys.path.insert(0, str(found or download(TORCHVISION, folder)))
    declare_operators()
    from torchvision import models  # type: ignore[import-not-found]

    return models


def calibrate_norms(net: nn.Module, batch: torch.Tensor) -> None:
    """Give every batch norm the statistics of `batch`, slightly off, and a random scale and shift.

    Means are off by a share of the channel's own spread: what is absolute would drown channels that hardly vary, of
    which squeezed and excited maps have many, and from there on rounding errors would be all that is left.
    """
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # the plain mean over all batches seen
        norm.reset_running_stats()
        nn.init.uniform_(norm.weight, 0.7, 1.3)
        nn.init.normal_(norm.bias, std=0.2)
    with torch.no_grad():
        net.train()(batch)
        for norm in norms:
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean.add_(0.1 * torch.randn_like(norm.running_mean) * norm.running_var.sqrt())
            norm.running_var.mul_(torch.empty_like(norm.running_var).uniform_(0.8, 1.25))
    net.eval()


def spread_scales(net: nn.Module) -> None:
    """Let ConvNeXt's blocks count: their outputs are scaled by 1e-6 at first, which no difference would survive."""
    for name, weight in net.named_parameters():
        if name.endswith("layer_scale"):
            nn.init.uniform_(weight, 0.5, 1.5)


def spread_head(net: nn.Module) -> None:
    """Give the vision transformer's classifier weights: it starts with zeros, and so do all answers."""
    for name, weight in net.named_parameters():
        if name.startswith("heads."):
            nn.init.normal_(weight, std=0.05)


def loaded(net: Callable[[], nn.Module], name: str) -> Callable[[Path], nn.Module]:
    """A module with the weights of a torch file of the cache; only tensors are read, no code is run."""

    def build(folder: Path) -> nn.Module:
        module = net()
        module.load_state_dict(torch.load(folder / "weights" / name, weights_only=True))
        return module

    return build


def bert(**config: Any) -> nn.Module:
    """A BERT of transformers, with random weights."""
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**config))


def minilm(folder: Path) -> nn.Module:
    """MiniLM-L6 with its trained weights."""
    from safetensors.torch import load_file

    module = bert(**json.loads((folder / "weights/minilm.json").read_text()))
    weights = load_file(folder / "weights/minilm.safetensors")
    module.load_state_dict({name: value for name, value in weights.items() if name != "embeddings.position_ids"})
    return nets.SentenceEncoder(module)


def text_net(build: Callable[[Path], nn.Module], outputs: tuple[str, ...], split: bool = False) -> Net:
    """A network for sentences of any number and length."""
    return Net(build, outputs, ("batch", "length"), (0, 1), opset=18, older=False, split=split)


def alone(build: Callable[[Path], nn.Module], older: bool = True) -> Net:
    """A network that is exported for one sample only."""
    return Net(build, symbolic=(), axes=(), opset=17 if older else 20, older=older)


NETS = {
    "resnet18": Net(vision("resnet18")),
    "resnet50": Net(vision("resnet50")),
    "mobilenet_v2": Net(vision("mobilenet_v2"), opset=20, older=False),
    "vgg16": Net(vision("vgg16", calibrate=False), split=True),
    "mobilenet_v3_large": alone(vision("mobilenet_v3_large"), older=False),
    "efficientnet_b0": alone(vision("efficientnet_b0"), older=False),
    "densenet121": alone(vision("densenet121")),
    "inception_v3": alone(vision("inception_v3", size=299, init_weights=True)),
    "squeezenet1_1": alone(vision("squeezenet1_1", calibrate=False)),
    "shufflenet_v2_x1_0": alone(vision("shufflenet_v2_x1_0")),
    "convnext_tiny": alone(vision("convnext_tiny", calibrate=False, shake=spread_scales), older=False),
    "vit_b_16": alone(vision("vit_b_16", calibrate=False, shake=spread_head), older=False),
    "lstm": alone(lambda _: nets.Recurrent(nn.LSTM(256, 256))),
    "gru": alone(lambda _: nets.Recurrent(nn.GRU(256, 256))),
    "dqn": Net(lambda _: nets.dqn()),
    "pnet": Net(
        loaded(nets.pnet, "pnet.pt"), ("boxes", "faces"), symbolic=("batch", "height", "width"), axes=(0, 2, 3)
    ),
    "rnet": Net(loaded(nets.rnet, "rnet.pt"), ("boxes", "faces")),
    "onet": Net(loaded(nets.onet, "onet.pt"), ("boxes", "landmarks", "faces")),
    "crepe": Net(loaded(nets.Crepe, "crepe.pt"), ("scores",)),
    "minilm": text_net(minilm, ("embeddings",)),
    "bert_base": text_net(lambda _: nets.Bert(bert()), ("hidden", "pooled"), split=True),
}


# ---------------------------------------------------------------------------------------------------- exporting


def export(net: Net, module: nn.Module, feeds: Feeds, path: Path, symbolic: bool) -> None:
    """Write one ONNX file."""
    arguments = tuple(torch.from_numpy(array) for array in feeds.values())
    names = dict(zip(net.axes, net.symbolic, strict=True)) if symbolic else {}
    common: dict[str, Any] = {
        "input_names": list(feeds), "output_names": list(net.outputs), "opset_version": net.opset, "verbose": False,
    }  # fmt: skip
    if net.older:
        every = dict.fromkeys(feeds, names) | {name: {0: "batch"} for name in net.outputs if names}
        kept: dict[str, Any] = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
        torch.onnx.export(module, arguments, path, dynamo=False, dynamic_axes=every, **common, **kept)
    else:
        dims = {axis: torch.export.Dim(name) for axis, name in names.items()}
        shapes = (dims,) * len(feeds) if symbolic else None
        torch.onnx.export(module, arguments, path, dynamo=True, dynamic_shapes=shapes, external_data=False, **common)


def split_weights(paths: list[Path], weights: Path) -> None:
    """Move the large tensors of several files into one file beside them; equal tensors are stored once."""
    offsets: dict[bytes, int] = {}
    with weights.open("wb") as file:
        for path in paths:
            model = onnx.load(path)
            for tensor in model.graph.initializer:
                content = tensor.raw_data
                if len(content) < LARGE:
                    continue
                digest = hashlib.sha256(content).digest()
                if digest not in offsets:
                    file.write(bytes(-file.tell() % ALIGN))
                    offsets[digest] = file.tell()
                    file.write(content)
                tensor.ClearField("raw_data")
                tensor.data_location = onnx.TensorProto.EXTERNAL
                place = {"location": weights.name, "offset": offsets[digest], "length": len(content)}
                for key, value in place.items():
                    tensor.external_data.add(key=key, value=str(value))
            onnx.save(model, path)


def module(name: str, folder: Path) -> nn.Module:
    """The network as the torch module that the files are made of, for inference; always the same weights."""
    torch.manual_seed(zlib.crc32(name.encode()))
    return NETS[name].build(folder).eval()


def produce(name: str, folder: Path) -> None:
    """Write all files of one network into `folder`."""
    net, models = NETS[name], {model.name: model for model in MODELS}
    built = module(name, folder)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch)
        for symbolic in (False, True) if net.symbolic else (False,):
            own = f"{name}_batch" if symbolic else name
            # The exporters hold a dimension of size 1 for a constant, so the symbolic file is traced with a later case.
            feeds = models[own].cases()[1 if symbolic else 0]
            export(net, built, feeds, made / f"{own}.onnx", symbolic)
        if net.split:
            split_weights(sorted(made.glob("*.onnx")), made / f"{name}.weights")
        for path in sorted(made.iterdir(), reverse=True):  # the weights first: no graph without them is ever seen
            path.replace(folder / path.name)


def main(folder: str, *names: str) -> None:
    """Export some networks, with a line about each."""
    # The exporters warn about themselves: the older one of its age, the newer one of the operators it would know if
    # torchvision were installed and of axes that it names once.
    warnings.filterwarnings("ignore")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    for name in names:
        start = time.perf_counter()
        produce(name, Path(folder))
        print(f"  {name:18} exported in {time.perf_counter() - start:5.1f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
