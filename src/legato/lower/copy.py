"""The kernel that copies a tensor from one layout to another."""

from __future__ import annotations

from legato.arith.expr import Var
from legato.arith.substitute import variables
from legato.base.target import Target
from legato.lower.rules.elementwise import elementwise
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.stmt import Func

__all__ = ["copy_kernel"]


def copy_kernel(source: Buffer, result: Buffer, target: Target) -> Func:
    """The kernel with parameters (source, result, dims…) that copies every element."""
    read = Tensor(source.name, source.shape, source.dtype)
    read.layout = source.layout
    axes = tuple(Axis(Var(f"i{n}", lo=0), e) for n, e in enumerate(result.shape))
    body = Load(read, tuple(a.var for a in axes))
    written = Tensor(result.name, result.shape, result.dtype, Stage(axes, body))
    written.layout = result.layout
    dims = variables(*source.shape, *result.shape)
    return Func("copy", (read, written, *dims), elementwise(written, body, target))
