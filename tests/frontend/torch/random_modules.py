"""Random modules of PyTorch: `forward` is drawn line by line, each line run in eager at several sizes as it is drawn.

    program = draw(seed)         its source, and the inputs that it is called with at each size

Dims are literals, or one of two symbols that have another extent in each of the three calls. Numbers are quarters, so
that most arithmetic is exact: only values that are known exactly are compared, rounded, sorted and indexed with, since
libraries may round differently.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch

__all__ = ["DTYPES", "Draft", "Program", "Step", "copied", "draw", "module_of"]

DTYPES = ("float32",) * 6 + ("float64", "int64", "int64", "int32", "bool", "uint8", "int8", "float16", "bfloat16")
LIMIT = 1e4  # of the numbers of a program
_NAME = re.compile(r"\bself\.\w+|\b[vx]\d+\b")
_CALLS = 3

Env = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A maker of lines: gives one, or None where it finds no operands. `rounds`: its results are not exact; `exact`:
    its operands must be."""

    make: Callable[[Draft], str | None]
    rounds: bool = False
    exact: bool = False


@dataclass(frozen=True)
class Program:
    """`source`: of `forward`; `calls`: the inputs of each; `dynamic`: the axes of each input that are symbolic;
    `scale`: the largest number in it; `epsilon`: of its coarsest floats."""

    seed: int
    source: str
    calls: Sequence[Sequence[torch.Tensor]]
    dynamic: Sequence[Sequence[int]]
    scale: float
    epsilon: float

    def __str__(self) -> str:
        shapes = [[f"{str(x.dtype)[6:]}{list(x.shape)}" for x in call] for call in self.calls]
        return f"seed {self.seed}, inputs {shapes}, symbolic axes {list(self.dynamic)}\n{self.source}"


def module_of(source: str) -> Any:
    """A module with a weight, a bias, a buffer that changes, and the source of `forward`."""
    names: Env = {"torch": torch, "F": torch.nn.functional}
    exec(compile(source, "<random module>", "exec"), names)

    class Drawn(torch.nn.Module):
        """Of random lines."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter((torch.arange(12.0).reshape(3, 4) % 5 - 2) / 4)
            self.bias = torch.nn.Parameter(torch.tensor([0.5, -0.25, 1.0]))
            self.register_buffer("total", torch.arange(6.0).reshape(2, 3))

        forward = names["forward"]

    return Drawn().requires_grad_(False)


@dataclass
class Draft:
    """`envs`: what every name holds, in each of the calls."""

    rng: Random
    envs: list[Env] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    rounded: set[int] = field(default_factory=set)  # storages with values that are not known exactly
    scale: float = 1.0
    epsilon: float = 2.0**-24
    wants_exact: bool = False

    # ------------------------------------------------------------------ what makers ask

    def value(self, name: str) -> torch.Tensor:
        """What a name holds in the first call."""
        found = self.envs[0]
        for part in name.split("."):
            found = found[part] if isinstance(found, dict) else getattr(found, part)
        return found  # type: ignore[return-value]

    def pick(self, test: Callable[[torch.Tensor], bool] = lambda x: True) -> str | None:
        """The name of a tensor that passes a test; late ones are drawn more often."""
        names = [n for n, v in self.envs[0].items() if n[0] in "vx" and isinstance(v, torch.Tensor)]
        names += ["self.weight", "self.bias", "self.total"]
        good = [n for n in names if test(self.value(n)) and not (self.wants_exact and self.is_rounded(n))]
        return None if not good else self.rng.choice(good[-4:] if self.rng.random() < 0.5 else good)

    def is_rounded(self, name: str) -> bool:
        """Whether a tensor's values are not known exactly."""
        return _storage(self.value(name)) in self.rounded

    def axis(self, name: str, scalar: bool = True) -> int:
        """An axis of a tensor, from the front or from the end."""
        rank = max(self.value(name).dim(), 1 if scalar else 0)
        return self.rng.randrange(-rank, rank)

    def size(self, *names: str) -> str:
        """An integer: a literal, or one made of the extents of tensors."""
        rng = self.rng
        with_dims = [n for n in names if self.value(n).dim()]
        if not with_dims or rng.random() < 0.5:
            return str(rng.choice((-5, -2, -1, -1, 0, 0, 1, 1, 2, 3, 4, 100)))
        name = rng.choice(with_dims)
        extent = f"{name}.shape[{self.axis(name)}]"
        return rng.choice(
            (extent, f"{extent} // 2", f"{extent} - 1", f"-{extent}", f"{extent} * 2", f"-({extent} // 2)")
        )

    def fresh(self) -> str:
        """A name for a result."""
        return f"v{len(self.lines)}"

    # ------------------------------------------------------------------ growth

    def grow(self, steps: Sequence[Step]) -> None:
        """One line more, if the one that is drawn runs at all sizes."""
        step = self.rng.choice(steps)
        self.wants_exact = step.exact
        line = step.make(self)
        if line is None:
            return
        is_rounded = step.rounds or any(self.is_rounded(n) for n in set(_NAME.findall(line)) if self._is_known(n))
        written = [dict(env) for env in self.envs]
        try:
            for env in written:
                exec(line, env)
                if any(not _fits(v) for n, v in env.items() if n[0] in "vx"):
                    return
        except Exception:  # what PyTorch refuses is not drawn
            return
        self.envs = written
        self.lines.append(line)
        target = _NAME.search(line)
        assert target is not None
        self.note(self.value(target[0]), is_rounded)

    def _is_known(self, name: str) -> bool:
        return name.startswith("self.") or name in self.envs[0]

    def note(self, x: torch.Tensor, is_rounded: bool) -> None:
        """What is known of the numbers of a new value, or of one that was written."""
        if is_rounded or not _is_exact(x):
            self.rounded.add(_storage(x))
        if x.dtype.is_floating_point:
            self.epsilon = max(self.epsilon, torch.finfo(x.dtype).eps)
            for env in self.envs:
                numbers = [v for n, v in env.items() if n[0] in "vx" and v.dtype.is_floating_point]
                self.scale = max([self.scale, *(_largest(v) for v in numbers)])


def _storage(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _largest(x: torch.Tensor) -> float:
    finite = x.detach().double()
    finite = finite[finite.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _fits(x: torch.Tensor) -> bool:
    return x.numel() <= 2000 and (not x.dtype.is_floating_point or _largest(x) <= LIMIT)


def _is_exact(x: torch.Tensor) -> bool:
    """Whether sums of such numbers are exact in the dtype."""
    if not x.dtype.is_floating_point:
        return True
    parts, most = (4, 32) if x.element_size() == 2 else (64, 4096)
    wide = x.detach().double()
    wide = wide[wide.isfinite()] * parts
    return bool((wide == wide.round()).all()) and _largest(x) <= most


# ---------------------------------------------------------------------- programs


def _extents(rng: Random) -> tuple[list[str | int], list[dict[str, int]]]:
    """What dims are drawn of, and the extents of the symbols among them in each call."""
    symbols = ["a", "b"][: rng.choice((0, 1, 1, 2))]
    literal = rng.choices((0, 1, 2, 3, 4, 5), (1, 2, 3, 5, 4, 2), k=3)
    values = [dict(zip(symbols, rng.sample((2, 3, 4, 5, 6, 8), len(symbols)), strict=True)) for _ in range(_CALLS)]
    return [*symbols, *symbols, *symbols, *literal], values


def _input(rng: Random, dtype: torch.dtype, shape: Sequence[int], layout: int) -> torch.Tensor:
    """A tensor of quarters, or of small integers; `layout`: 1 and 2 are not in row-major order."""
    count = int(torch.Size(shape).numel())
    drawn = torch.tensor([rng.randint(-8, 8) for _ in range(count)], dtype=torch.float64).reshape(tuple(shape))
    if dtype.is_floating_point:
        found = (drawn / 4).to(dtype)
    else:
        found = (drawn > 0) if dtype is torch.bool else (drawn.abs() if dtype is torch.uint8 else drawn).to(dtype)
    if layout == 1 and len(shape) > 1:
        return found.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == 2 and shape:
        return torch.stack([found, found], -1)[..., 1]
    return found


def draw(seed: int) -> Program:
    """The program of a seed."""
    from tests.frontend.torch.random_steps import STEPS

    rng = Random(seed)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        while (program := _draw(rng, seed, STEPS)) is None:
            pass
        return program


def _draw(rng: Random, seed: int, steps: Sequence[Step]) -> Program | None:
    dims, values = _extents(rng)
    shapes = [rng.choices(dims, k=rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))) for _ in range(rng.randint(1, 4))]
    kinds = [(getattr(torch, rng.choice(DTYPES)), rng.choice((0, 0, 0, 1, 2))) for _ in shapes]
    calls = [
        [
            _input(rng, dtype, [at.get(d, d) for d in shape], how)
            for shape, (dtype, how) in zip(shapes, kinds, strict=True)
        ]
        for at in values
    ]
    draft = Draft(rng)
    for call in calls:
        own = {f"x{n}": copied(x) for n, x in enumerate(call)}
        draft.envs.append(
            {"torch": torch, "F": torch.nn.functional, "self": module_of("def forward(self): pass"), **own}
        )
    for name in own:
        draft.note(draft.value(name), False)
    wanted = rng.randint(2, 9)
    for _ in range(10 * wanted):
        if len(draft.lines) < wanted:
            draft.grow(steps)
    made = [n for n in draft.envs[0] if n[0] == "v"]
    results = made[-1:] + rng.sample(made[:-1], min(len(made) - 1, rng.randint(0, 2))) if made else []
    if not results:
        return None
    inputs = "".join(f", {name}" for name in own)
    body = "".join(f"    {line}\n" for line in draft.lines)
    source = f"def forward(self{inputs}):\n{body}    return {', '.join(results)},\n"
    dynamic = [[n for n, d in enumerate(shape) if isinstance(d, str)] for shape in shapes]
    return Program(seed, source, calls, dynamic, draft.scale, draft.epsilon)


def copied(x: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides."""
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)
