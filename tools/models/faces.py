"""MTCNN's three networks: proposals of faces, their refinement, and landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from PIL import Image

from tools.models.images import image
from tools.models.record import Array, Feeds, Model

Box = tuple[int, int, int, int]  # left, top, right, bottom

# Windows of the picture `astronaut`: 0 and 5 hold her face, 1 holds it off the centre, the others none.
WINDOWS: tuple[Box, ...] = (
    (175, 60, 275, 190),
    (190, 75, 290, 175),
    (0, 0, 100, 100),
    (380, 300, 500, 420),
    (20, 380, 120, 480),
    (165, 50, 285, 195),
    (300, 20, 420, 140),
    (100, 300, 260, 460),
)


def pixels(pictures: Sequence[Image.Image]) -> Array:
    """RGB pictures of one size as MTCNN wants them, float32 [picture, 3, height, width] in −1 … 1."""
    stacked = np.stack([np.asarray(picture, np.float32) for picture in pictures])
    return np.ascontiguousarray(((stacked - 127.5) / 128).transpose(0, 3, 1, 2))


def scaled(width: int, height: int, count: int = 1) -> Feeds:
    """`count` pictures of a face, at some size; the second is mirrored, the third is the second upside down, …"""
    small = image("astronaut.png").resize((width, height), Image.Resampling.BILINEAR)
    turned = [small]
    for index in range(1, count):
        flip = Image.Transpose.FLIP_LEFT_RIGHT if index % 2 else Image.Transpose.FLIP_TOP_BOTTOM
        turned.append(turned[-1].transpose(flip))
    return {"x": pixels(turned)}


def crops(size: int, count: int) -> Feeds:
    """The first `count` windows, at `size` pixels."""
    views = [image("astronaut.png").resize((size, size), Image.Resampling.BILINEAR, box) for box in WINDOWS[:count]]
    return {"x": pixels(views)}


def proposals(outputs: Sequence[Array]) -> tuple[tuple[int, ...], ...]:
    """Picture, row and column of every cell that likely shows a face; outputs are boxes and probabilities."""
    return tuple(tuple(int(part) for part in cell) for cell in np.argwhere(outputs[1][:, 1] > 0.9))


def faces(outputs: Sequence[Array]) -> tuple[bool, ...]:
    """Which windows show a face; the last output is the probability of (none, face)."""
    return tuple(bool(row[1] > 0.7) for row in outputs[-1])


def per_window(name: str, about: str, size: int) -> tuple[Model, Model]:
    """A network for single windows in two files: for one, and for any number."""
    some = partial(crops, size)
    return (
        Model(name, about, lambda: (some(1),), faces, (SHOWN[:1],), 17),
        Model(
            f"{name}_batch",
            about,
            lambda: tuple(map(some, (1, 3, 8))),
            faces,
            (SHOWN[:1], SHOWN[:3], SHOWN),
            17,
            ("batch",),
        ),
    )


SHOWN = (True, True, False, False, False, True, False, False)
PROPOSALS = "where a face may be, for every cell"
MODELS = (
    Model("pnet", PROPOSALS, lambda: (scaled(154, 154),), proposals, (), 17),
    Model(
        "pnet_batch",
        PROPOSALS,
        lambda: (scaled(154, 154), scaled(109, 109, 3), scaled(80, 61, 8)),
        proposals,
        (),
        17,
        ("batch", "height", "width"),
    ),
    *per_window("rnet", "is it a face, and where", 24),
    *per_window("onet", "is it a face, and where are eyes, nose and mouth", 48),
)
