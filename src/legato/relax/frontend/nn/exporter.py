"""Methods of a module as functions of a program.

Parameters follow the inputs of each function, in the order of their names, effects stand between: what a method is
given, and gives behind its result. Function _initialize_effect gives what effects begin with.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from legato.arith.expr import Var as DimVar
from legato.base.dataclass import dataclass
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


def export(
    module: Composite, spec: Any, has_effects: bool = False
) -> tuple[Module, list[tuple[str, Parameter]]]:  # fmt: skip
    """The program of the methods that `spec` names, and the parameters that each of its functions takes.

    has_effects: methods may print, and call packed functions that do; then they are no dataflow blocks.
    """
    known = specs.ModuleSpec.from_raw(spec, module)
    params, effects = distinct(parts(module, Parameter)), distinct(parts(module, Effect))
    builder = BlockBuilder()
    names = [*([INITIAL] if effects else ()), *known.method_names]
    if len(set(names)) < len(names):
        raise TypeCheckError(f"two functions of one name among {', '.join(names)}")
    if effects:
        _initial(builder, effects)
    for name, method in zip(known.method_names, known.method_specs, strict=True):
        _Method(builder, name, method, has_effects).write(params, effects)
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


@dataclass(frozen=True, slots=True)
class _Group:
    """What stands for parameters or effects: `values`; `whole` is the tuple of them, where they come as one."""

    values: tuple[Var, ...]
    whole: Var | None = None

    @staticmethod
    def of(values: Sequence[Var], mode: str, name: str) -> _Group:
        """As `mode` says: "plain", or "packed" as the tuple `name`."""
        if mode != "packed":
            return _Group(tuple(values))
        types = tuple(v.ty for v in values if v.ty is not None)
        return _Group(tuple(values), Var(name, ty=TupleType(types)))

    @property
    def params(self) -> tuple[Var, ...]:
        """Parameters of the function."""
        return self.values if self.whole is None else (self.whole,)

    def inside(self, builder: BlockBuilder) -> Sequence[Expr]:
        """The values, in the function."""
        if self.whole is None:
            return self.values
        return [builder.emit(TupleGetItem(self.whole, i), v.name) for i, v in enumerate(self.values)]


class _Method:
    """A method that becomes function `name`."""

    def __init__(self, builder: BlockBuilder, name: str, spec: specs.MethodSpec, has_effects: bool) -> None:
        self.builder, self.name, self.spec, self.has_effects = builder, name, spec, has_effects

    def write(self, params: Sequence[tuple[str, Parameter]], effects: Sequence[tuple[str, Effect]]) -> None:
        """Adds the function."""
        spec = self.spec
        inputs = [Var(n, ty=s.type_for(n)) for n, s in zip(spec.arg_names, spec.arg_specs, strict=True)]
        kept = [(e, e.create(_variable(name))) for name, e in effects if spec.effect_mode != "none"]
        used = params if spec.param_mode != "none" else []
        states = _Group.of([v for _, vs in kept for v in vs], spec.effect_mode if kept else "plain", "packed_effects")
        weights = _Group.of([Var(_variable(n), ty=p._ty) for n, p in used], spec.param_mode, "packed_params")
        taken = [*inputs, *states.params]
        own, attrs = [*taken, *weights.params], {"num_input": len(taken)}
        with self.builder.function(self.name, own, attrs=attrs, pure=not self.has_effects):
            given = [self._given(v, s, v.name) for v, s in zip(inputs, spec.arg_specs, strict=True)]
            with nullcontext() if self.has_effects else self.builder.dataflow():
                inside = iter(states.inside(self.builder))
                for effect, variables in kept:
                    effect.set_state([next(inside) for _ in variables])
                values = {id(p): v for (_, p), v in zip(used, weights.inside(self.builder), strict=True)}
                with tracing(Scope(self.builder, values, self.has_effects)):
                    result = self._result(spec.method(**dict(zip(spec.arg_names, given, strict=True))))
                after = [s for effect, _ in kept for s in effect.finalize()]
                out = as_expr([result, as_expr(after)]) if kept else result
                out = out if self.has_effects else self.builder.emit_output(out)
            self.builder.emit_func_output(out)

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
