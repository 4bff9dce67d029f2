"""Conditions on sizes: what a program was traced under, calls check; sizes as truth values and as bits."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

import legato  # noqa: E402
from legato.base.errors import RunError, UnsupportedError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
AUTO = {0: torch.export.Dim.AUTO}


class Pair(NamedTuple):
    u: Any
    v: Any


class Calls(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def of_even(x: Any) -> Any:
    return x + 1 if x.shape[0] % 2 == 0 else x - 1


def of_others_than_5(x: Any) -> Any:
    return x * (2 if x.shape[0] != 5 else 3)


def of_whole_roots(x: Any) -> Any:
    return x.new_ones(int(x.shape[0] ** 0.5))


def of_two_bounds(x: Any) -> Any:
    return x * 2 if x.shape[0] * 3 > 12 and x.shape[0] // 2 != 5 else x


def exported(function: Callable[..., Any], saved: bool = False) -> Any:
    found = torch.export.export(Calls(function), (torch.ones(8),), dynamic_shapes=(AUTO,))
    if not saved:
        return found
    file = io.BytesIO()
    torch.export.save(found, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("function", [of_even, of_others_than_5, of_whole_roots, of_two_bounds])
def test_a_call_agrees_with_eager_or_is_refused(function: Callable[..., Any], saved: bool) -> None:
    run = legato.compile(exported(function, saved))
    refused = 0
    for n in (4, 5, 6, 7, 8, 10, 13, 30):
        x = torch.randn(n)
        try:
            found = run(x)
        except RunError:
            refused += 1
            continue
        torch.testing.assert_close(found, function(x))
    assert 0 < refused < 8


class Spelled(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Has arguments whose names in the graph are alike."""

    def forward(self, p: Any, p_u: Any, pairs: Any, *, Key: Any) -> Any:
        parts = (p.u, p.v, p_u, pairs[0], pairs[1], Key["a.b"])
        return sum(of_even(x).sum() for x in parts)


def spelled(sizes: list[int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    u, v, p_u, first, second, key = (torch.ones(n) for n in sizes)
    return (Pair(u, v), p_u, [first, second]), {"Key": {"a.b": key}}


@pytest.mark.parametrize("strict", [False, True])
def test_arguments_in_structures(strict: bool) -> None:
    args, kwargs = spelled([4] * 6)
    dims = {"p": Pair(AUTO, AUTO), "p_u": AUTO, "pairs": [AUTO, AUTO], "Key": {"a.b": AUTO}}
    run = legato.compile(torch.export.export(Spelled(), args, kwargs, dynamic_shapes=dims, strict=strict))
    args, kwargs = spelled([2, 4, 6, 8, 10, 12])
    torch.testing.assert_close(run(*args, **kwargs), Spelled()(*args, **kwargs))
    for odd in range(6):
        args, kwargs = spelled([7 if n == odd else 4 for n in range(6)])
        with pytest.raises(RunError, match="the sizes do not fit"):
            run(*args, **kwargs)


def test_a_condition_on_sizes_is_a_number() -> None:
    def scaled(x: Any) -> Any:
        return x * (x.shape[0] > 5), torch.where(x > 0, x, x.shape[0] > 7), (x > 0) + (x.shape[0] > 5)

    run = legato.compile(exported(scaled))
    for n in (3, 6, 9):
        x = torch.randn(n)
        try:
            found = run(x)
        except RunError:  # where PyTorch took the condition for true
            continue
        torch.testing.assert_close(found, scaled(x))


def test_bits_of_sizes_are_refused() -> None:
    with pytest.raises(UnsupportedError):
        legato.compile(exported(lambda x: x.new_zeros(x.shape[0] & 3)))


def test_an_argument_that_pytorch_cannot_tell_is_refused() -> None:
    class Flat(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, flat_args: Any) -> Any:
            return x + of_even(flat_args[0]).sum()

    args = (torch.ones(3), [torch.ones(4), torch.ones(3)])
    program = torch.export.export(Flat(), args, dynamic_shapes=({}, [AUTO, {}]), strict=True)
    with pytest.raises(UnsupportedError, match="flat_args"):
        legato.compile(program)
