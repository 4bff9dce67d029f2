"""The lines of random modules: arithmetic, reductions, joins, layers, shape arithmetic; views and writes by others."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tests.frontend.torch.random_modules import DTYPES, Draft, Step
from tests.frontend.torch.random_views import NUMBERS, has_dims, is_float, is_number, operand, viewed_line
from tests.frontend.torch.random_writes import indexed, put, written, written_part

__all__ = ["STEPS"]

_UNARY = (
    "neg",
    "abs",
    "relu",
    "square",
    "sign",
    "logical_not",
    "floor",
    "ceil",
    "round",
    "trunc",
    "isnan",
    "isinf",
    "clone",
    "positive",
)
_SMOOTH = ("tanh", "sigmoid", "erf", "sin", "cos", "atan")
_BINARY = (
    "torch.add",
    "torch.sub",
    "torch.mul",
    "torch.maximum",
    "torch.minimum",
    "torch.fmax",
    "torch.logical_and",
    "torch.logical_xor",
)
_SHARP = (
    "torch.eq",
    "torch.ne",
    "torch.lt",
    "torch.le",
    "torch.gt",
    "torch.ge",
    "torch.remainder",
    "torch.fmod",
    "torch.floor_divide",
)


def _unary(b: Draft) -> str | None:
    x = b.pick()
    return None if x is None else f"{b.fresh()} = torch.{b.rng.choice(_UNARY)}({x})"


def _smooth(b: Draft) -> str | None:
    x = b.pick()
    return None if x is None else f"{b.fresh()} = torch.{b.rng.choice(_SMOOTH)}({x})"


def _smooth_layer(b: Draft) -> str | None:
    x = b.pick(is_float)
    if x is None:
        return None
    name = b.rng.choice(
        (
            "F.softmax({x}, {d})",
            "F.log_softmax({x}, {d})",
            "F.gelu({x})",
            "F.silu({x})",
            "F.layer_norm({x}, {x}.shape[-1:])",
            "F.softplus({x})",
            "torch.logsumexp({x}, {d})",
            "torch.sqrt({x}.abs())",
            "torch.rsqrt({x}.abs() + 1)",
            "{x}.var({d})",
            "F.normalize({x}, dim={d})",
            "torch.exp(-{x}.abs())",
            "torch.log1p({x}.abs())",
            "{x} / 3",
            "F.rms_norm({x}, {x}.shape[-1:])",
            "F.linear({x}, self.weight, self.bias)",
        )
    )
    return f"{b.fresh()} = {name.format(x=x, d=b.axis(x))}"


def _binary(b: Draft) -> str | None:
    x, y = b.pick(), operand(b)
    if x is None:
        return None
    if b.rng.random() < 0.3:
        return f"{b.fresh()} = {x} {b.rng.choice('+-*')} {y}"
    name = b.rng.choice(_BINARY)
    if y in NUMBERS and name not in ("torch.add", "torch.sub", "torch.mul"):
        return None
    return f"{b.fresh()} = {name}({x}, {y})"


def _sharp(b: Draft) -> str | None:
    x, y = b.pick(), operand(b)
    if x is None:
        return None
    ways = [f"{n}({x}, {y})" for n in _SHARP] + [f"{x} / {y}", f"{x} % {y}", f"{x} // {y}"]
    return f"{b.fresh()} = {b.rng.choice(ways)}"


def _with_size(b: Draft) -> str | None:
    """A tensor and an integer made of extents."""
    x, y = b.pick(), b.pick(has_dims)
    if x is None or y is None:
        return None
    return f"{b.fresh()} = {x} {b.rng.choice('+*-')} ({b.size(y)})"


def _where(b: Draft) -> str | None:
    mask, x, y = b.pick(lambda x: x.dtype is torch.bool), b.pick(), operand(b)
    if mask is None or x is None:
        return None
    return f"{b.fresh()} = {b.rng.choice((f'torch.where({mask}, {x}, {y})', f'{x}.masked_fill({mask}, 2)'))}"


def _mask(b: Draft) -> str | None:
    x = b.pick(is_number)
    return None if x is None else f"{b.fresh()} = {x} {b.rng.choice(('>', '<=', '=='))} {b.rng.choice(NUMBERS)}"


def _cast(b: Draft) -> str | None:
    x = b.pick()
    if x is None:
        return None
    kind = b.rng.choice(DTYPES)
    bounded = f"{x}.to(torch.float32).nan_to_num(0, 1, -1).clamp({'0' if kind == 'uint8' else '-100'}, 100)"
    return f"{b.fresh()} = {bounded if is_float(b.value(x)) else x}.to(torch.{kind})"


def _clamp(b: Draft) -> str | None:
    x = b.pick(is_number)
    return None if x is None else f"{b.fresh()} = {x}.clamp({b.rng.choice(('-1, 1', 'min=0', 'max=1.5', '0, 3'))})"


# ---------------------------------------------------------------------- reductions, joins, products


def _reduced(b: Draft) -> str | None:
    x = b.pick()
    if x is None:
        return None
    dims = b.rng.choice(("", f"{b.axis(x)}", f"{b.axis(x)}, keepdim=True"))
    name = b.rng.choice(("sum", "sum", "amax", "amin", "any", "all", "count_nonzero", "mean", "prod", "cumsum"))
    if name == "mean" and not is_float(b.value(x)):
        return f"{b.fresh()} = {x}.sum({dims.split(',')[0]}, dtype=torch.float32)" if dims else None
    return f"{b.fresh()} = {x}.{name}({dims.split(',')[0] if name in ('cumsum', 'count_nonzero') else dims})"


def _placed(b: Draft) -> str | None:
    x = b.pick(has_dims)
    if x is None:
        return None
    axis = b.axis(x)
    text = b.rng.choice(
        (
            f"{x}.max({axis})[0]",
            f"{x}.min({axis})[0]",
            f"{x}.sort({axis}, stable=True)[{b.rng.randint(0, 1)}]",
            f"{x}.sort({axis}, descending=True, stable=True)[1]",
            f"{x}.topk(1, {axis})[0]",
            f"{x}.argsort({axis}, stable=True)",
            f"{x}.cummax({axis})[0]",
            f"{x}.median({axis})[0]",
        )
    )
    return f"{b.fresh()} = {text}"


def _joined(b: Draft) -> str | None:
    x, y = b.pick(), b.pick()
    if x is None or y is None:
        return None
    axis = b.axis(x)
    text = b.rng.choice(
        (
            f"torch.cat([{x}, {y}], {axis})",
            f"torch.stack([{x}, {y}], {axis})",
            f"torch.cat([{x}, {x}], {axis})",
            f"{x}.repeat(2, *[1] * {x}.dim())",
            f"{x}.repeat_interleave(2, {axis})",
            f"{x}.roll(1, {axis})",
            f"{x}.roll({b.size(x)}, {axis})",
            f"F.pad({x}, (1, {b.rng.randint(-1, 2)}), value=2)",
            f"{x}.flip({axis})",
            f"torch.stack([{x}, {x} * 2], {axis})",
            f"{x}.tile(2)",
            f"{x}.tril()",
            f"{x}.triu(1)",
        )
    )
    return f"{b.fresh()} = {text}"


def _product(b: Draft) -> str | None:
    x, y = b.pick(has_dims), b.pick(has_dims)
    if x is None or y is None:
        return None
    text = b.rng.choice(
        (
            f"{x} @ {y}",
            f"{x} @ {x}.mT",
            f"torch.matmul({x}, {y})",
            f"{x} @ {y}.mT",
            f"{x}.mT @ {y}",
            f"torch.einsum('i,j->ij', {x}, {y})",
            f"torch.outer({x}, {y})",
        )
    )
    return f"{b.fresh()} = {text}"


def _made(b: Draft) -> str | None:
    """A tensor made of extents."""
    x = b.pick(has_dims)
    if x is None:
        return None
    n = f"{x}.shape[{b.axis(x)}]"
    text = b.rng.choice(
        (
            f"torch.arange({n})",
            f"torch.zeros({n}, 2)",
            f"torch.full(({n},), 1.5)",
            f"torch.ones_like({x})",
            f"{x}.new_zeros({x}.shape)",
            f"torch.eye({n})",
            f"torch.arange({n} - 1, -1, -1)",
            f"torch.arange({n}) % 2 == 0",
            "torch.tensor([0.5, 2.0])",
            f"torch.arange({n}, dtype=torch.float32) / 4",
        )
    )
    return f"{b.fresh()} = {text}"


def _times(count: int, steps: Sequence[Step]) -> list[Step]:
    return [*steps] * count


STEPS: Sequence[Step] = [
    *_times(7, [Step(viewed_line), Step(written_part)]),
    *_times(
        3,
        [
            Step(_binary),
            Step(written),
            Step(_reduced, exact=True),
            Step(_joined),
            Step(_mask, exact=True),
            Step(put, exact=True),
        ],
    ),
    *_times(
        2,
        [
            Step(indexed, exact=True),
            Step(_where),
            Step(_made),
            Step(_cast, exact=True),
            Step(_product),
            Step(_sharp, exact=True),
            Step(_unary, exact=True),
            Step(_with_size),
        ],
    ),
    Step(_smooth, rounds=True),
    Step(_smooth_layer, rounds=True, exact=True),
    Step(_clamp),
    Step(_placed, exact=True),
]
