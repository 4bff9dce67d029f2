"""Lines of random modules that read and write at positions and masks, and that write in place."""

from __future__ import annotations

import torch

from tests.frontend.torch.random_modules import Draft
from tests.frontend.torch.random_views import NUMBERS, has_dims, is_plain, operand, subscript

__all__ = ["indexed", "put", "written", "written_part"]


def _index(b: Draft, x: str) -> str:
    """Positions along an axis, as an expression."""
    n = f"{x}.shape[0]"
    whole = b.pick(lambda i: i.dtype is torch.int64 and 0 < i.dim() < 3)
    few = (
        "torch.tensor([0, -1])",
        "torch.tensor(0)",
        f"torch.arange({n} // 2)",
        f"torch.arange({n}) // 2",
        f"torch.arange({n} - 1, -1, -1)",
    )
    return b.rng.choice(few + ((f"{whole} % {n}",) if whole else ()))


def indexed(b: Draft) -> str | None:
    """What stands at positions."""
    x = b.pick(has_dims)
    if x is None:
        return None
    at, axis = _index(b, x), b.axis(x)
    text = b.rng.choice(
        (
            f"{x}[{at}]",
            f"{x}[..., {at} % {x}.shape[-1]]",
            f"{x}.index_select(0, {at})",
            f"{x}[{at}, 1:]",
            f"{x}[{at}, {at}]",
            f"{x}[:, {at} % {x}.shape[1]]",
            f"torch.gather({x}, {axis}, torch.zeros_like({x}, dtype=torch.int64))",
            f"torch.take_along_dim({x}, {x}.argsort({axis}, stable=True), {axis})",
            f"F.one_hot({at}, 100)",
            f"F.embedding({at}, self.weight)",
            f"{x}[{at}, None]",
            f"torch.nonzero({x})",
            f"{x}[{x} > 0]",
        )
    )
    return f"{b.fresh()} = {text}"


# ---------------------------------------------------------------------- in place


def _source(b: Draft, target: str) -> str:
    """What is written into a tensor: never memory that it shares."""
    found = operand(b)
    if found in NUMBERS:
        return found
    shares = b.value(found).untyped_storage().data_ptr() == b.value(target).untyped_storage().data_ptr()
    return f"{found}.clone()" if shares else found


def written(b: Draft) -> str | None:
    """A write into a whole tensor."""
    x = b.pick(is_plain)
    if x is None:
        return None
    y = _source(b, x)
    simple = ("relu_()", "neg_()", "zero_()", "fill_(2)", "abs_()", "clamp_(-1, 1)")
    text = b.rng.choice(
        (
            f".add_({y})",
            f".mul_({y})",
            f".sub_({y})",
            f".copy_({y})" if y not in NUMBERS else ".fill_(1)",
            *(f".{s}" for s in simple),
            f".add_({y}, alpha=2)",
        )
    )
    if x.startswith("self."):
        x = "self.total"
    return f"{x}{text}"


def written_part(b: Draft) -> str | None:
    """A write into a view of a tensor."""
    x = b.pick(lambda x: has_dims(x) and is_plain(x))
    if x is None:
        return None
    x = "self.total" if x.startswith("self.") else x
    y = _source(b, x)
    part = subscript(b, x)
    viewed = b.rng.choice(
        (
            part,
            part,
            f"{x}.select({b.axis(x)}, {b.size(x)})",
            f"{x}.transpose({b.axis(x)}, {b.axis(x)})",
            f"{x}.diagonal()",
            f"{x}.narrow({b.axis(x)}, {b.size(x)}, {b.size(x)})",
            f"{x}.view(-1)",
            f"{x}.unsqueeze(0)",
            f"{x}.chunk(2, {b.axis(x)})[0]",
        )
    )
    return b.rng.choice(
        (
            f"{part} = {y}",
            f"{part} += {y}",
            f"{part} *= {y}",
            f"{viewed}.add_({y})",
            f"{viewed}.relu_()",
            f"{viewed}.zero_()",
            f"{viewed}.mul_({y})",
            f"{viewed}.fill_(1)",
            f"{viewed}.copy_(torch.as_tensor({y}))",
        )
    )


def put(b: Draft) -> str | None:
    """A write at masks or positions."""
    x = b.pick(lambda x: has_dims(x) and is_plain(x))
    if x is None:
        return None
    x = "self.total" if x.startswith("self.") else x
    y, n, axis = _source(b, x), f"{x}.shape[0]", b.axis(x)
    mask = b.pick(lambda m: m.dtype is torch.bool and has_dims(m))
    ways = [
        f"{x}[torch.arange({n} // 2)] = {y}",
        f"{x}[torch.tensor([0, -1])] += 1",
        f"{x}.index_put_((torch.arange({n}),), torch.as_tensor({y}).to({x}.dtype))",
        f"{x}.index_put_((torch.arange({n}) // 2,), torch.ones((), dtype={x}.dtype), accumulate=True)",
        f"{x}.index_add_(0, torch.arange({n}) // 2, {x}.clone())",
        f"{x}.index_fill_({axis}, torch.tensor([0]), 3)",
        f"{x}.scatter_add_({axis}, torch.zeros_like({x}, dtype=torch.int64), torch.ones_like({x}))",
        f"{x}.index_copy_({axis}, torch.tensor([0]), {x}.narrow({axis}, -1, 1).clone())",
        f"{x}.masked_fill_({x} > 0, 1)",
        f"{x}[{x} > 0] = 1",
    ]
    if mask is not None:
        ways += [f"{x}.masked_fill_({mask}.clone(), 2)", f"{x}[{mask}.clone()] = 1"] * 3
    return b.rng.choice(ways)
