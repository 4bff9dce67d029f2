"""Operators on elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.base.errors import TypeCheckError
from legato.relax.frontend.nn.tensor import Tensor, emit

__all__ = ["add", "astype", "cos", "divide", "equal", "exp", "floor", "gelu", "greater", "greater_equal", "less",
           "less_equal", "log", "maximum", "minimum", "multiply", "negative", "not_equal", "relu", "relu6", "sigmoid",
           "silu", "sin", "softplus", "sqrt", "square", "subtract", "tanh", "where"]  # fmt: skip


def _unary(operator: str, doc: str, name: str = "") -> Callable[..., Tensor]:
    hint = name or operator.removeprefix("nn.")

    def build(x: Tensor, name: str = hint) -> Tensor:
        return emit(operator, name, x)

    build.__name__ = build.__qualname__ = operator.removeprefix("nn.")
    build.__doc__ = doc
    return build


def _binary(operator: str, doc: str, name: str = "") -> Callable[..., Tensor]:
    def build(a: Any, b: Any, name: str = name or operator) -> Tensor:
        return emit(operator, name, a, b)

    build.__name__ = build.__qualname__ = operator
    build.__doc__ = f"{doc}, of tensors, arrays or numbers."
    return build


add = _binary("add", "a + b")
subtract = _binary("subtract", "a − b")
multiply = _binary("multiply", "a · b", "mul")
divide = _binary("divide", "a / b")
equal = _binary("equal", "a = b")
not_equal = _binary("not_equal", "a ≠ b")
less = _binary("less", "a < b")
less_equal = _binary("less_equal", "a ≤ b")
greater = _binary("greater", "a > b")
greater_equal = _binary("greater_equal", "a ≥ b")

exp = _unary("exp", "eˣ.")
log = _unary("log", "The natural logarithm.")
sqrt = _unary("sqrt", "The square root.")
sin = _unary("sin", "The sine.")
cos = _unary("cos", "The cosine.")
tanh = _unary("tanh", "The hyperbolic tangent.")
sigmoid = _unary("sigmoid", "1 / (1 + e⁻ˣ).")
floor = _unary("floor", "The largest integer that is not larger.")
negative = _unary("negative", "−x.", "neg")
relu = _unary("nn.relu", "max(x, 0).")
silu = _unary("nn.silu", "x · sigmoid(x).")


def maximum(x1: Any, x2: Any, name: str = "maximum") -> Tensor:
    """The larger of both."""
    return emit("maximum", name, x1, x2)


def minimum(x1: Any, x2: Any, name: str = "minimum") -> Tensor:
    """The smaller of both."""
    return emit("minimum", name, x1, x2)


def square(x: Tensor, name: str = "square") -> Tensor:
    """x · x."""
    return emit("multiply", name, x, x)


def relu6(x: Tensor, name: str = "relu6") -> Tensor:
    """min(max(x, 0), 6)."""
    return emit("clip", name, x, 0, 6)


def gelu(x: Tensor, approximate: str | None = None, name: str = "gelu") -> Tensor:
    """x · Φ(x), with Φ of the normal distribution; approximate: None (or "none"), or "tanh". TypeCheckError else."""
    if approximate not in (None, "none", "tanh"):
        raise TypeCheckError(f"gelu with approximate={approximate!r}", hint='None, or "tanh"')
    return emit("nn.gelu_tanh" if approximate == "tanh" else "nn.gelu", name, x)


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0, name: str = "softplus") -> Tensor:
    """log(1 + e^(beta·x)) / beta; x itself where beta·x is above `threshold`."""
    scaled = multiply(x, beta)
    return emit("where", name, greater(scaled, threshold), x, divide(_log_of_sum(scaled), beta))


def _log_of_sum(x: Tensor) -> Tensor:
    return emit("nn.softplus", "softplus", x)


def astype(x: Tensor, dtype: str, name: str = "astype") -> Tensor:
    """The elements in another dtype."""
    return emit("astype", name, x, dtype)


def where(condition: Tensor, x1: Any, x2: Any, name: str = "where") -> Tensor:
    """x1 where the condition (of bool, or not zero) holds, else x2."""
    held = condition if condition.dtype == "bool" else not_equal(condition, 0)
    return emit("where", name, held, x1, x2)
