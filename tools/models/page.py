"""Reads a whole page with PP-OCR's three networks, whoever runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from tools.models import ocr
from tools.models.record import Array

Run = Callable[[Array], Array]  # the one input of a network to its one output


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text and where it stands, as fractions of the page."""

    text: str
    box: ocr.Corners


def read_page(
    page: Image.Image, detect: Run, classify: Run, recognise: Run, *, shorter: int = 736, together: int = 6
) -> list[Line]:
    """The lines of `page`, from top to bottom.

    `shorter` is the shorter side of what the detector sees, `together` how many lines are read in one call. Lines are
    sorted by length first, so that those read together need little padding.
    """
    boxes = ocr.text_boxes(detect(ocr.detector_input(page, shorter))[0, 0])
    views = [ocr.cut(page, box) for box in boxes]
    order = sorted(range(len(views)), key=lambda index: views[index].width / views[index].height)
    read: dict[int, str] = {}
    for start in range(0, len(order), together):
        group = order[start : start + together]
        turned = ocr.upside_down([classify(ocr.line_input([views[index] for index in group], 192))])
        upright = [
            views[index].transpose(Image.Transpose.ROTATE_180) if turn else views[index]
            for index, turn in zip(group, turned, strict=True)
        ]
        read.update(zip(group, ocr.texts([recognise(ocr.line_input(upright))]), strict=True))
    return [Line(read[index], box) for index, box in enumerate(boxes) if read[index].strip()]
