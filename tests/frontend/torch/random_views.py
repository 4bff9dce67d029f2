"""Lines of random modules that give views, and what all their makers ask of operands."""

from __future__ import annotations

import torch

from tests.frontend.torch.random_modules import Draft

__all__ = ["NUMBERS", "has_dims", "is_float", "is_number", "is_plain", "operand", "subscript", "viewed_line"]

NUMBERS = ("0", "1", "2", "-1", "3", "0.5", "-0.25", "1.5", "True")


def has_dims(x: torch.Tensor) -> bool:
    """Whether a tensor is no scalar."""
    return x.dim() > 0


def is_float(x: torch.Tensor) -> bool:
    """Whether it holds floats."""
    return x.dtype.is_floating_point


def is_number(x: torch.Tensor) -> bool:
    """Whether it holds no truth values."""
    return x.dtype is not torch.bool


def is_plain(x: torch.Tensor) -> bool:
    """Whether no two elements share memory."""
    offsets = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(x.shape, x.stride(), strict=True):
        offsets = offsets[..., None] + torch.arange(size) * stride
    return int(offsets.unique().numel()) == x.numel()


def operand(b: Draft) -> str:
    """The name of a tensor, or a number."""
    found = b.pick()
    return b.rng.choice(NUMBERS) if found is None or b.rng.random() < 0.25 else found


def _bounds(b: Draft, x: str) -> str:
    low, high = (b.rng.choice(("", b.size(x))) for _ in range(2))
    step = b.rng.choice(("", "", "", ":2", ":3"))
    return f"{low}:{high}{step}"


def subscript(b: Draft, x: str) -> str:
    """Indices of a view: slices, integers, new axes, an ellipsis."""
    rank = b.value(x).dim()
    parts = []
    for _ in range(b.rng.randint(1, rank) if rank else 0):
        parts.append(b.rng.choice((_bounds(b, x), _bounds(b, x), _bounds(b, x), b.size(x), ":")))
    if b.rng.random() < 0.2 or not parts:
        parts.insert(b.rng.randint(0, len(parts)), "...")
    if b.rng.random() < 0.2:
        parts.insert(b.rng.randint(0, len(parts)), "None")
    return f"{x}[{', '.join(parts)}]"


def _reshape(b: Draft, x: str) -> str:
    """Shape arithmetic."""
    axis = b.axis(x)
    return b.rng.choice(
        (
            f"{x}.reshape({x}.shape[0], -1)",
            f"{x}.view({x}.shape[0], -1)",
            f"{x}.view(-1)",
            f"{x}.flatten({axis})",
            f"{x}.reshape(-1, {x}.size({axis}))",
            f"{x}.reshape({x}.size({axis}), {x}.numel() // {x}.size({axis}))",
            f"{x}.reshape(-1, 2)",
            f"{x}.reshape({x}.size(0) // 2, 2, -1)",
            f"{x}.unflatten({axis}, (-1, 2))",
            f"{x}.reshape(*{x}.shape[:-1], 1, {x}.shape[-1])",
            f"{x}.unsqueeze({axis}).squeeze()",
            f"{x}.unflatten({axis}, ({x}.shape[{axis}] // 2, 2))",
            f"{x}.view_as({x})",
        )
    )


def _view(b: Draft, x: str) -> str:
    """A view of a tensor, as an expression."""
    rng, axis, other = b.rng, b.axis(x), b.axis(x)
    return rng.choice(
        (
            subscript(b, x),
            subscript(b, x),
            subscript(b, x),
            _reshape(b, x),
            _reshape(b, x),
            f"{x}.select({axis}, {b.size(x)})",
            f"{x}.narrow({axis}, {b.size(x)}, {b.size(x)})",
            f"{x}.transpose({axis}, {other})",
            f"{x}.movedim({axis}, {other})",
            f"{x}.unsqueeze({axis})",
            f"{x}.squeeze({axis})",
            f"{x}.squeeze()",
            f"{x}.unfold({axis}, {rng.randint(1, 3)}, {rng.randint(1, 2)})",
            f"{x}.expand({rng.randint(1, 3)}, *{x}.shape)",
            f"{x}.T",
            f"{x}.mT",
            f"{x}.diagonal(0, {axis}, {other})",
            f"{x}.diagonal({rng.randint(-1, 1)}, {axis}, {other})",
            f"{x}.split({rng.randint(1, 3)}, {axis})[-1]",
            f"{x}.chunk({rng.randint(1, 3)}, {axis})[0]",
            f"{x}.unbind({axis})[{rng.randint(-1, 1)}]",
            f"{x}.detach()",
            f"{x}.tensor_split({rng.randint(1, 3)}, {axis})[0]",
            f"torch.flip({x}, [{axis}])",
        )
    )


def viewed_line(b: Draft) -> str | None:
    """A view of a tensor."""
    x = b.pick(has_dims if b.rng.random() < 0.9 else lambda x: True)
    return None if x is None else f"{b.fresh()} = {_view(b, x)}"
