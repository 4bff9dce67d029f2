"""A row of the table as a module of PyTorch with seeded weights, and inputs for it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final

import torch
from torch import nn

from tools.zoo.packages import ready
from tools.zoo.table import SEED, Architecture, feeds

__all__ = ["Flat", "built", "made", "plain", "tensors"]

SMALL: Final = 1e-3  # scales that start below are set to numbers about 1


def built(row: Architecture) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The module of a row, which takes the inputs in their order and gives a tuple of tensors; and inputs by name.

    The weights are the definition's own random ones, but none is left constant, and batch norms have the statistics of
    what they see: else most of a network may be multiplied by zero, or drown, and a fault there would show nowhere.
    """
    torch.manual_seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages, about themselves
        module = made(row.package, row.make, row.args, bare=row.family in ("segmentation", "detection"))
    whole = module.eval()
    flat = Flat(_chain(whole, row.parts), tuple(row.inputs), by_name=row.package == "transformers").eval()
    inputs = {name: torch.from_numpy(array) for name, array in feeds(row.inputs).items()}
    _shake(flat)
    _calibrate(flat, tuple(inputs.values()))
    return flat, inputs


def plain(row: Architecture) -> nn.Module:
    """The module of a row as its package has it, with such weights: transformers' with its choice of kernels, which
    takes the inputs by name and gives the package's own results."""
    torch.manual_seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = made(row.package, row.make, row.args, bare=row.family in ("segmentation", "detection"), eager=False)
    module = _chain(whole.eval(), row.parts).eval()
    inputs = {name: torch.from_numpy(array) for name, array in feeds(row.inputs).items()}
    _shake(module)
    by_name = row.package == "transformers"
    _calibrate(module, () if by_name else tuple(inputs.values()), inputs if by_name else {})
    return module


def made(package: str, make: str, args: Mapping[str, Any], *, bare: bool = False, eager: bool = True) -> nn.Module:
    """A module as its package defines it; bare: torchvision is to make no trained backbone; eager: transformers is to
    write attention as matrix products, not as one operator."""
    if package == "transformers":
        return _of_transformers(make, args, eager)
    ready()
    import timm  # type: ignore[import-not-found]
    import torchvision  # type: ignore[import-not-found]

    none: dict[str, None] = {"weights": None, **({"weights_backbone": None} if bare else {})}
    found: nn.Module = (
        timm.create_model(make, pretrained=False, **args)
        if package == "timm"
        else torchvision.models.get_model(make, **none, **args)
    )
    return found


def _of_transformers(name: str, args: Mapping[str, Any], eager: bool) -> nn.Module:
    """A model of this class, configured by `args`, without caches; eager: and without choices of kernels."""
    import transformers

    kind: Any = getattr(transformers, name)
    config = kind.config_class(**args)
    config.use_cache = False
    if eager:
        config._attn_implementation = "eager"
    found: nn.Module = kind(config)
    return found


class Flat(nn.Module):
    """A module that takes the inputs of these names in order, and gives the tensors among its results as a tuple."""

    def __init__(self, module: nn.Module, names: tuple[str, ...], *, by_name: bool) -> None:
        super().__init__()
        self.module, self.names, self.by_name = module, names, by_name

    def forward(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors of the module's results."""
        found = self.module(**dict(zip(self.names, args, strict=True))) if self.by_name else self.module(*args)
        return tuple(tensors(found))


class Chain(nn.Module):
    """Modules, each run on what the one before gives: of several maps, on the list of them."""

    def __init__(self, parts: Iterable[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, value: Any) -> Any:
        """What the last one gives."""
        for part in self.parts:
            value = part(list(tensors(value)) if isinstance(value, dict) else value)
        return value


def _chain(module: nn.Module, parts: tuple[str, ...]) -> nn.Module:
    """The parts of a module, one after the other; one part takes whatever it takes."""
    found: list[nn.Module] = [attrgetter(part)(module) for part in parts]
    return module if not found else found[0] if len(found) == 1 else Chain(found)


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(value, dict | tuple | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors(part)
    elif isinstance(value, torch.Tensor):
        yield value


@torch.no_grad()
def _shake(module: nn.Module) -> None:
    """Spreads weights that are constant: zeros a little, small scales about 1, others about what they are."""
    for weight in module.parameters():
        first = weight.flatten()[:1]
        if not weight.is_floating_point() or weight.numel() == 1 or not bool((weight == first).all()):
            continue
        value = float(first)
        if value == 0:
            nn.init.normal_(weight, std=0.02)
        else:
            middle = 1.0 if abs(value) < SMALL else value
            weight.copy_(middle * torch.empty_like(weight).uniform_(0.8, 1.2))


@torch.no_grad()
def _calibrate(
    module: nn.Module, inputs: tuple[torch.Tensor, ...], named: Mapping[str, torch.Tensor] | None = None
) -> None:
    """Gives batch norms about the means and variances of what they see when the module runs on `inputs`."""
    norms = [part for part in module.modules() if isinstance(getattr(part, "running_var", None), torch.Tensor)]
    hooks = [norm.register_forward_pre_hook(_observed) for norm in norms]
    if norms:
        module(*inputs, **(named or {}))
    for hook in hooks:
        hook.remove()


def _observed(norm: Any, args: tuple[Any, ...]) -> None:
    seen: torch.Tensor = args[0]
    axes = [axis for axis in range(seen.dim()) if axis != 1]
    if seen.numel() // seen.shape[1] < 2:
        return  # one number has no variance
    var, mean = torch.var_mean(seen, dim=axes, correction=0)
    spread = var.mean().clamp_min(1e-12)  # a channel that hardly varies is not blown up
    norm.running_var.copy_((var + 0.1 * spread) * torch.empty_like(var).uniform_(0.8, 1.25))
    norm.running_mean.copy_(mean + 0.1 * torch.randn_like(mean) * var.sqrt())
