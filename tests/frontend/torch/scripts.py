"""TorchScript against eager: what the tests of it share."""

from __future__ import annotations

from typing import Any

import torch

from legato.frontend.torch.script.importer import import_script
from legato.interp import evaluate
from legato.torch.tensors import as_array, as_tensor
from tests.frontend.torch.agree import agree

__all__ = ["agrees", "infos"]


def infos(args: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Names, shapes and dtypes of arguments."""
    tensors = [a if isinstance(a, torch.Tensor) else torch.tensor(a) for a in args]
    return [(f"x{n}", (tuple(t.shape), str(t.dtype).removeprefix("torch."))) for n, t in enumerate(tensors)]


def agrees(script: Any, *calls: tuple[Any, ...]) -> None:
    """One module serves all the calls as eager does; arguments are copied, for programs change them."""
    module = import_script(script, infos(calls[0]))
    for args in calls:
        arrays = [as_array(torch.as_tensor(a, dtype=torch.int64 if type(a) is int else None), "x") for a in args]
        found = evaluate(module, arrays)
        flat = found if isinstance(found, tuple) else (found,)
        with torch.no_grad():
            wanted = script(*(a.clone() if isinstance(a, torch.Tensor) else a for a in args))
        own = [as_tensor(a) if hasattr(a, "dtype") else a for a in flat]
        agree(own, torch.utils._pytree.tree_map(torch.as_tensor, wanted), rtol=1e-5, atol=1e-6)
