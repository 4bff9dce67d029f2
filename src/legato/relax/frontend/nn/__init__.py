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

from legato.relax.frontend.nn import core, exporter, modules, op, spec
from legato.relax.frontend.nn.core import (
    Effect,
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
from legato.relax.frontend.nn.modules import Linear
from legato.relax.frontend.nn.tensor import wrap_nested

__all__ = ["Effect", "Linear", "Module", "ModuleDict", "ModuleList", "Object", "Parameter", "ParameterDict",
           "ParameterList", "Tensor", "core", "exporter", "get_default_dtype", "modules", "op", "set_default_dtype",
           "spec", "wrap_nested"]  # fmt: skip
