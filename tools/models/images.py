"""Photographs as arrays."""

from __future__ import annotations

from functools import cache

import numpy as np
from PIL import Image

from tools.models.record import Array, cached

PHOTOS = ("astronaut.png", "coffee.png", "chelsea.png", "rocket.jpg", "camera.png", "ihc.png")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, which torchvision's models expect


@cache
def image(name: str) -> Image.Image:
    """One of scikit-image's pictures, in RGB."""
    return Image.open(cached(f"images/{name}")).convert("RGB")


def square(picture: Image.Image, size: int) -> Image.Image:
    """The middle of `picture`, as a square of `size` pixels."""
    width, height = picture.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return picture.resize((size, size), Image.Resampling.BILINEAR, (left, top, left + side, top + side))


def photos(count: int, size: int = 224) -> Array:
    """`count` normalised photographs, float32 [count, 3, size, size]; from the seventh on they are mirrored ones."""
    rows = []
    for index in range(count):
        picture = square(image(PHOTOS[index % len(PHOTOS)]), size)
        if index >= len(PHOTOS):
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        rows.append((np.asarray(picture, np.float32) / 255 - np.array(MEAN)) / np.array(STD))
    return np.ascontiguousarray(np.stack(rows).transpose(0, 3, 1, 2), np.float32)
