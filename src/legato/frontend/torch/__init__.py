"""PyTorch's programs → Legato modules.

    mod = from_torch(module, (x,), dynamic_shapes={"x": {0: Dim.DYNAMIC}})     torch.export, then the import
    mod = from_torch(exported_program)

How a module becomes one of Legato: `exported` reads the program's signature, inputs and weights; `walk` goes over its
nodes and asks `signature` for the converter of each, which lies in a file of `operators`; converters write with
`emitter`; `symbols` turns symbolic integers into dims, `dtypes` tensors into arrays. `walk` compares the type of every
result with the one that PyTorch traced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legato.ir.module import Module

__all__ = ["from_torch"]


def from_torch(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    custom: Mapping[str, Callable[..., Any]] | None = None,
    frozen: bool = True,
) -> Module:
    """The module of a `torch.nn.Module` called with `args` and `kwargs`, or of an ExportedProgram; @main is `forward`.

    dynamic_shapes: as for torch.export.export. custom: converters of operators by "namespace::operator". frozen: the
    weights are constants, else parameters of @main by their names.
    Raises UnsupportedError with every node that cannot be compiled; PyTorch's errors where it cannot export the module.
    """
    import_module("legato.base.pytorch")  # a MissingError where it is not installed
    import torch

    from legato.frontend.torch.exported import import_program

    if not isinstance(model, torch.export.ExportedProgram):
        model = torch.export.export(model, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    return import_program(model, custom=custom, frozen=frozen)[0]
