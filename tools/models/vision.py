"""Image classifiers and a game player with random weights: the graphs are the subject, not the answers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tools.models.images import image, photos
from tools.models.record import Array, Feeds, Model, best_classes

BATCHES = (1, 3, 8)


def frames(count: int) -> Array:
    """Four successive grey 84 × 84 views each, of a camera that pans over photographs: float32 [count, 4, 84, 84]."""
    scenes = [image(name).convert("L").resize((168, 126)) for name in ("camera.png", "rocket.jpg", "coffee.png")]
    stacks = [
        [scenes[row % 3].crop((8 * step + 4 * row, row, 8 * step + 4 * row + 84, row + 84)) for step in range(4)]
        for row in range(count)
    ]
    return np.stack([np.stack([np.asarray(view, np.float32) / 255 for view in stack]) for stack in stacks])


def pair(name: str, about: str, inputs: Callable[[int], Array], opset: int) -> tuple[Model, Model]:
    """A network in two files: for one sample, and for any number of them."""

    def feeds(*batches: int) -> tuple[Feeds, ...]:
        return tuple({"x": inputs(batch)} for batch in batches)

    return (
        Model(name, about, lambda: feeds(1), best_classes, opset=opset),
        Model(f"{name}_batch", about, lambda: feeds(*BATCHES), best_classes, opset=opset, symbolic=("batch",)),
    )


MODELS = (
    *pair("resnet18", "ResNet-18, batch norms kept", photos, 17),
    *pair("resnet50", "ResNet-50, batch norms kept", photos, 17),
    *pair("mobilenet_v2", "MobileNetV2, exported with batch norms folded", photos, 20),
    *pair("vgg16", "VGG-16, weights in a file beside the graph", photos, 17),
    *pair("dqn", "the deep Q-network of 2015: four frames to the values of six actions", frames, 17),
)
