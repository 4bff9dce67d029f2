"""A zoo of models as programs: `legato.testing.resnet.get_workload(num_layers=18)` gives (module, parameters).

Each file has `get_net`, which builds the function (the module, where it needs more), and `get_workload`, which adds
random parameters. Structures and names of parameters are those of the models that Relay's tests had under these names,
and of the networks that papers about Relay measured; `image_shape` and sizes can be made small. Inputs are called
"data".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not

if TYPE_CHECKING:
    from legato.testing.generators import check_generator
    from legato.testing.rules import check_rule

__all__ = ["MODELS", "check_generator", "check_rule"]

MODELS: Final = ("char_rnn", "dcgan", "densenet", "dqn", "gru", "inception_v3", "lstm", "mlp", "mobilenet",
                 "mobilenet_v2", "resnet", "squeezenet", "tree_lstm", "vgg")  # fmt: skip


def __getattr__(name: str) -> Any:
    """What checks, on use: models are built without it."""
    if name == "check_rule":
        from legato.testing.rules import check_rule

        return check_rule
    if name == "check_generator":
        from legato.testing.generators import check_generator

        return check_generator
    raise AttributeError(f"legato.testing has no {name}")
