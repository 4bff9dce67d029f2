"""A zoo of models as programs: `legato.testing.resnet.get_workload(num_layers=18)` gives (module, parameters).

Each file has `get_net`, which builds the function, and `get_workload`, which adds random parameters. Structures and
names of parameters are those of the models that Relay's tests had under these names; `image_shape` and sizes can be
made small. Inputs are called "data".
"""

from __future__ import annotations

from typing import Final

__all__ = ["MODELS"]

MODELS: Final = ("dcgan", "densenet", "dqn", "inception_v3", "lstm", "mlp", "mobilenet", "resnet", "squeezenet", "vgg")
