"""Operators whose functions do more than to build a call: how codes are brought to another scale, and simulations."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any, Final, Self

from legato.base.errors import TypeCheckError
from legato.ir.expr import Expr
from legato.ops._qnn import COMPUTE_DTYPES, ROUNDINGS
from legato.relay.expr import const
from legato.relay.op._functions import function, namespace

__all__ = ["SQNN_DTYPE_TO_CODE", "requantize", "requantize_config", "simulated_dequantize", "simulated_quantize"]

SQNN_DTYPE_TO_CODE: Final = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}
_CONFIG: ContextVar[tuple[str, str]] = ContextVar("requantize_config", default=("None", "None"))


class requantize_config:  # a function of the original's, used with `with`
    """`with requantize_config(rounding="TONEAREST", compute_dtype="float32"):` says how `requantize` computes inside.

    rounding: UPWARD, TONEAREST (halves away from 0) or TONEVEN (to the even integer, as ONNX has it; the original has
    no such). compute_dtype: int64, float32 or float64. "None" is UPWARD and int64 on every target: the original's own
    choice differs between processors.
    """

    def __init__(self, rounding: str = "None", compute_dtype: str = "None") -> None:
        for what, given, choices in (
            ("rounding", rounding, ROUNDINGS),
            ("compute_dtype", compute_dtype, COMPUTE_DTYPES),
        ):
            if given not in ("None", *choices):
                raise TypeCheckError(f"no {what} {given!r}", hint="one of None, " + ", ".join(choices))
        self.rounding, self.compute_dtype = rounding, compute_dtype
        self._tokens: list[Token[tuple[str, str]]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_CONFIG.set((self.rounding, self.compute_dtype)))
        return self

    def __exit__(self, *error: object) -> None:
        _CONFIG.reset(self._tokens.pop())


def requantize(
    data: Expr,
    input_scale: Expr,
    input_zero_point: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    axis: int = -1,
    rounding: str = "None",
    compute_dtype: str = "None",
    out_dtype: str = "int8",
) -> Any:
    """Codes at another scale; what is "None" is as `requantize_config` says."""
    usual = _CONFIG.get()
    rounding = usual[0] if rounding == "None" else rounding
    compute_dtype = usual[1] if compute_dtype == "None" else compute_dtype
    scales = input_scale, input_zero_point, output_scale, output_zero_point
    return function("qnn.requantize")(data, *scales, axis, rounding, compute_dtype, out_dtype)


def _coded(dtype: str | Expr) -> Expr:
    """The scalar that names a dtype."""
    if isinstance(dtype, Expr):
        return dtype
    if dtype not in SQNN_DTYPE_TO_CODE:
        raise TypeCheckError(f"no simulated dtype {dtype!r}", hint="one of " + ", ".join(SQNN_DTYPE_TO_CODE))
    return const(SQNN_DTYPE_TO_CODE[dtype], "int32")


def simulated_quantize(
    data: Expr, output_scale: Expr, output_zero_point: Expr, axis: int = -1, out_dtype: str | Expr = "int8"
) -> Any:
    """`quantize` in floats; `out_dtype` may be computed: 1 is int8, 2 uint8, 3 int32, 0 leaves the data as they are."""
    return function("qnn.simulated_quantize")(data, _coded(out_dtype), output_scale, output_zero_point, axis)


def simulated_dequantize(
    data: Expr, input_scale: Expr, input_zero_point: Expr, axis: int = -1, in_dtype: str | Expr = "int8"
) -> Any:
    """`dequantize` in floats, of what `simulated_quantize` gives."""
    return function("qnn.simulated_dequantize")(data, _coded(in_dtype), input_scale, input_zero_point, axis)


__getattr__, __dir__ = namespace("qnn.", globals())
