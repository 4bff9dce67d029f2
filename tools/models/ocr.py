"""PP-OCR's three networks: where text is, which way up it is, and what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from PIL import Image

from tools.models.images import image
from tools.models.record import Array, Feeds, Model, cached

Corners = tuple[tuple[float, float], ...]  # x, y: top left, top right, bottom right, bottom left
TEXT, SCORE, UNCLIP = 0.3, 0.5, 1.6  # thresholds of a pixel and of a box, and how far a box is widened (PP-OCR's own)
HEIGHT = 48  # of a line, for the classifier and the recogniser

# Lines of the picture `page`: left, top, right, bottom.
LINES = (
    (4, 10, 296, 36),
    (4, 48, 380, 66),
    (4, 66, 380, 84),
    (4, 84, 380, 102),
    (4, 100, 380, 120),
    (4, 117, 174, 138),
)


def pixels(picture: Image.Image) -> Array:
    """A picture as PP-OCR wants it, float32 [3, height, width] in −1 … 1, blue first."""
    channels = np.asarray(picture.convert("RGB"), np.float32)[:, :, ::-1]
    return np.ascontiguousarray((channels / 127.5 - 1).transpose(2, 0, 1))


def detector_input(picture: Image.Image, shorter: int) -> Array:
    """The picture with its shorter side at `shorter` pixels and both sides multiples of 32: float32 [1, 3, h, w]."""
    ratio = shorter / min(picture.size)
    width, height = (max(32, round(side * ratio / 32) * 32) for side in picture.size)
    return pixels(picture.resize((width, height), Image.Resampling.BILINEAR))[None]


def line_input(pictures: Sequence[Image.Image], width: int | None = None) -> Array:
    """Pictures of lines at 48 pixels of height, padded with grey at the right: float32 [line, 3, 48, width].

    Without `width` the longest line decides, and 320 at least.
    """
    wanted = [math.ceil(HEIGHT * picture.width / picture.height) for picture in pictures]
    width = width or max(320, *wanted)
    rows = np.zeros((len(pictures), 3, HEIGHT, width), np.float32)
    for row, picture, own in zip(rows, pictures, wanted, strict=True):
        shown = min(own, width)
        row[:, :, :shown] = pixels(picture.resize((shown, HEIGHT), Image.Resampling.BILINEAR))
    return rows


def classifier_input(pictures: Sequence[Image.Image]) -> Array:
    """The middle of each line, four times as wide as high at most: float32 [line, 3, 48, 192]."""
    middles = []
    for picture in pictures:
        margin = max(0, (picture.width - 4 * picture.height) // 2)
        middles.append(picture.crop((margin, 0, picture.width - margin, picture.height)))
    return line_input(middles, 4 * HEIGHT)


# ------------------------------------------------------------------------------------------------------ boxes


def components(mask: Array) -> list[Array]:
    """The 8-connected parts of a boolean picture, each as an array of (y, x) in reading order.

    Runs of pixels in a row are joined to the runs they touch in the row above, with a union-find over runs.
    """
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    runs = list(zip(*np.nonzero(edges == 1), np.nonzero(edges == -1)[1], strict=True))  # row, first, past the last
    parent = list(range(len(runs)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    above = 0
    for index, (row, first, past) in enumerate(runs):
        while runs[above][0] < row - 1 or (runs[above][0] == row - 1 and runs[above][2] < first):
            above += 1
        touching = above
        while runs[touching][0] == row - 1 and runs[touching][1] <= past:
            parent[root(touching)] = root(index)
            touching += 1
    parts: dict[int, list[Array]] = {}
    for index, (row, first, past) in enumerate(runs):
        columns = np.arange(first, past)
        parts.setdefault(root(index), []).append(np.stack([np.full_like(columns, row), columns], axis=1))
    return [np.concatenate(part) for part in parts.values()]


def smallest_rectangle(points: Array, angles: Array) -> tuple[Array, Array, Array]:
    """Centre, half sides and axes of the smallest rectangle around (y, x) points that is turned by one of `angles`."""
    along = np.stack([np.cos(angles), np.sin(angles)], axis=1)  # x, y of the direction of the text
    across = np.stack([-np.sin(angles), np.cos(angles)], axis=1)
    position = points[:, ::-1] + 0.5
    low = np.stack([(position @ axis.T).min(axis=0) for axis in (along, across)]) - 0.5
    high = np.stack([(position @ axis.T).max(axis=0) for axis in (along, across)]) + 0.5
    best = int((high - low).prod(axis=0).argmin())
    axes = np.stack([along[best], across[best]])
    return (low[:, best] + high[:, best]) / 2 @ axes, (high[:, best] - low[:, best]) / 2, axes


def text_boxes(probability: Array) -> list[Corners]:
    """Corners of the boxes around text, from top to bottom, as fractions of the picture's width and height.

    `probability` is what the detector says of each pixel, [height, width]. Each connected part gets the smallest
    rectangle around it, up to 12 degrees off the horizontal, which is then widened because the detector learnt shrunken
    boxes (differentiable binarization, Liao et al. 2020).
    """
    size = np.array([probability.shape[1], probability.shape[0]])
    angles = np.radians(np.arange(-12, 12.5, 0.5))
    boxes = []
    for part in components(probability > TEXT):
        centre, half, axes = smallest_rectangle(part, angles[np.argsort(np.abs(angles), kind="stable")])
        if half.min() < 1.5 or probability[part[:, 0], part[:, 1]].mean() < SCORE:
            continue
        half = half + UNCLIP * half.prod() / half.sum()
        signs = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
        corners = np.clip((centre + signs * half @ axes) / size, 0, 1)
        boxes.append(tuple((float(x), float(y)) for x, y in corners))
    return sorted(boxes, key=lambda box: (sum(y for _, y in box), box[0][0]))


def cut(picture: Image.Image, box: Corners) -> Image.Image:
    """The contents of `box`, made level, at the height that the networks want."""
    points = np.array(box) * picture.size
    width, height = (float(np.hypot(*(points[index] - points[0]))) for index in (1, 3))
    size = (max(1, math.ceil(HEIGHT * width / max(height, 1))), HEIGHT)
    corners = [float(value) for index in (0, 3, 2, 1) for value in points[index]]
    return picture.transform(size, Image.Transform.QUAD, corners, Image.Resampling.BICUBIC)


# ------------------------------------------------------------------------------------------------------- text


@cache
def alphabet() -> list[str]:
    """What each score of the recogniser stands for; the first is the blank of CTC, the last a space."""
    return ["", *cached("ppocr_alphabet.txt").read_text("utf-8").splitlines(), " "]


def texts(outputs: Sequence[Array]) -> tuple[str, ...]:
    """The text of each line: the best sign of each step, repetitions and blanks dropped (greedy CTC)."""
    best = outputs[0].argmax(axis=2)
    kept = np.diff(best, axis=1, prepend=0) != 0
    return tuple("".join(alphabet()[sign] for sign in row[keep]) for row, keep in zip(best, kept, strict=True))


def upside_down(outputs: Sequence[Array]) -> tuple[bool, ...]:
    """Which lines stand on their heads: probabilities of (0°, 180°), and PP-OCR wants to be sure."""
    return tuple(bool(row[1] > 0.9) for row in outputs[0])


def box_positions(outputs: Sequence[Array]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Corners of the boxes in each picture, in pixels of the detector's output."""
    height, width = outputs[0].shape[2:]
    return tuple(
        tuple((round(x * width), round(y * height)) for box in text_boxes(row[0]) for x, y in box) for row in outputs[0]
    )


def lines(count: int) -> list[Image.Image]:
    """The first lines of the page; the seventh is the first again, on its head, and so on."""
    page = image("page.png")
    views = []
    for left, top, right, bottom in LINES:
        corners = ((left, top), (right, top), (right, bottom), (left, bottom))
        views.append(cut(page, tuple((x / page.width, y / page.height) for x, y in corners)))
    return (views + [view.transpose(Image.Transpose.ROTATE_180) for view in views])[:count]


def detector_cases() -> tuple[Feeds, ...]:
    """The page at two sizes, and two pages at once, the second on its head."""
    page = image("page.png")
    small, large = detector_input(page, 192), detector_input(page, 320)
    return {"x": small}, {"x": large}, {"x": np.concatenate([small, small[:, :, ::-1, ::-1]])}


def classifier_cases() -> tuple[Feeds, ...]:
    """One line, three, and eight, the last two on their heads."""
    return tuple({"x": classifier_input(lines(count))} for count in (1, 3, 8))


def recogniser_cases() -> tuple[Feeds, ...]:
    """One line as long as it is, three, and six with some margin."""
    return tuple({"x": line_input(lines(count), width)} for count, width in ((1, None), (3, None), (6, 1040)))


# What the model reads, right to the letter; beside a wide margin it loses the space of the short last line.
READ = (
    "Region-based segmentation",
    "Let us first determine markers of the coins and the",
    "background. These markers are pixels that we can label",
    "unambiguously as either object or background. Here,",
    "the markers are found at the two extreme parts of the",
    "histogram of grey values:",
)
HEADS = (False,) * 6 + (True,) * 2
MODELS = (
    Model("ppocr_det", "where text is", detector_cases, box_positions, (), 12, ("batch", "height", "width")),
    Model(
        "ppocr_cls",
        "is a line on its head",
        classifier_cases,
        upside_down,
        (HEADS[:1], HEADS[:3], HEADS),
        11,
        ("batch",),
    ),
    Model(
        "ppocr_rec",
        "what a line says",
        recogniser_cases,
        texts,
        (READ[:1], READ[:3], (*READ[:5], "histogram ofgrey values:")),
        12,
        ("batch", "width"),
    ),
)
