"""Methods of a module as functions of a program.

Parameters follow the inputs of each function, in the order of their names, effects stand between: what a method is
given, and gives behind its result. Function _initialize_effect gives what effects begin with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.arith.expr import Var as DimVar
from legato.base.errors import TypeCheckError
from legato.infer.builder import Builder
from legato.ir.expr import Expr, TupleGetItem, Var
from legato.ir.module import Module
from legato.ir.tensor_to_shape import TENSOR_TO_SHAPE
from legato.ir.types import ShapeType, TupleType
from legato.relax.block_builder import BlockBuilder
from legato.relax.expr import as_expr
from legato.relax.frontend.nn import spec as specs
from legato.relax.frontend.nn.parts import Composite, Effect, parts
from legato.relax.frontend.nn.scope import Scope, named_dim, tracing
from legato.relax.frontend.nn.tensor import Parameter, Tensor

__all__ = ["INITIAL", "distinct", "export"]

INITIAL = "_initialize_effect"


def export(module: Composite, spec: Any) -> tuple[Module, list[tuple[str, Parameter]]]:
    """The program of the methods that `spec` names, and the parameters that each of its functions takes."""
    known = specs.ModuleSpec.from_raw(spec, module)
    params, effects = distinct(parts(module, Parameter)), distinct(parts(module, Effect))
    builder = BlockBuilder()
    if effects:
        _initial(builder, effects)
    for name, method in zip(known.method_names, known.method_specs, strict=True):
        _Method(builder, name, method).write(params, effects)
    return builder.get(), params


def distinct(named: Any) -> list[Any]:
    """Each value once, under the first of its names."""
    found: dict[int, tuple[str, Any]] = {}
    for name, value in named:
        found.setdefault(id(value), (name, value))
    return list(found.values())


def _initial(builder: BlockBuilder, effects: Sequence[tuple[str, Effect]]) -> None:
    with builder.function(INITIAL, []):
        with builder.dataflow(), tracing(Scope(builder, {})):
            states = [s for name, e in effects for s in e.emit_init(_variable(name), builder)]
            out = builder.emit_output(as_expr(states))
        builder.emit_func_output(out)


class _Method:
    """A method that becomes function `name`."""

    def __init__(self, builder: BlockBuilder, name: str, spec: specs.MethodSpec) -> None:
        self.builder, self.name, self.spec = builder, name, spec

    def write(self, params: Sequence[tuple[str, Parameter]], effects: Sequence[tuple[str, Effect]]) -> None:
        """Adds the function."""
        spec = self.spec
        inputs = [Var(n, ty=s.type_for(n)) for n, s in zip(spec.arg_names, spec.arg_specs, strict=True)]
        kept = effects if spec.effect_mode != "none" else []
        states = [e.create(_variable(name)) for name, e in kept]
        flat = [v for vs in states for v in vs]
        weights = [Var(_variable(name), ty=p._ty) for name, p in params] if spec.param_mode != "none" else []
        taken = [*inputs, *_passed(flat, spec.effect_mode, "packed_effects")]
        own = [*taken, *_passed(weights, spec.param_mode, "packed_params")]
        with self.builder.function(self.name, own, attrs={"num_input": len(taken)}):
            given = [self._given(v, s, v.name) for v, s in zip(inputs, spec.arg_specs, strict=True)]
            with self.builder.dataflow():
                behind = iter(self._unpacked(flat, spec.effect_mode, own, "packed_effects"))
                for (_, effect), state in zip(kept, states, strict=True):
                    effect.set_state([next(behind) for _ in state])
                values = self._unpacked(weights, spec.param_mode, own, "packed_params")
                found = {id(p): v for (_, p), v in zip(params, values, strict=False)}
                with tracing(Scope(self.builder, found)):
                    result = self._result(spec.method(**dict(zip(spec.arg_names, given, strict=True))))
                after = [s for _, e in kept for s in e.finalize()]
                out = self.builder.emit_output(as_expr([result, as_expr(after)]) if effects and kept else result)
            self.builder.emit_func_output(out)

    def _unpacked(self, values: Sequence[Var], mode: str, own: Sequence[Var], name: str) -> Sequence[Expr]:
        """What stands for `values` inside: fields of the parameter `name` where they are packed."""
        if mode != "packed":
            return values
        whole = next(v for v in own if v.name == name)
        return [self.builder.emit(TupleGetItem(whole, i), v.name) for i, v in enumerate(values)]

    def _given(self, value: Expr, spec: specs.Spec, name: str) -> Any:
        """What the method gets for the argument `name`."""
        match spec:
            case specs.Tensor():
                return Tensor(_expr=value)
            case specs.Int():
                return self._dim(value, name)
        fields = [f"{name}_{i}" for i in range(len(spec.elements))]
        values = [self.builder.emit(TupleGetItem(value, i), field) for i, field in enumerate(fields)]
        found = list(map(self._given, values, spec.elements, fields))
        return tuple(found) if isinstance(spec.elements, tuple) else found

    def _dim(self, value: Expr, name: str) -> DimVar:
        """The dim `name`, which is what the scalar `value` is; checked, where an input tells it, too."""
        b, dim = Builder(), named_dim(name)
        shape = b.call(TENSOR_TO_SHAPE, b.call("reshape", value, newshape=(1,)))
        self.builder.match_cast(shape, ShapeType((dim,)), name)
        return dim

    def _result(self, value: Any) -> Expr:
        """Tensors, and lists and tuples of them, as an expression."""
        if isinstance(value, Tensor):
            return value._expr
        if isinstance(value, tuple | list):
            return as_expr([self._result(v) for v in value])
        hint = "tensors, and tuples and lists of them" + ("; a method returns" if value is None else "")
        raise TypeCheckError(f"{self.name} gives {value!r}, which is no tensor", hint=hint)


def _variable(name: str) -> str:
    return name.replace(".", "_")


def _passed(values: Sequence[Var], mode: str, name: str) -> list[Var]:
    """Parameters of a function for `values`: these, or one tuple."""
    return (
        list(values) if mode != "packed" else [Var(name, ty=TupleType(tuple(v.ty for v in values if v.ty is not None)))]
    )
