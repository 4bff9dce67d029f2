"""The lines of random modules: views, writes in place, arithmetic, reductions, joins, layers, shape arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tests.frontend.torch.random_modules import DTYPES, Draft, Step

__all__ = ["STEPS"]

_UNARY = "neg abs relu square sign logical_not floor ceil round trunc isnan isinf clone contiguous positive".split()
_SMOOTH = "tanh sigmoid erf sin cos atan".split()
_BINARY = "torch.add torch.sub torch.mul torch.maximum torch.minimum torch.fmax torch.logical_and torch.logical_xor".split()
_SHARP = "torch.eq torch.ne torch.lt torch.le torch.gt torch.ge torch.remainder torch.fmod torch.floor_divide".split()
_NUMBERS = ("0", "1", "2", "-1", "3", "0.5", "-0.25", "1.5", "True")


def _has_dims(x: torch.Tensor) -> bool:
    return x.dim() > 0


def _is_float(x: torch.Tensor) -> bool:
    return x.dtype.is_floating_point


def _is_number(x: torch.Tensor) -> bool:
    return x.dtype is not torch.bool


def _is_plain(x: torch.Tensor) -> bool:
    """Whether no two elements share memory."""
    offsets = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(x.shape, x.stride(), strict=True):
        offsets = offsets[..., None] + torch.arange(size) * stride
    return int(offsets.unique().numel()) == x.numel()


# ---------------------------------------------------------------------- views


def _bounds(b: Draft, x: str) -> str:
    low, high = (b.rng.choice(("", b.size(x))) for _ in range(2))
    step = b.rng.choice(("", "", "", ":2", ":3"))
    return f"{low}:{high}{step}"


def _subscript(b: Draft, x: str) -> str:
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
    return b.rng.choice((
        f"{x}.reshape({x}.shape[0], -1)", f"{x}.view({x}.shape[0], -1)", f"{x}.view(-1)", f"{x}.flatten({axis})",
        f"{x}.reshape(-1, {x}.size({axis}))", f"{x}.reshape({x}.size({axis}), {x}.numel() // {x}.size({axis}))",
        f"{x}.reshape(-1, 2)", f"{x}.reshape({x}.size(0) // 2, 2, -1)", f"{x}.unflatten({axis}, (-1, 2))",
        f"{x}.reshape(*{x}.shape[:-1], 1, {x}.shape[-1])", f"{x}.unsqueeze({axis}).squeeze()",
        f"{x}.unflatten({axis}, ({x}.shape[{axis}] // 2, 2))", f"{x}.view_as({x})",
    ))  # fmt: skip


def _view(b: Draft, x: str) -> str:
    """A view of a tensor, as an expression."""
    rng, axis, other = b.rng, b.axis(x), b.axis(x)
    return rng.choice((
        _subscript(b, x), _subscript(b, x), _subscript(b, x), _reshape(b, x), _reshape(b, x),
        f"{x}.select({axis}, {b.size(x)})", f"{x}.narrow({axis}, {b.size(x)}, {b.size(x)})",
        f"{x}.transpose({axis}, {other})", f"{x}.movedim({axis}, {other})", f"{x}.unsqueeze({axis})",
        f"{x}.squeeze({axis})", f"{x}.squeeze()", f"{x}.unfold({axis}, {rng.randint(1, 3)}, {rng.randint(1, 2)})",
        f"{x}.expand({rng.randint(1, 3)}, *{x}.shape)", f"{x}.T", f"{x}.mT", f"{x}.diagonal(0, {axis}, {other})",
        f"{x}.diagonal({rng.randint(-1, 1)}, {axis}, {other})", f"{x}.split({rng.randint(1, 3)}, {axis})[-1]",
        f"{x}.chunk({rng.randint(1, 3)}, {axis})[0]", f"{x}.unbind({axis})[{rng.randint(-1, 1)}]", f"{x}.detach()",
        f"{x}.tensor_split({rng.randint(1, 3)}, {axis})[0]", f"torch.flip({x}, [{axis}])",
    ))  # fmt: skip


def _viewed(b: Draft) -> str | None:
    x = b.pick(_has_dims if b.rng.random() < 0.9 else lambda x: True)
    return None if x is None else f"{b.fresh()} = {_view(b, x)}"


# ---------------------------------------------------------------------- arithmetic


def _operand(b: Draft) -> str:
    found = b.pick()
    return b.rng.choice(_NUMBERS) if found is None or b.rng.random() < 0.25 else found


def _unary(b: Draft) -> str | None:
    x = b.pick()
    return None if x is None else f"{b.fresh()} = torch.{b.rng.choice(_UNARY)}({x})".replace("torch.contiguous", "torch.clone")


def _smooth(b: Draft) -> str | None:
    x = b.pick()
    return None if x is None else f"{b.fresh()} = torch.{b.rng.choice(_SMOOTH)}({x})"


def _smooth_layer(b: Draft) -> str | None:
    x = b.pick(_is_float)
    if x is None:
        return None
    name = b.rng.choice(("F.softmax({x}, {d})", "F.log_softmax({x}, {d})", "F.gelu({x})", "F.silu({x})",
                         "F.layer_norm({x}, {x}.shape[-1:])", "F.softplus({x})", "torch.logsumexp({x}, {d})",
                         "torch.sqrt({x}.abs())", "torch.rsqrt({x}.abs() + 1)", "{x}.var({d})", "F.normalize({x}, dim={d})",
                         "torch.exp(-{x}.abs())", "torch.log1p({x}.abs())", "{x} / 3", "F.rms_norm({x}, {x}.shape[-1:])",
                         "F.linear({x}, self.weight, self.bias)"))  # fmt: skip
    return f"{b.fresh()} = {name.format(x=x, d=b.axis(x))}"


def _binary(b: Draft) -> str | None:
    x, y = b.pick(), _operand(b)
    if x is None:
        return None
    if b.rng.random() < 0.3:
        return f"{b.fresh()} = {x} {b.rng.choice('+-*')} {y}"
    name = b.rng.choice(_BINARY)
    if y in _NUMBERS and name not in ("torch.add", "torch.sub", "torch.mul"):
        return None
    return f"{b.fresh()} = {name}({x}, {y})"


def _sharp(b: Draft) -> str | None:
    x, y = b.pick(), _operand(b)
    if x is None:
        return None
    return f"{b.fresh()} = {b.rng.choice([f'{n}({x}, {y})' for n in _SHARP] + [f'{x} / {y}', f'{x} % {y}', f'{x} // {y}'])}"


def _with_size(b: Draft) -> str | None:
    """A tensor and an integer made of extents."""
    x, y = b.pick(), b.pick(_has_dims)
    if x is None or y is None:
        return None
    return f"{b.fresh()} = {x} {b.rng.choice('+*-')} ({b.size(y)})"


def _where(b: Draft) -> str | None:
    mask, x, y = b.pick(lambda x: x.dtype is torch.bool), b.pick(), _operand(b)
    if mask is None or x is None:
        return None
    return f"{b.fresh()} = {b.rng.choice((f'torch.where({mask}, {x}, {y})', f'{x}.masked_fill({mask}, 2)'))}"


def _mask(b: Draft) -> str | None:
    x = b.pick(_is_number)
    return None if x is None else f"{b.fresh()} = {x} {b.rng.choice(('>', '<=', '=='))} {b.rng.choice(_NUMBERS)}"


def _cast(b: Draft) -> str | None:
    x = b.pick()
    if x is None:
        return None
    kind = b.rng.choice(DTYPES)
    bounded = f"{x}.to(torch.float32).nan_to_num(0, 1, -1).clamp({'0' if kind == 'uint8' else '-100'}, 100)"
    return f"{b.fresh()} = {bounded if _is_float(b.value(x)) else x}.to(torch.{kind})"


def _clamp(b: Draft) -> str | None:
    x = b.pick(_is_number)
    return None if x is None else f"{b.fresh()} = {x}.clamp({b.rng.choice(('-1, 1', 'min=0', 'max=1.5', '0, 3'))})"


# ---------------------------------------------------------------------- reductions, joins, products


def _reduced(b: Draft) -> str | None:
    x = b.pick()
    if x is None:
        return None
    dims = b.rng.choice(("", f"{b.axis(x)}", f"{b.axis(x)}, keepdim=True"))
    name = b.rng.choice(("sum", "sum", "amax", "amin", "any", "all", "count_nonzero", "mean", "prod", "cumsum"))
    if name == "mean" and not _is_float(b.value(x)):
        return f"{b.fresh()} = {x}.sum({dims.split(',')[0]}, dtype=torch.float32)" if dims else None
    return f"{b.fresh()} = {x}.{name}({dims.split(',')[0] if name in ('cumsum', 'count_nonzero') else dims})"


def _placed(b: Draft) -> str | None:
    x = b.pick(_has_dims)
    if x is None:
        return None
    axis = b.axis(x)
    text = b.rng.choice((f"{x}.max({axis})[0]", f"{x}.min({axis})[0]", f"{x}.sort({axis}, stable=True)[{b.rng.randint(0, 1)}]",
                         f"{x}.sort({axis}, descending=True, stable=True)[1]", f"{x}.topk(1, {axis})[0]", f"{x}.argsort({axis}, stable=True)",
                         f"{x}.cummax({axis})[0]", f"{x}.median({axis})[0]"))  # fmt: skip
    return f"{b.fresh()} = {text}"


def _joined(b: Draft) -> str | None:
    x, y = b.pick(), b.pick()
    if x is None or y is None:
        return None
    axis = b.axis(x)
    text = b.rng.choice((f"torch.cat([{x}, {y}], {axis})", f"torch.stack([{x}, {y}], {axis})", f"torch.cat([{x}, {x}], {axis})",
                         f"{x}.repeat(2, *[1] * {x}.dim())", f"{x}.repeat_interleave(2, {axis})", f"{x}.roll(1, {axis})",
                         f"{x}.roll({b.size(x)}, {axis})", f"F.pad({x}, (1, {b.rng.randint(-1, 2)}), value=2)", f"{x}.flip({axis})",
                         f"torch.stack([{x}, {x} * 2], {axis})", f"{x}.tile(2)", f"{x}.tril()", f"{x}.triu(1)"))  # fmt: skip
    return f"{b.fresh()} = {text}"


def _product(b: Draft) -> str | None:
    x, y = b.pick(_has_dims), b.pick(_has_dims)
    if x is None or y is None:
        return None
    text = b.rng.choice((f"{x} @ {y}", f"{x} @ {x}.mT", f"torch.matmul({x}, {y})", f"{x} @ {y}.mT", f"{x}.mT @ {y}",
                         f"torch.einsum('i,j->ij', {x}, {y})", f"torch.outer({x}, {y})"))  # fmt: skip
    return f"{b.fresh()} = {text}"


def _made(b: Draft) -> str | None:
    """A tensor made of extents."""
    x = b.pick(_has_dims)
    if x is None:
        return None
    n = f"{x}.shape[{b.axis(x)}]"
    text = b.rng.choice((f"torch.arange({n})", f"torch.zeros({n}, 2)", f"torch.full(({n},), 1.5)", f"torch.ones_like({x})",
                         f"{x}.new_zeros({x}.shape)", f"torch.eye({n})", f"torch.arange({n} - 1, -1, -1)",
                         f"torch.arange({n}) % 2 == 0", f"torch.tensor([0.5, 2.0])", f"torch.arange({n}, dtype=torch.float32) / 4"))  # fmt: skip
    return f"{b.fresh()} = {text}"


# ---------------------------------------------------------------------- indices


def _index(b: Draft, x: str) -> str:
    """Positions along an axis, as an expression."""
    n = f"{x}.shape[0]"
    whole = b.pick(lambda i: i.dtype is torch.int64 and 0 < i.dim() < 3)
    few = ("torch.tensor([0, -1])", "torch.tensor(0)", f"torch.arange({n} // 2)", f"torch.arange({n}) // 2", f"torch.arange({n} - 1, -1, -1)")
    return b.rng.choice(few + ((f"{whole} % {n}",) if whole else ()))


def _indexed(b: Draft) -> str | None:
    x = b.pick(_has_dims)
    if x is None:
        return None
    at, axis = _index(b, x), b.axis(x)
    text = b.rng.choice((f"{x}[{at}]", f"{x}[..., {at} % {x}.shape[-1]]", f"{x}.index_select(0, {at})", f"{x}[{at}, 1:]", f"{x}[{at}, {at}]",
                         f"{x}[:, {at} % {x}.shape[1]]", f"torch.gather({x}, {axis}, torch.zeros_like({x}, dtype=torch.int64))",
                         f"torch.take_along_dim({x}, {x}.argsort({axis}, stable=True), {axis})", f"F.one_hot({at}, 100)",
                         f"F.embedding({at}, self.weight)", f"{x}[{at}, None]", f"torch.nonzero({x})", f"{x}[{x} > 0]"))  # fmt: skip
    return f"{b.fresh()} = {text}"


# ---------------------------------------------------------------------- in place


def _source(b: Draft, target: str) -> str:
    """What is written into a tensor: never memory that it shares."""
    found = _operand(b)
    if found in _NUMBERS:
        return found
    shares = b.value(found).untyped_storage().data_ptr() == b.value(target).untyped_storage().data_ptr()
    return f"{found}.clone()" if shares else found


def _written(b: Draft) -> str | None:
    x = b.pick(_is_plain)
    if x is None:
        return None
    y = _source(b, x)
    simple = ("relu_()", "neg_()", "zero_()", "fill_(2)", "abs_()", "clamp_(-1, 1)", "t_()", "unsqueeze_(0)", "squeeze_()")
    text = b.rng.choice((f".add_({y})", f".mul_({y})", f".sub_({y})", f".copy_({y})" if y not in _NUMBERS else ".fill_(1)",
                         *(f".{s}" for s in simple[:6]), f".add_({y}, alpha=2)"))  # fmt: skip
    if x.startswith("self."):
        x = "self.total"
    return f"{x}{text}"


def _written_part(b: Draft) -> str | None:
    """A write into a view of a tensor."""
    x = b.pick(lambda x: _has_dims(x) and _is_plain(x))
    if x is None:
        return None
    x = "self.total" if x.startswith("self.") else x
    y = _source(b, x)
    part = _subscript(b, x)
    viewed = b.rng.choice((part, part, f"{x}.select({b.axis(x)}, {b.size(x)})", f"{x}.transpose({b.axis(x)}, {b.axis(x)})",
                           f"{x}.diagonal()", f"{x}.narrow({b.axis(x)}, {b.size(x)}, {b.size(x)})", f"{x}.view(-1)",
                           f"{x}.unsqueeze(0)", f"{x}.chunk(2, {b.axis(x)})[0]"))  # fmt: skip
    return b.rng.choice((f"{part} = {y}", f"{part} += {y}", f"{part} *= {y}", f"{viewed}.add_({y})", f"{viewed}.relu_()",
                         f"{viewed}.zero_()", f"{viewed}.mul_({y})", f"{viewed}.fill_(1)", f"{viewed}.copy_(torch.as_tensor({y}))"))  # fmt: skip


def _put(b: Draft) -> str | None:
    """A write at masks or positions."""
    x = b.pick(lambda x: _has_dims(x) and _is_plain(x))
    if x is None:
        return None
    x = "self.total" if x.startswith("self.") else x
    y, n, axis = _source(b, x), f"{x}.shape[0]", b.axis(x)
    mask = b.pick(lambda m: m.dtype is torch.bool)
    ways = [f"{x}[torch.arange({n} // 2)] = {y}", f"{x}[torch.tensor([0, -1])] += 1", f"{x}.index_put_((torch.arange({n}),), torch.as_tensor({y}).to({x}.dtype))",
            f"{x}.index_put_((torch.arange({n}) // 2,), torch.ones((), dtype={x}.dtype), accumulate=True)",
            f"{x}.index_add_(0, torch.arange({n}) // 2, {x}.clone())", f"{x}.index_fill_({axis}, torch.tensor([0]), 3)",
            f"{x}.scatter_add_({axis}, torch.zeros_like({x}, dtype=torch.int64), torch.ones_like({x}))",
            f"{x}.index_copy_({axis}, torch.tensor([0]), {x}.narrow({axis}, -1, 1).clone())", f"{x}.masked_fill_({x} > 0, 1)", f"{x}[{x} > 0] = 1"]  # fmt: skip
    if mask is not None:
        ways += [f"{x}.masked_fill_({mask}.clone(), 2)", f"{x}[{mask}.clone()] = 1"] * 3
    return b.rng.choice(ways)


def _times(count: int, steps: Sequence[Step]) -> list[Step]:
    return [*steps] * count


STEPS: Sequence[Step] = [
    *_times(7, [Step(_viewed), Step(_written_part)]),
    *_times(3, [Step(_binary), Step(_written), Step(_reduced, exact=True), Step(_joined), Step(_mask, exact=True), Step(_put, exact=True)]),
    *_times(2, [Step(_indexed, exact=True), Step(_where), Step(_made), Step(_cast, exact=True), Step(_product), Step(_sharp, exact=True),
                Step(_unary, exact=True), Step(_with_size)]),
    Step(_smooth, rounds=True), Step(_smooth_layer, rounds=True, exact=True), Step(_clamp), Step(_placed, exact=True),
]  # fmt: skip
