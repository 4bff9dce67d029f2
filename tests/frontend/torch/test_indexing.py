"""Reading and writing at places that data gives, and order, imported from PyTorch: what OpInfo's samples leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.frontend.torch.agree import Imported, agree, imported  # noqa: E402  # after torch is there
from tests.frontend.torch.test_views import rows  # noqa: E402

Function = Callable[..., Any]
PLACES = torch.tensor([0, 2, -1]), torch.tensor([[1], [0]]), torch.tensor([1, 1, 0])
MASK = torch.tensor([[True, False, True], [False, False, True]])

# of a tensor (3, 2, 3), subscripts at (3,), j (2, 1) and k (3,), and a mask (2, 3)
READS: list[Function] = [
    lambda x, at, j, k, m: x[at],
    lambda x, at, j, k, m: x[:, k],
    lambda x, at, j, k, m: x[:, :, j],
    lambda x, at, j, k, m: x[at, k],
    lambda x, at, j, k, m: x[:, k, at],
    lambda x, at, j, k, m: x[k, :, at],
    lambda x, at, j, k, m: x[j, k],
    lambda x, at, j, k, m: x[None, k, :, None, j],
    lambda x, at, j, k, m: x[k, 1:, at],
    lambda x, at, j, k, m: x[:, m],
    lambda x, at, j, k, m: x[:, m[:, 0]],
    lambda x, at, j, k, m: x[x > 0],
    lambda x, at, j, k, m: x[at[:0]],
]


@pytest.mark.parametrize("n", range(len(READS)))
def test_subscripts_are_read_as_pytorch_does(n: int) -> None:
    imported(READS[n], rows(3, 2, 3), *PLACES, MASK)


def _put(x: Any, at: tuple[Any, ...], values: Any, accumulate: bool = False) -> Any:
    return torch.index_put(x, at, values.to(x.dtype), accumulate)


WRITES: list[Function] = [
    lambda x, at, j, k, m: _put(x, (at,), torch.tensor(5.0)),
    lambda x, at, j, k, m: _put(x, (at,), torch.arange(3)),
    lambda x, at, j, k, m: _put(x, (k, k), torch.arange(3), True),
    lambda x, at, j, k, m: _put(x, (k, k[:1]), torch.arange(9).reshape(3, 3), True),
    lambda x, at, j, k, m: _put(x, (m[0], k[:2]), torch.arange(2).reshape(2, 1)),
    lambda x, at, j, k, m: _put(x, (m[0],), torch.tensor(7.0)),
    lambda x, at, j, k, m: _put(x, (m[0],), torch.arange(3)),
    lambda x, at, j, k, m: _put(x, (m[0],), torch.arange(12).reshape(2, 2, 3)),
    lambda x, at, j, k, m: x.index_fill(1, k[:2], 3),
    lambda x, at, j, k, m: x.index_add(0, k, x, alpha=2),
    lambda x, at, j, k, m: x.index_copy(2, k[1:], x[:, :, :2]),
    lambda x, at, j, k, m: x.masked_fill(m, 4),
    lambda x, at, j, k, m: x.masked_scatter(m, torch.arange(18).to(x.dtype)),
    lambda x, at, j, k, m: x.scatter(1, j[None], 4),
    lambda x, at, j, k, m: x.scatter_add(0, k[None, None], x),
    lambda x, at, j, k, m: x.put(k, x[0, 0], True),
]


@pytest.mark.parametrize("n", range(len(WRITES)))
def test_places_are_written_as_pytorch_does(n: int) -> None:
    for dtype in (torch.float32, torch.int64):
        imported(WRITES[n], rows(3, 2, 3, dtype=dtype), *PLACES, MASK)


def test_subscripts_between_slices_are_written() -> None:
    def write(x: Any, at: Any, j: Any, k: Any, m: Any) -> Any:
        y = x.clone()
        y[:, k, 1:] = 9.0
        y[k, :, at.abs()] += 1
        y[:, 0][y[:, 0] > 2] = 0
        return y

    imported(write, rows(3, 2, 3), *PLACES, MASK)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_what_meets_at_one_place_is_reduced(reduce: str) -> None:
    def reduced(x: Any, at: Any) -> Any:
        return [torch.scatter_reduce(x, 0, at, x[1:], reduce, include_self=own) for own in (True, False)]

    for dtype in (torch.float32, torch.int64, torch.bfloat16):
        imported(reduced, rows(3, 3, dtype=dtype), torch.tensor([[0, 1, 1], [0, 0, 1]]))


SYMBOLIC: list[tuple[Function, list[tuple[int, ...]]]] = [
    (lambda x: x[torch.arange(x.shape[0]) // 2], [(4, 3), (5, 2)]),
    (lambda x: x[:, torch.tensor([0, -1])], [(4, 3), (5, 2)]),
    (lambda x: x[x > 0] * 2, [(4, 3), (5, 2)]),
    (lambda x: x[x[:, 0] > 0], [(4, 3), (5, 2)]),
    (lambda x: (x > 0).nonzero(), [(4, 3), (5, 2)]),
    (lambda x: torch.where(x > 0), [(4, 3), (5, 2)]),
    (lambda x: torch.masked_select(x, x < 1), [(4, 3), (5, 2)]),
    (lambda x: x.masked_fill(x > 0, -1.0), [(4, 3), (5, 2)]),
    (lambda x: torch.index_put(x, (x > 0,), torch.tensor(1.0)), [(4, 3), (5, 2)]),
    (lambda x: x.index_select(1, torch.tensor([1, 0])), [(4, 3), (5, 2)]),
    (lambda x: x.gather(1, x.argsort(1)), [(4, 3), (5, 2)]),
    (lambda x: x.scatter(1, x.argsort(1), x), [(4, 3), (5, 2)]),
    (lambda x: x.index_add(0, torch.arange(x.shape[0]) // 2, x), [(4, 3), (5, 2)]),
    (lambda x: torch.zeros(x.shape[0] + 1, x.shape[1]).index_copy(0, torch.tensor([1]), x[:1]), [(4, 3), (5, 2)]),
    (lambda x: (*x.sort(0), *x.sort(1, descending=True), *x.topk(2, 1), x.argsort()), [(4, 3), (5, 2)]),
    (lambda x: torch.topk(x.flatten(), x.shape[0]), [(4, 3), (5, 2)]),
    (lambda x: torch.searchsorted(x.sort(1)[0], x), [(4, 3), (5, 2)]),
    (lambda x: torch.unique((x // 2).long(), return_inverse=True, return_counts=True), [(4, 3), (5, 2)]),
    (lambda x: torch.unique_consecutive((x // 2).long(), return_inverse=True, return_counts=True), [(4, 3), (5, 2)]),
    (lambda x: torch.bincount((x.flatten() - x.min()).long(), minlength=3), [(4, 3), (5, 2)]),
    (lambda x: torch.repeat_interleave(x, (x[:, 0] > 0).long() + 1, 0), [(4, 3), (5, 2)]),
    (lambda x: torch.nn.functional.embedding((x > 0).long(), x), [(4, 3), (5, 2)]),
]


@pytest.mark.parametrize("n", range(len(SYMBOLIC)))
def test_one_program_serves_all_sizes(n: int) -> None:
    function, shapes = SYMBOLIC[n]
    program = Imported(function, [rows(*shapes[0])], "symbolic")
    for shape in shapes:
        x = rows(*shape)
        agree(program.interpreted([x]), function(x))


def test_nan_is_last_and_equal_elements_keep_their_order() -> None:
    x = torch.tensor([1.0, torch.nan, -torch.inf, 1.0, torch.inf, 1.0])
    imported(lambda x: (*x.sort(), *x.sort(descending=True, stable=True), x.argsort(), x.topk(3)[0]), x)


def test_compiled_as_interpreted() -> None:
    def step(x: Any, at: Any, j: Any, k: Any, m: Any) -> Any:
        added = torch.index_put(x, (k, k), x[:, 0], True)
        return x[:, k, at[:, None]], added, x[x > 0], x.scatter_add(0, k[None, None], x), x.index_select(1, k)

    def order(x: Any) -> Any:
        return x[x > 0], (x > 0).nonzero(), x.gather(1, x.argsort(1)), x.sort(0)[0]

    imported(step, rows(3, 2, 3), *PLACES, MASK, compile=True)
    imported(order, rows(3, 4), compile=True, mode="symbolic")
