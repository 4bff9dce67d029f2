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
    page: Image.Image, detect: Run, classify: Run, recognise: Run, *, shorter: int = 480, together: int = 6
) -> list[Line]:
    """The lines of `page`, from top to bottom.

    `shorter` is the shorter side of what the detector sees, `together` how many lines are read in one call: they are
    sorted by length first, so that those read together need little padding. Lines of one page stand the same way up, so
    the classifier's answers are counted as votes.
    """
    boxes = ocr.text_boxes(detect(ocr.detector_input(page, shorter))[0, 0])
    if not boxes:
        return []
    views = [ocr.cut(page, box) for box in boxes]
    if sum(ocr.upside_down([classify(ocr.classifier_input(views))])) * 2 > len(views):
        boxes.reverse()
        views = [view.transpose(Image.Transpose.ROTATE_180) for view in reversed(views)]
    order = sorted(range(len(views)), key=lambda index: views[index].width)
    read: dict[int, str] = {}
    for start in range(0, len(order), together):
        group = order[start : start + together]
        found = ocr.texts([recognise(ocr.line_input([views[index] for index in group]))])
        read.update(zip(group, found, strict=True))
    return [Line(read[index], box) for index, box in enumerate(boxes) if read[index].strip()]
