"""Operators on boxes, regions and signals by Relay's names, with numbers where Relay takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from legato import relay
from legato.relay import vision


def run(result: Any, *values: Any) -> Any:
    """The value of an expression of variables, in order."""
    body = result.astuple() if isinstance(result, relay.TupleWrapper) else result
    func = relay.Function(tuple(relay.analysis.free_vars(body)), body)
    return relay.create_executor("debug").evaluate(func)(*values)


def test_rows_that_count_then_those_that_stay() -> None:
    rows = np.array([[[0, 0.8, 1, 20, 25, 45], [1, 0.7, 30, 60, 50, 80], [0, 0.4, 4, 21, 19, 40],
                      [2, 0.9, 35, 61, 52, 79], [1, 0.5, 100, 60, 70, 110]]], np.float32)  # fmt: skip
    x = relay.var("x", shape=(1, 5, 6))
    count, first, which = vision.get_valid_counts(x, 0.45)
    kept, number = vision.non_max_suppression(first, count, which, iou_threshold=0.7, top_k=2)
    got = run(relay.Tuple((count, kept, number)), rows)
    np.testing.assert_array_equal(got[0], [4])
    np.testing.assert_array_equal(got[1], [[3, 0, -1, -1, -1]])
    np.testing.assert_array_equal(got[2], [[2]])


def test_numbers_of_all_class_suppression() -> None:
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6]]], np.float32)
    scores = np.array([[[0.9, 0.8, 0.7]]], np.float32)
    found = vision.all_class_non_max_suppression(relay.const(boxes), relay.const(scores), 2, 0.5, 0.1)
    rows, count = run(found)
    assert count == [2]
    np.testing.assert_array_equal(rows[:2], [[0, 0, 0], [0, 0, 2]])


def test_regions() -> None:
    x, rois = relay.var("x", shape=(1, 1, 4, 4)), relay.var("rois", shape=(1, 5))
    data = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    region = np.array([[0, 0, 0, 3, 3]], np.float32)
    pooled = vision.roi_pool(x, rois, pooled_size=(2, 2), spatial_scale=1.0)
    np.testing.assert_array_equal(run(pooled, data, region)[0, 0], [[5, 7], [13, 15]])
    aligned = vision.roi_align(x, rois, pooled_size=(1, 1), spatial_scale=1.0, sample_ratio=3)
    np.testing.assert_allclose(run(aligned, data, region)[0, 0], [[7.5]])


def test_short_time_transforms(torch: Any) -> None:
    data = np.random.default_rng(0).standard_normal((2, 40)).astype(np.float32)
    window = np.hanning(12).astype(np.float32)
    x = relay.var("x", shape=(2, 40))
    got = run(relay.stft(x, 12, 5, window=relay.const(window), normalized=True), data)
    want = torch.stft(torch.tensor(data), 12, 5, 12, torch.tensor(window), center=False, normalized=True,
                      return_complex=True)  # fmt: skip
    np.testing.assert_allclose(got, torch.view_as_real(want), rtol=0, atol=2e-6)


def test_grids(torch: Any) -> None:
    """An affine grid, where an image is read: as PyTorch has it."""
    theta = np.random.default_rng(1).standard_normal((1, 2, 3)).astype(np.float32)
    image = np.random.default_rng(2).standard_normal((1, 2, 5, 4)).astype(np.float32)
    grid = relay.image.affine_grid(relay.const(theta), (3, 6))
    got = run(relay.image.grid_sample(relay.const(image), grid, "bilinear", "NCHW", "border", True))
    places = torch.nn.functional.affine_grid(torch.tensor(theta), [1, 2, 3, 6], align_corners=True)
    want = torch.nn.functional.grid_sample(torch.tensor(image), places, padding_mode="border", align_corners=True)
    np.testing.assert_allclose(got, want, atol=2e-6)
