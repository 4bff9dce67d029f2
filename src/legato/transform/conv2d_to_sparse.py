"""Convolutions with constant filters that are mostly zero leave the zeros out.

    nn.conv2d(%x, meta[relay.Constant][0], data_layout="NHWC", kernel_layout="HWIO")
        =>
    nn.sparse_conv2d(%x, meta[relay.Constant][1], meta[relay.Constant][2], meta[relay.Constant][3])

Where they have stride 1, and windows of odd sizes that are around their pixel.
"""

from __future__ import annotations

from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.ir.expr import Call, Constant, Expr, Function
from legato.ir.module import Module
from legato.ops.conv import conv2d
from legato.transform._sparse import conv_matrix, odd_kernel, require_blocks, sparse_constants, sparse_conv, weight_of
from legato.transform.pass_ import FunctionPass

__all__ = ["Conv2DToSparse"]


@dataclass(frozen=True, slots=True)
class Conv2DToSparse(FunctionPass):
    """Typed module → typed module.

    What is not multiplied with a zero adds nothing, be it infinite or NaN.
    """

    name = "conv2d-to-sparse"
    rounds = True
    height: int = 16  # of a block, in filters
    width: int = 1
    sparsity: float = 0.8  # the part of a weight that is in blocks of zeros, at least
    layout: str = ""  # of the data; "": any
    kernel_size: int = 0  # 0: any

    def check_options(self) -> None:
        require_blocks(self.height, self.width, self.sparsity)

    def function(self, func: Function, mod: Module) -> Function:
        known: dict[tuple[int, str, str], list[Constant] | None] = {}
        body = transform(func.body, lambda node: self._sparse(node, known))
        return func if body is func.body else replace(func, body=body)

    def _sparse(self, node: Expr, known: dict[tuple[int, str, str], list[Constant] | None]) -> Expr | None:
        weight, kernel = weight_of(node, conv2d), odd_kernel(node)
        if weight is None or kernel is None:
            return None
        assert isinstance(node, Call)
        layouts = node.attrs.kernel_layout, node.attrs.data_layout
        if self.layout not in ("", layouts[1]) or (self.kernel_size and set(kernel) != {self.kernel_size}):
            return None
        key = (id(weight), *layouts)
        if key not in known:
            matrix = conv_matrix(weight, *layouts)
            known[key] = sparse_constants(matrix, self.height, self.width, self.sparsity)
        found = known[key]
        return None if found is None else sparse_conv(node, found)
