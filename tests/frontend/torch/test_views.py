"""Shapes, parts and positions of tensors, imported from PyTorch: what OpInfo's samples leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from legato.base.errors import RunError, TypeCheckError, UnsupportedError  # noqa: E402  # after torch is there
from legato.frontend.torch.exported import import_program  # noqa: E402
from legato.interp import evaluate  # noqa: E402
from tests.frontend.torch.agree import Imported, agree, imported  # noqa: E402

F = torch.nn.functional
Function = Callable[..., Any]


def rows(*shape: int, dtype: Any = torch.float32) -> Any:
    """Small numbers of both signs, none of them twice where they are few."""
    count = int(torch.Size(shape).numel())
    return ((torch.arange(count) * 7 + 3) % max(count, 1) - count // 2).reshape(shape).to(dtype)


SYMBOLIC: list[tuple[Function, list[tuple[int, ...]]]] = [
    (lambda x: x.view(x.shape[0], -1), [(3, 4, 2), (5, 2, 6)]),
    (lambda x: x.reshape(-1, x.shape[1] * 2), [(4, 3), (2, 5)]),
    (lambda x: x.transpose(0, -1).flatten(), [(3, 4, 2), (5, 2, 6)]),
    (lambda x: x[:, None].expand(-1, 3, -1), [(4, 3), (2, 5)]),
    (lambda x: x.unsqueeze(1).squeeze(), [(4, 3), (2, 5)]),
    (lambda x: (x[0], x[-1], x[:, 1], x[:, -2]), [(4, 3), (2, 5)]),
    (lambda x: (x[1:], x[:-1], x[-2:], x[:, ::2], x[:100]), [(4, 3), (2, 7)]),
    (lambda x: x[x.shape[1] - x.shape[0] :], [(4, 6), (6, 4), (5, 9)]),
    (lambda x: x[:, : x.shape[0] - x.shape[1]], [(4, 6), (6, 4), (5, 9)]),
    (lambda x: x.split([1, x.shape[0] - 1]), [(4, 3), (2, 5)]),
    (lambda x: torch.cat([x, x[:2], x], 0), [(4, 3), (2, 5)]),
    (lambda x: torch.stack([x, -x], 1), [(4, 3), (2, 5)]),
    (lambda x: (x.flip(0), x.roll(1, 1), x.roll((1, -1), (0, 1)), x.roll(3)), [(4, 3), (2, 5)]),
    (lambda x: (x.tril(), x.triu(1), x.tril(-1)), [(4, 3), (2, 5)]),
    (lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-1)), [(4, 3), (2, 5)]),
    (lambda x: x.repeat(2, 1, 3), [(4, 3), (2, 5)]),
    (lambda x: x.unfold(1, 2, 2), [(4, 3), (2, 6)]),
    (lambda x: torch.diagonal_scatter(x, x[:, 0][: min(x.shape)] * 2), [(4, 4), (2, 2)]),
    (lambda x: torch.select_scatter(x, x[0] * 2, 0, -1), [(4, 3), (2, 5)]),
    (lambda x: torch.slice_scatter(x, x[1:] * 2, 0, 1), [(4, 3), (2, 5)]),
    (lambda x: torch.slice_scatter(x, x[::2] * 2, 0, 0, None, 2), [(4, 3), (6, 5)]),
    (lambda x: F.pad(x, (1, 2, -1, 0), value=3.0), [(4, 3), (2, 5)]),
    (lambda x: F.pad(x[None], (1, 2), mode="reflect"), [(4, 3), (3, 5)]),
    (lambda x: F.pad(x[None], (1, 2), mode="replicate"), [(4, 3), (3, 5)]),
    (lambda x: torch.arange(x.shape[0]) * x.shape[1], [(4, 3), (3, 5)]),
    (lambda x: torch.arange(1, x.shape[0], dtype=torch.float32), [(4, 3), (3, 5)]),
    (lambda x: torch.full((x.shape[1], 2), 1.5), [(4, 3), (3, 5)]),
    (lambda x: torch.eye(x.shape[0], x.shape[1]), [(4, 3), (3, 5)]),
    (lambda x: (torch.zeros_like(x), x.new_ones(x.shape[1])), [(4, 3), (3, 5)]),
    (lambda x: x.numel() + x.new_zeros(2), [(4, 3), (3, 5)]),
]


@pytest.mark.parametrize("n", range(len(SYMBOLIC)))
def test_one_program_serves_all_sizes(n: int) -> None:
    function, shapes = SYMBOLIC[n]
    program = Imported(function, [rows(*shapes[0])], "symbolic")
    for shape in shapes:
        x = rows(*shape)
        agree(program.interpreted([x]), function(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8, torch.bool])
def test_elements_of_any_dtype_are_moved(dtype: Any) -> None:
    def moved(x: Any) -> Any:
        padded = F.pad(x, (1, -1, 2, 0))
        return padded.t(), torch.cat([x, x.flip(0)]), x.repeat(1, 2).unfold(1, 3, 1), x.tril(1), x.new_zeros(2)

    imported(moved, rows(3, 4, dtype=dtype))


def test_parts_of_nothing() -> None:
    imported(lambda x: (x[:, 5:], x[2:1], x.flip(0), x.reshape(0, 7), x.repeat(2, 1)), torch.zeros(0, 3))
    imported(lambda x: (x.t(), x.unsqueeze(0), x.flatten(), x.squeeze(), x.expand(2, 3), x.flip(0)), torch.tensor(2.0))


def test_vectors_of_nothing_join_anything() -> None:
    imported(lambda x: torch.cat([torch.zeros(0), x, x], 1), rows(2, 3))
    imported(lambda x: torch.cat([x, x[:1].long(), x[1:].double()]), rows(2, 3))


def test_memory_is_read_by_strides() -> None:
    imported(lambda x: x.as_strided((2, 3), (1, 2), 1), rows(3, 4))
    imported(lambda x: torch.as_strided_scatter(x, torch.ones(2, 2), (2, 2), (4, 1), 1), rows(3, 4))
    with pytest.raises(UnsupportedError, match="row-major"):
        Imported(lambda x: x.as_strided((2, 3), (1, 2)), [rows(4, 3).t()])


def test_strides_that_name_all_elements_in_their_order_may_have_symbols() -> None:
    def pooled(x: Any) -> Any:
        n, k = x.shape
        return (
            x.as_strided((n, k, 1, 1), (k, 1, k, 3)),
            x.as_strided((1, n * k), (7, 1)),
            x.as_strided((n, 1, k), (k, 2, 1)),
        )

    program = Imported(pooled, [rows(5, 3)], "symbolic")
    for n in (5, 2):
        agree(program.interpreted([rows(n, 3)]), pooled(rows(n, 3)))
    for size, stride in (((5, 3), (1, 5)), ((4, 3), (3, 1)), ((5, 3), (4, 1))):
        with pytest.raises(UnsupportedError, match=r"symbolic|static"):
            Imported(
                lambda x, s=size, t=stride: x.as_strided((x.shape[0] - 5 + s[0], s[1]), t), [rows(5, 4)], "symbolic"
            )


def test_another_number_of_parts_is_another_program() -> None:
    program = Imported(lambda x: x.split(2), [rows(5, 3)], "symbolic")
    agree(program.interpreted([rows(5, 2)]), rows(5, 2).split(2))
    for extent in (4, 7):
        with pytest.raises((RunError, TypeCheckError)):
            program.interpreted([rows(extent, 3)])


def test_compiled_as_interpreted() -> None:
    def parts(x: Any) -> Any:
        a, b, c = x.split([1, 2, 2], 1)
        return a + b, c.t().reshape(-1), x[1:, ::2], x.diagonal(1), x.roll(1, 1), F.pad(x, (2, 1), value=1.0), x.triu()

    imported(parts, rows(4, 5), compile=True)
    imported(parts, rows(4, 5), compile=True, mode="symbolic")


@pytest.mark.filterwarnings("ignore")  # of PyTorch's exporter
def test_numbers_that_the_data_decides() -> None:
    class Cut(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, n: Any) -> Any:
            count = n.item()
            torch._check(count >= 0)
            torch._check(count <= x.shape[0])
            return x.narrow(0, 0, count) * 2, x.new_ones(count, 2)

    given = rows(4, 3), torch.tensor(2)
    module, _ = import_program(torch.export.export(Cut(), given))
    for count in (0, 1, 4):
        x, n = rows(4, 3), torch.tensor(count)
        found = evaluate(module, [x.numpy(), n.numpy()])
        agree([torch.tensor(f) for f in found], Cut()(x, n))
    for count in (-1, 5):
        with pytest.raises((RunError, TypeCheckError)):
            evaluate(module, [rows(4, 3).numpy(), torch.tensor(count).numpy()])


def test_assertions_hold_or_end_the_call() -> None:
    def doubled(x: Any) -> Any:
        torch.ops.aten._assert_async.msg((x > 0).all(), "all above 0")
        return x * 2

    program = Imported(doubled, [torch.ones(3)])
    for run in (program.interpreted, program.compiled):
        agree(run([torch.ones(3)]), torch.full((3,), 2.0))
        with pytest.raises(RunError):
            run([torch.zeros(3)])


def test_a_place_may_be_a_number_that_the_data_decides() -> None:
    for place in (0, 2, -3):
        imported(lambda x, n: torch.narrow(x, 0, n, 2), rows(4, 3), torch.tensor(place))


def test_a_number_may_be_below_0() -> None:
    program = Imported(lambda x, n: x + n.item(), [rows(4), torch.tensor(2)])
    for count in (-3, 0, 7):
        agree(program.interpreted([rows(4), torch.tensor(count)]), rows(4) + count)


def test_ranges_are_counted_as_pytorch_counts() -> None:
    imported(lambda: (torch.arange(0.5, 5.5, 1.5, dtype=torch.int64), torch.arange(0.5, 5.5, 1.5, dtype=torch.int32)))
    imported(lambda: (torch.linspace(0, 7, 5, dtype=torch.int64), torch.linspace(-1, 2.5, 7), torch.logspace(0, 2, 4)))


def test_floats_are_numbers_too() -> None:
    imported(lambda x, n: x * n.item(), rows(4), torch.tensor(2.5))


def test_dropout_is_refused_where_it_draws() -> None:
    imported(lambda x: F.dropout(x, 0.5, training=False), rows(3, 4))
    with pytest.raises(UnsupportedError, match="random"):
        Imported(lambda x: torch.native_dropout(x, 0.5, True)[0], [rows(3, 4)])
