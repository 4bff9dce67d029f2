"""Models as modules of layers: `from legato.relax.frontend import nn`.

    class Perceptron(nn.Module):
        def __init__(self):
            self.fc1 = nn.Linear(784, 256)
            self.fc2 = nn.Linear(256, 10)

        def forward(self, x: nn.Tensor):
            return self.fc2(nn.op.relu(self.fc1(x)))

    mod, params = Perceptron().export_tvm({"forward": {"x": nn.spec.Tensor(["n", 784], "float32")}})
    vm = relax.VirtualMachine(relax.build(mod), relax.cpu())
    y = vm["forward"](x, *weights)

Methods are called once, with tensors that stand for values, and what they compute becomes a function.
"""

from __future__ import annotations

import typing

from legato.relax.frontend.nn import core, exporter, modules, op, spec, visitor
from legato.relax.frontend.nn.core import (
    Module,
    ModuleDict,
    ModuleList,
    Object,
    Parameter,
    ParameterDict,
    ParameterList,
    Tensor,
    get_default_dtype,
    set_default_dtype,
)
from legato.relax.frontend.nn.effects import Effect, IOEffect, KVCache
from legato.relax.frontend.nn.modules import (
    GELU,
    Attention,
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    ConvTranspose2D,
    Embedding,
    GroupNorm,
    Identity,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    SiLU,
    TimestepEmbedding,
    Timesteps,
)
from legato.relax.frontend.nn.outside import ExternModule, ObjectModule, SourceModule, add_extern
from legato.relax.frontend.nn.subroutine import SubroutineMixin
from legato.relax.frontend.nn.visitor import Mutator

__all__ = ["GELU", "Attention", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D", "ConvTranspose2D", "Effect",
           "Embedding", "ExternModule", "GroupNorm", "IOEffect", "Identity", "KVCache", "LayerNorm", "Linear",
           "Module", "ModuleDict", "ModuleList", "Mutator", "Object", "ObjectModule", "Parameter", "ParameterDict",
           "ParameterList", "RMSNorm", "ReLU", "SiLU", "SourceModule", "SubroutineMixin", "Tensor",
           "TimestepEmbedding", "Timesteps", "add_extern", "core", "exporter", "get_default_dtype", "modules", "op",
           "set_default_dtype", "spec", "visitor"]  # fmt: skip


def __getattr__(name: str) -> typing.Any:
    """Operators are found here, too: `nn.relu` is `nn.op.relu`."""
    if name in op.__all__:
        return getattr(op, name)
    raise AttributeError(f"relax.frontend.nn has no {name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *op.__all__})
