"""What all activations of a run share: the module, float64 mode, the observer, and what is worked out once per node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from typing import Any

import numpy as np

from legato.arith.expr import Const, const
from legato.arith.expr import Expr as Dim
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import PackedError
from legato.base.node import post_order
from legato.interp.activation import Activation, count_uses
from legato.interp.dims import dim_value
from legato.interp.operators import Asked
from legato.interp.values import Array, Closure, Data, Ref, Value
from legato.ir.expr import Call, Constant, Expr, Function
from legato.ir.module import Module
from legato.ir.packed import CALL_PACKED, PACKED, packed_type
from legato.runtime.packed import Packed, fault, given

__all__ = ["Context", "Observer"]

Observer = Callable[[Expr, Value], None]


@dataclass(eq=False, slots=True)
class Context:
    """One run. With `float64`, every float is a float64. given: packed functions by name. `asked`: what type relations
    have said of calls."""

    module: Module
    float64: bool = False
    observe: Observer | None = None
    given: Mapping[str, object] | None = None
    asked: Asked = field(default_factory=dict)
    _uses: dict[int, dict[int, int]] = field(default_factory=dict)
    _constants: dict[int, Array] = field(default_factory=dict)
    _attrs: dict[int, Any] = field(default_factory=dict)
    _packed: dict[int, Packed] = field(default_factory=dict)
    _named: Mapping[str, Packed] | None = None

    def widen(self, value: Value) -> Value:
        """`value` with floats as float64, in float64 mode."""
        if not self.float64 or isinstance(value, int | Closure | Data | Ref):  # an int: a dim of a shape
            return value
        if isinstance(value, tuple):
            return tuple(self.widen(v) for v in value)
        return value.astype(np.float64) if dt.dtype(value.dtype).is_float else value

    def constant(self, node: Constant) -> Array:
        """The array of a constant."""
        if not self.float64:
            return node.data
        found = self._constants.get(id(node))
        if found is None:
            found = self._constants[id(node)] = self.widen(node.data)
        return found

    def packed(self, call: Call) -> Packed:
        """The packed function that is called; PackedError where it is not given, with all that are not, or does not
        fit."""
        found = self._packed.get(id(call))
        if found is None:
            found = self._functions()[call.attrs.name]
            what = fault(found, packed_type(call), is_pure=call.op is not CALL_PACKED)
            if what is not None:
                raise PackedError(f"packed function {call.attrs.name!r}: {what}")
            self._packed[id(call)] = found
        return found

    def _functions(self) -> Mapping[str, Packed]:
        """All packed functions that the module names."""
        if self._named is None:
            nodes = (n for f in self.module.functions.values() if isinstance(f, Function) for n in post_order([f.body]))
            names = {n.attrs.name for n in nodes if isinstance(n, Call) and n.op in PACKED}
            self._named = given(self.given, names)
        return self._named

    def uses(self, func: Function) -> dict[int, int]:
        """`count_uses(func)`."""
        found = self._uses.get(id(func))
        if found is None:
            found = self._uses[id(func)] = count_uses(func)
        return found

    def attrs(self, env: Activation, node: Call) -> Any:
        """The attributes of an operator's call, with dims as numbers and, in float64 mode, float dtypes widened."""
        if node.attrs is None or id(node) in self._attrs:
            return self._attrs.get(id(node))
        new, is_symbolic = {}, False
        for f in fields(node.attrs):
            old = getattr(node.attrs, f.name)
            value, depends = self._attr(env, old)
            is_symbolic |= depends
            if value is not old:
                new[f.name] = value
        attrs = replace(node.attrs, **new) if new else node.attrs
        if not is_symbolic:
            self._attrs[id(node)] = attrs
        return attrs

    def _attr(self, env: Activation, value: Any) -> tuple[Any, bool]:
        """An attribute's value here, and whether it depends on dims."""
        if isinstance(value, Dim):
            return const(dim_value(value, env.dims)), not isinstance(value, Const)
        if isinstance(value, tuple):
            parts = [self._attr(env, v) for v in value]
            changed = any(p is not v for (p, _), v in zip(parts, value, strict=True))
            return (tuple(p for p, _ in parts) if changed else value), any(d for _, d in parts)
        if isinstance(value, DType) and self.float64 and value.is_float:
            return dt.float64, False
        return value, False
