"""Operators of detectors: boxes, regions, suppression."""

from __future__ import annotations

from typing import Any

from legato.ir.expr import Expr
from legato.ir.types import TensorType
from legato.relay.expr import TupleWrapper, const
from legato.relay.op._functions import function, namespace

__all__ = ["all_class_non_max_suppression", "get_valid_counts", "non_max_suppression"]

__getattr__, __dir__ = namespace("vision.", globals())


def _number(value: Any, dtype: str) -> Expr:
    """A number as a constant."""
    return value if isinstance(value, Expr) else const(value, dtype)


def _float(value: Any, like: Expr) -> Expr:
    """A number in the dtype of a tensor, where that is known."""
    return _number(value, str(like.ty.dtype) if isinstance(like.ty, TensorType) else "float32")


def get_valid_counts(data: Expr, score_threshold: Any, id_index: int = 0, score_index: int = 1) -> Any:
    """(how many rows count, these first, which rows they were); a number of the threshold is a constant."""
    found = function("vision.get_valid_counts")(data, _float(score_threshold, data), id_index, score_index)
    return TupleWrapper(found, 3)


def non_max_suppression(
    data: Expr,
    valid_count: Expr,
    indices: Expr,
    max_output_size: Any = -1,
    iou_threshold: Any = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Any:
    """Which rows stay and how many, or the rows; numbers are constants."""
    found = function("vision.non_max_suppression")(
        data, valid_count, indices, _number(max_output_size, "int32"), _float(iou_threshold, data), force_suppress,
        top_k, coord_start, score_index, id_index, return_indices, invalid_to_bottom,
    )  # fmt: skip
    return TupleWrapper(found, 2) if return_indices else found


def all_class_non_max_suppression(
    boxes: Expr,
    scores: Expr,
    max_output_boxes_per_class: Any = -1,
    iou_threshold: Any = -1.0,
    score_threshold: Any = -1.0,
    output_format: str = "onnx",
) -> Any:
    """(class by class which boxes stay, how many); numbers are constants."""
    limits = _number(max_output_boxes_per_class, "int64"), _float(iou_threshold, boxes), _float(score_threshold, boxes)
    return TupleWrapper(function("vision.all_class_non_max_suppression")(boxes, scores, *limits, output_format), 2)
