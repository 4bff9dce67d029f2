"""Programs of `torch.export` as modules, with what calls of them need to know: an `Interface`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)  # fmt: skip

from legato.arith.expr import Expr as DimExpr
from legato.base.dataclass import dataclass
from legato.base.dtype import int64
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.torch.decompositions import decompositions
from legato.frontend.torch.guards import given_inputs, require_guards
from legato.frontend.torch.inputs import GraphImport
from legato.frontend.torch.signature import Converter, require_known
from legato.ir.expr import Expr, Var
from legato.ir.module import Module

__all__ = ["Argument", "Interface", "Result", "decomposed", "import_program"]

_STATE = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of @main. `kind`: "input" (of the call), "size" (an integer of the call), "state" (a tensor of the
    module, called `target`); `place`: which leaf of the call's arguments it is."""

    name: str
    kind: str
    target: str = ""
    place: int = -1


@dataclass(frozen=True, slots=True)
class Result:
    """A result of @main, or a value known without it. `kind`: "tensor", "size" (an integer), "constant" (`value`),
    "state" (the new value of the module's tensor `target`), "input" (that of the argument `target`)."""

    name: str
    kind: str
    target: str = ""
    value: Any = None


@dataclass(frozen=True, slots=True)
class Interface:
    """How a call of a module becomes one of @main: its parameters and results in order, the trees of the module's
    arguments and results, and `fixed`: leaves of the arguments that the program was traced with, by their place."""

    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    in_spec: Any
    out_spec: Any
    fixed: Mapping[int, Any]


def decomposed(program: torch.export.ExportedProgram, custom: Mapping[str, Converter] | None) -> Any:
    """The program in functional form, its operators those with converters as far as PyTorch can express it by these."""
    return program.run_decompositions(decompositions(custom))


class _Import(GraphImport):
    """One import of a program that is decomposed."""

    def __init__(
        self, program: Any, custom: Mapping[str, Converter] | None, frozen: bool, guards: Sequence[str]
    ) -> None:
        super().__init__(program.graph_module, custom, program.range_constraints)
        self.program = program
        self.frozen = frozen
        self.guards = guards
        self.arguments: list[Argument] = []
        self.fixed: dict[int, Any] = {}
        self._mutated = {s.target for s in program.graph_signature.output_specs if s.kind in _STATE}
        self._leaves = 0

    def run(self) -> tuple[Module, Interface]:
        program, signature = self.program, self.program.graph_signature
        nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
        inputs = [self._input(spec, n) for spec, n in zip(signature.input_specs, nodes, strict=True)]
        given = zip(signature.input_specs, inputs, strict=True)
        names = {spec.arg.name: value for spec, value in given if spec.kind is InputKind.USER_INPUT}
        require_guards(self.b, self.guards, given_inputs(program.call_spec.in_spec, names))
        values = self.walk.graph(program.graph_module, inputs)
        self.walk.require_whole(type(program).__name__)
        results, exprs = [], []
        for spec, value in zip(signature.output_specs, values, strict=True):
            result, e = self._result(spec, value)
            results.append(result)
            exprs += [] if e is None else [e]
        computed = tuple(r.name for r in results if r.kind != "constant")
        body = exprs[0] if len(exprs) == 1 else self.b.tuple_(exprs)
        main = self.b.function(tuple(self.params), body, attrs={"output_names": computed})
        spec = program.call_spec
        face = Interface(tuple(self.arguments), tuple(results), spec.in_spec, spec.out_spec, self.fixed)
        return Module.from_expr(main), face

    # ------------------------------------------------------------------ inputs

    def _input(self, spec: InputSpec, node: Any) -> Any:
        name, target = spec.arg.name, spec.target or ""
        if spec.kind is InputKind.USER_INPUT:
            self._leaves += 1
            return self._given(spec, node, self._leaves - 1)
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            tensor = self._weight(spec)
            is_state = target in self._mutated
            if is_state or (spec.kind is not InputKind.CONSTANT_TENSOR and not self.frozen):
                return self._argument(Argument(name, "state", target), tensor)
            return self.constant(tensor, target or name)
        if spec.kind is InputKind.TOKEN:
            hint = "leave operators with effects out, torch.ops.aten._print for one: a program gives its results alone"
            raise UnsupportedError("an order of effects", hint=hint)
        hint = "give it as a tensor: an argument of forward, or a buffer of the module"
        raise UnsupportedError(f"an input {name} of kind {spec.kind.name}", hint=hint)

    def _given(self, spec: InputSpec, node: Any, place: int) -> Any:
        """What the caller gives: a tensor, a size, or what the program was traced with."""
        if isinstance(spec.arg, TensorArgument):
            return self._argument(Argument(spec.arg.name, "input", place=place), node.meta["val"])
        if isinstance(spec.arg, SymIntArgument):
            before = len(self.params)
            found = self.size(spec.arg.name, node.meta["val"])
            self.arguments += [Argument(spec.arg.name, "size", place=place)] * (len(self.params) - before)
            return found
        if isinstance(spec.arg, ConstantArgument):
            self.fixed[place] = spec.arg.value
            return spec.arg.value
        hint = "give it as a tensor, an integer, or a number that is always the same"
        raise UnsupportedError(f"the input {spec.arg.name}: {type(spec.arg).__name__}", hint=hint)

    def _argument(self, argument: Argument, traced: torch.Tensor) -> Var:
        self.arguments.append(argument)
        return self.tensor(argument.name, traced)

    def _weight(self, spec: InputSpec) -> torch.Tensor:
        program = self.program
        if spec.kind is InputKind.CONSTANT_TENSOR or spec.persistent is False:
            found = program.constants[spec.target]
        else:
            found = program.state_dict[spec.target]
        assert isinstance(found, torch.Tensor)
        return found

    # ------------------------------------------------------------------ outputs

    def _result(self, spec: OutputSpec, value: Any) -> tuple[Result, Expr | None]:
        name, target = spec.arg.name, spec.target or ""
        if spec.kind in _STATE:
            return Result(self._name_of(target), "state", target), value
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            return Result(target, "input", target), value
        if spec.kind is not OutputKind.USER_OUTPUT:
            hint = "let forward return tensors and numbers alone; losses and gradients are computed outside"
            raise UnsupportedError(f"an output {name} of kind {spec.kind.name}", hint=hint)
        if isinstance(value, Expr):
            return Result(name, "tensor"), value
        if isinstance(value, DimExpr):
            return Result(name, "size"), self.b.extent(value, int64)
        return Result(name, "constant", value=value), None

    def _name_of(self, target: str) -> str:
        """The parameter that holds a buffer or a weight: what it becomes has its name, and may lie in its memory."""
        found = next((a.name for a in self.arguments if a.target == target), None)
        if found is None:
            raise ImportModelError(f"the tensor {target} of the module is changed, and is no input")
        return found


def import_program(
    program: torch.export.ExportedProgram, *, custom: Mapping[str, Converter] | None = None, frozen: bool = True
) -> tuple[Module, Interface]:
    """The module of a program, and how to call it. `frozen`: weights are constants, else parameters of @main (what
    the program changes of the module always is). ImportModelError where `custom` names what is no operator."""
    require_known(custom or {})
    whole = decomposed(program, custom)  # may have guards of its own, and lacks those of a file
    guards = dict.fromkeys((*program._guards_code, *whole._guards_code))
    return _Import(whole, custom, frozen, tuple(guards)).run()
