"""Products with constant weights that are mostly zero leave the zeros out.

nn.dense(%x, meta[relay.Constant][0])
    =>
nn.sparse_dense(%x, meta[relay.Constant][1], meta[relay.Constant][2], meta[relay.Constant][3])
"""

from __future__ import annotations

from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.ir.expr import Call, Constant, Expr, Function
from legato.ir.module import Module
from legato.ops.linalg import dense
from legato.transform._sparse import dense_data, require_blocks, sparse_constants, sparse_product, weight_of
from legato.transform.pass_ import FunctionPass

__all__ = ["DenseToSparse"]


@dataclass(frozen=True, slots=True)
class DenseToSparse(FunctionPass):
    """Typed module → typed module.

    What is not multiplied with a zero adds nothing, be it infinite or NaN.
    """

    name = "dense-to-sparse"
    rounds = True
    height: int = 16  # of a block, in units of the result
    width: int = 1
    sparsity: float = 0.8  # the part of a weight that is in blocks of zeros, at least

    def check_options(self) -> None:
        require_blocks(self.height, self.width, self.sparsity)

    def function(self, func: Function, mod: Module) -> Function:
        known: dict[int, list[Constant] | None] = {}
        body = transform(func.body, lambda node: self._sparse(node, known))
        return func if body is func.body else replace(func, body=body)

    def _sparse(self, node: Expr, known: dict[int, list[Constant] | None]) -> Expr | None:
        weight = weight_of(node, dense)
        if weight is None or dense_data(node) is None:
            return None
        if id(weight) not in known:
            known[id(weight)] = sparse_constants(weight, self.height, self.width, self.sparsity)
        matrix = known[id(weight)]
        assert isinstance(node, Call)
        return None if matrix is None else sparse_product(node, matrix)
