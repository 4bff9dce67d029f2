"""Generators for tests: the interpreter as an engine, and what fails or lies."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.interp import evaluate
from legato.ir.expr import Call, Function
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType, Type
from legato.patterns import is_op, wildcard

Engine = Callable[..., Any]


def nested(ty: Type | None, arrays: Any) -> Any:
    """A value of type `ty`, of the next of these arrays."""
    return tuple(nested(f, arrays) for f in ty.fields) if isinstance(ty, TupleType) else next(arrays)


def leaves(value: Any) -> list[np.ndarray]:
    """The arrays in a value, in order."""
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, tuple) else [value]


@dataclass(frozen=True, slots=True)
class Interpreting:
    """Takes these operators, and what is in `composites`; the interpreter runs them."""

    name: str = "c"
    operators: Collection[str] = ("exp", "negative", "add", "log")
    composites: tuple[Any, ...] = ()

    def supports(self, call: Call) -> bool:
        """Whether it has the operator."""
        return call.op.name in self.operators

    def compile(self, function: Function) -> Engine:
        """The interpreter on the function."""
        module = Module.from_expr(function)

        def run(*arrays: np.ndarray) -> Any:
            given = iter(arrays)
            values = leaves(evaluate(module, [nested(p.ty, given) for p in function.params]))
            return values[0] if len(values) == 1 else tuple(values)

        return run


@dataclass(frozen=True, slots=True)
class Changed:
    """The engine of `base`, whose results are changed."""

    change: Callable[[Any], Any]
    base: Interpreting = Interpreting()

    @property
    def name(self) -> str:
        """That of the other one."""
        return self.base.name

    def supports(self, call: Call) -> bool:
        """What the other one takes."""
        return self.base.supports(call)

    def compile(self, function: Function) -> Engine:
        """Its engine, changed."""
        run = self.base.compile(function)
        return lambda *arrays: self.change(run(*arrays))


def dense_relu(name: str = "c") -> tuple[Any, ...]:
    """A pattern for products with a rectifier."""
    return (f"{name}.dense_relu", is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard())), _is_float)


def _is_float(call: Any) -> bool:
    return isinstance(call.ty, TensorType) and call.ty.dtype.is_float
