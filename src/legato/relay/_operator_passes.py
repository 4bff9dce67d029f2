"""Passes over operators: casts, padding, divisions, scales of channels, matrix products side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from legato.base.kinds import require_sequence
from legato.base.node import transform
from legato.ir.expr import Call, Expr, Function, Var
from legato.ir.types import TensorType
from legato.ir.visit import free_vars
from legato.ops.linalg import dense
from legato.ops.transpose import transpose
from legato.relay._parameters import of_parameters
from legato.relay._passes import Pass
from legato.relay._steps import of_steps
from legato.transform.canonicalize_cast import CanonicalizeCast as SplitCasts
from legato.transform.combine_batch_matmul import CombineBatchMatmul
from legato.transform.combine_conv2d import CombineConv2D
from legato.transform.combine_dense import CombineDense
from legato.transform.combine_op_batch import CombineOpBatch
from legato.transform.div_to_mul import DivToMul as Multiply
from legato.transform.fast_math import FastMath as FastFunctions
from legato.transform.flatten_atrous import FlattenAtrous
from legato.transform.fold_constant import FoldConstant
from legato.transform.fold_padding import FoldPadding
from legato.transform.fold_scale import FoldScale
from legato.transform.fold_scale_backward import FoldScaleBackward
from legato.transform.fold_scale_forward import FoldScaleForward
from legato.transform.nest_concats import NestConcats

__all__ = ["BackwardFoldScaleAxis", "CanonicalizeCast", "CombineParallelBatchMatmul",
           "CombineParallelConv2D", "CombineParallelDense", "CombineParallelOpBatch", "DivToMul",
           "FastMath", "FlattenAtrousConv", "FoldExplicitPadding", "FoldScaleAxis",
           "ForwardFoldScaleAxis", "SimplifyFCTranspose", "SplitArgs"]  # fmt: skip


def CanonicalizeCast() -> Pass:
    """Casts to wider types are computed by each elementwise operator that reads them."""
    return of_steps("CanonicalizeCast", 3, (SplitCasts(),))


def CombineParallelConv2D(min_num_branches: int = 3) -> Pass:
    """Convolutions of the same images, at least so many, become one of all their filters."""
    return of_steps("CombineParallelConv2d", 4, (CombineConv2D(min_num_branches),))


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> Pass:
    """Products of the same data, at least so many, become one of a batch (where the weights have one shape), or else
    one of all their units."""
    step = CombineOpBatch(min_num_branches) if to_batch else CombineDense(min_num_branches)
    return of_steps("CombineParallelDense", 4, (step,))


def CombineParallelOpBatch(op_name: str, batch_op_name: str, min_num_branches: int = 3) -> Pass:
    """Calls of an operator on the same data, at least so many, become one of a batch.

    nn.dense becomes nn.batch_matmul, elementwise operators become themselves; UnsupportedError for others.
    """
    return of_steps("CombineParallelOpBatch", 4, (CombineOpBatch(min_num_branches, op_name, batch_op_name),))


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> Pass:
    """Products of the same batch, at least so many, become one of all their columns."""
    return of_steps("CombineParallelBatchMatmul", 4, (CombineBatchMatmul(min_num_branches),))


def FoldExplicitPadding() -> Pass:
    """Padding in front of convolutions and poolings becomes their own, where the elements are those around their data.

    (Relay's took the smallest finite number in front of a maximum for −∞.)
    """
    return of_steps("FoldExplicitPadding", 0, (FoldPadding(),))


def FlattenAtrousConv() -> Pass:
    """Convolutions between space_to_batch_nd and batch_to_space_nd become dilated ones.

    (Relay's gave them the padding that keeps the extents, whatever the program's was.)
    """
    return of_steps("FlattenAtrousConv", 0, (FlattenAtrous(),))


def FastMath() -> Pass:
    """exp, tanh, erf and softmax by functions of stated errors: 6e-5, 1e-6, 1e-6 and 2e-4 of the result."""
    return of_steps("FastMath", 4, (FastFunctions(),))


def ForwardFoldScaleAxis() -> Pass:
    """Scales of channels move into the weights of convolutions and matrix products behind them."""
    return of_steps("ForwardFoldScaleAxis", 3, (FoldScaleForward(computed=True),))


def BackwardFoldScaleAxis() -> Pass:
    """Scales of channels move into the weights of convolutions and matrix products before them."""
    return of_steps("BackwardFoldScaleAxis", 3, (FoldScaleBackward(computed=True),))


def FoldScaleAxis() -> Pass:
    """Scales and shifts of channels move into weights and biases, backwards and then forwards; what is constant then
    is folded."""
    steps = (FoldScale(), FoldScaleBackward(computed=True), FoldScaleForward(computed=True), FoldConstant())
    return of_steps("FoldScaleAxis", 3, steps)


def DivToMul() -> Pass:
    """Divisions of floats by constants become multiplications by their reciprocals."""
    return of_steps("DivToMul", 0, (FoldConstant(), Multiply()))


def SplitArgs(max_function_args: int) -> Pass:
    """Concatenations take fewer operands than this, and are nested where there are more; no limit below 0.

    CompileError for 0, 1 and 2, which leave no room for two operands and the result.
    """
    limit = max_function_args - 1
    return of_steps("SplitArgs", 1, () if max_function_args < 0 else (NestConcats(limit, limit),))


def SimplifyFCTranspose(target_weights: Iterable[str]) -> Pass:
    """nn.dense(x, transpose(w)), for parameters w of these names, takes the transposed weight as a parameter "w.T".

    The new parameters come last; those that nothing uses any more are gone. (`analysis.search_fc_transpose` has the
    names.) CompileError for a function that the program calls.
    """
    names = frozenset(require_sequence(target_weights, "target_weights", "a list of names of parameters"))

    return of_parameters("SimplifyFCTranspose", lambda func: _transposed(func, names))


def _transposed(func: Function, names: frozenset[str]) -> Function:
    made: dict[Var, Var] = {}

    def step(node: Expr) -> Expr | None:
        weight = node.args[1] if isinstance(node, Call) and node.op is dense else None
        if not isinstance(node, Call) or not isinstance(weight, Call) or weight.op is not transpose:
            return None
        var = weight.args[0]
        if not isinstance(var, Var) or var not in func.params or var.name not in names:
            return None
        axes = weight.attrs.axes or (1, 0)
        if not isinstance(var.ty, TensorType) or var.ty.rank != 2 or axes[0] % 2 != 1:
            return None
        ty = TensorType(var.ty.shape[::-1], var.ty.dtype)
        new = made.setdefault(var, Var(f"{var.name}.T", ty=ty, span=var.span))
        return replace(node, args=(node.args[0], new))

    body = transform(func.body, step)
    if not made:
        return func
    used = set(free_vars(body))
    params = (*(p for p in func.params if p in used), *made.values())
    return replace(func, params=params, body=body, ty=None)
