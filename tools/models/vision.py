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


def one(name: str, about: str, opset: int, size: int = 224) -> Model:
    """A network in one file, for one photograph."""
    return Model(name, about, lambda: ({"x": photos(1, size)},), best_classes, opset=opset)


MODELS = (
    *pair("resnet18", "ResNet-18, batch norms kept", photos, 17),
    *pair("resnet50", "ResNet-50, batch norms kept", photos, 17),
    *pair("mobilenet_v2", "MobileNetV2, exported with batch norms folded", photos, 20),
    *pair("vgg16", "VGG-16, weights in a file beside the graph", photos, 17),
    one("mobilenet_v3_large", "MobileNetV3: hard swish, squeeze and excite", 20),
    one("efficientnet_b0", "EfficientNet-B0: swish, squeeze and excite", 20),
    one("densenet121", "DenseNet-121: every layer reads all before it", 17),
    one("inception_v3", "Inception v3: branches of long and flat kernels", 17, 299),
    one("squeezenet1_1", "SqueezeNet 1.1", 17),
    one("shufflenet_v2_x1_0", "ShuffleNetV2: channels split, shuffled and joined", 17),
    one("convnext_tiny", "ConvNeXt-Tiny: 7 × 7 depthwise, layer norms over channels", 20),
    one("vit_b_16", "the vision transformer ViT-B/16", 20),
    *pair("dqn", "the deep Q-network of 2015: four frames to the values of six actions", frames, 17),
)
