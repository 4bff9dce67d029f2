"""Passes from weights to sparse ones: parameters by name, whose blocks are given beside the program, and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from legato.base import dtype as dt
from legato.base.errors import CompileError
from legato.base.kinds import require, require_integer, require_sequence
from legato.base.node import transform
from legato.ir.expr import Call, Expr, Function, Var
from legato.ir.types import TensorType, tensor_type
from legato.ir.visit import free_vars
from legato.relay._parameters import of_parameters
from legato.relay._passes import Pass
from legato.relay._steps import of_steps
from legato.relay.analysis._sparse import block_of
from legato.transform._sparse import dense_data, odd_kernel, sparse_conv, sparse_product
from legato.transform.conv2d_to_sparse import Conv2DToSparse

__all__ = ["Conv2dToSparse", "Conv2dToSparse2", "DenseToSparse"]

Shapes = Mapping[str, tuple[int, ...]]
Change = Callable[[Call, Sequence[Expr]], Expr | None]


def DenseToSparse(weight_name: Iterable[str], weight_shape: Iterable[Sequence[int]]) -> Pass:
    """nn.dense(x, w), for parameters w of these names, becomes nn.sparse_dense(x, "w.data", "w.indices", "w.indptr").

    A shape is that of "w.data" (blocks, height, width), then the extents of the others, as `analysis.sparse_dense`
    finds it. The new parameters come last; those that nothing uses any more are gone.
    CompileError for a function that the program calls.
    """
    shapes = _shapes(weight_name, weight_shape, (5,))

    def made(call: Call, matrix: Sequence[Expr]) -> Expr | None:
        return None if dense_data(call) is None else sparse_product(call, matrix)

    return _of_parameters("DenseToSparse", shapes, made)


def Conv2dToSparse(
    weight_name: Iterable[str], weight_shape: Iterable[Sequence[int]], layout: str, kernel_size: int
) -> Pass:
    """As DenseToSparse, from nn.conv2d to nn.sparse_conv2d; a shape may lack the width of blocks, which then is 1.

    Convolutions of another layout or kernel size stay, and those that have strides, or whose windows are not around
    their pixel. (Relay's gave these other results.)
    """
    shapes = _shapes(weight_name, weight_shape, (4, 5))

    def made(call: Call, matrix: Sequence[Expr]) -> Expr | None:
        is_meant = odd_kernel(call) == (kernel_size, kernel_size) and call.attrs.data_layout == layout
        return sparse_conv(call, matrix) if is_meant else None

    return _of_parameters("Conv2dToSparse", shapes, made)


def Conv2dToSparse2(layout: str, kernel_size: int, blocksize: tuple[int, int], sparsity_threshold: float) -> Pass:
    """Convolutions with constant filters become sparse ones where the blocks that are not zero leave out this part."""
    height, width = block_of(blocksize)
    step = Conv2DToSparse(height, width, sparsity_threshold, layout, kernel_size)
    return of_steps("Conv2dToSparse2", 5, (step,))


def _shapes(names: Iterable[str], shapes: Iterable[Sequence[int]], counts: Sequence[int]) -> Shapes:
    called = require_sequence(names, "weight_name", "a list of names of parameters")
    given = require_sequence(shapes, "weight_shape", "a list of shapes, one for each name")
    require(len(called) == len(given), given, "weight_shape", f"{len(called)} shapes, one for each name")
    listed = []
    for name, extents in zip(called, given, strict=True):
        require(isinstance(name, str), name, "weight_name", "names of parameters")
        what = f"the shape of {name}"
        shape = tuple(require_integer(n, what) for n in require_sequence(extents, what, "a list of numbers"))
        listed.append((name, shape))
        if len(shape) not in counts:
            wanted = " or ".join(map(str, counts))
            raise CompileError(f"the shape of {name} has {len(shape)} numbers, {list(shape)}, wanted {wanted}",
                               hint="the dims of the blocks, then the extents of indices and indptr")  # fmt: skip
    return dict(listed)


def _of_parameters(name: str, shapes: Shapes, made: Change) -> Pass:
    return of_parameters(name, lambda func: _changed(func, shapes, made))


def _changed(func: Function, shapes: Shapes, made: Change) -> Function:
    matrices: dict[Var, tuple[Var, ...]] = {}

    def step(node: Expr) -> Expr | None:
        weight = node.args[1] if isinstance(node, Call) and len(node.args) > 1 else None
        if not isinstance(node, Call) or not isinstance(weight, Var) or weight not in func.params:
            return None
        if weight.name not in shapes or not isinstance(weight.ty, TensorType):
            return None
        matrix = matrices.get(weight) or _parameters(weight, shapes[weight.name])
        new = made(node, matrix)
        if new is not None:
            matrices[weight] = matrix
        return new

    body = transform(func.body, step)
    if not matrices:
        return func
    used = set(free_vars(body))
    added = (part for weight in func.params for part in matrices.get(weight, ()))
    return replace(func, params=(*(p for p in func.params if p in used or p not in matrices), *added),
                   body=body, ty=None)  # fmt: skip


def _parameters(weight: Var, shape: tuple[int, ...]) -> tuple[Var, ...]:
    assert isinstance(weight.ty, TensorType)
    *blocks, indices, indptr = shape
    types = {
        "data": tensor_type(blocks, weight.ty.dtype),
        "indices": tensor_type((indices,), dt.int32),
        "indptr": tensor_type((indptr,), dt.int32),
    }
    return tuple(Var(f"{weight.name}.{part}", ty=ty, span=weight.span) for part, ty in types.items())
