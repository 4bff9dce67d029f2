"""Every tensor that a program computes on its way: the same program, compiled so that it returns them all.

What `legato run --dump` writes, and what a debug executor shows. The passes leave @main in A-normal form: its steps are
its bindings, and the tensors are what they compute; the parts of a tuple are tensors of their own. Values inside
branches, loops and functions that are called are not among them, nor are closures and values of data types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.driver import CompileOptions, compile_module, main_function
from legato.ir.expr import Call, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var
from legato.ir.let import chain, lets
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType, Type
from legato.ir.visit import free_vars
from legato.lower.hosts.cells import leaf_types
from legato.lower.signature import input_types, output_types
from legato.lower.sizes import unique
from legato.pipelines import DEFAULT
from legato.runtime.executable import Executable
from legato.transform.eliminate_common import EliminateCommon
from legato.transform.fold_constant import FoldConstant
from legato.transform.fold_scale import FoldScale
from legato.transform.fuse import Fuse
from legato.transform.pass_ import Observer, Pass, run
from legato.transform.simplify import Simplify
from legato.transform.update_in_place import UpdateInPlace

__all__ = ["UNFUSED", "Step", "Tensor", "Tensors", "every_tensor", "flow", "kept_values"]

# The default passes without those that change which tensors there are: the result of every operator is one.
UNFUSED: tuple[Pass, ...] = tuple(
    Fuse(max_ops=1) if isinstance(p, Fuse) else p
    for p in DEFAULT
    if not isinstance(p, FoldConstant | FoldScale | EliminateCommon | Simplify)
)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value on the way, by the name that it has in a dump; `type` is its type in Relay's text."""

    name: str
    type: Type

    @property
    def is_array(self) -> bool:
        """Whether it is a tensor: not a closure, a reference, or a value of a data type."""
        return isinstance(self.type, TensorType)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a program: the operators that it runs, the values that it takes and gives, its place in the model."""

    name: str
    operators: tuple[str, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    place: str
    var: Var | None

    @property
    def is_data(self) -> bool:
        """Whether all that it gives are tensors: what a program can return."""
        return all(t.is_array for t in self.outputs)


@dataclass(frozen=True, slots=True)
class Tensors:
    """A program that returns all its tensors beside its results, and the steps that compute them, in order."""

    executable: Executable
    steps: tuple[Step, ...]
    results: int

    def __call__(self, inputs: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """The results of the program on inputs by name, and its tensors by name."""
        exe = self.executable
        found = exe.run(inputs)
        values = [found[info.name] for info in exe.results]
        names = [t.name for step in self.steps for t in step.outputs]
        results = {info.name: value for info, value in zip(exe.results, values[: self.results], strict=False)}
        return results, dict(zip(names, values[self.results :], strict=True))


def every_tensor(mod: Module, options: CompileOptions) -> Tensors:
    """`mod` through the passes of `options`, compiled with all tensors as results.

    They are computed as the passes leave the program: with `UNFUSED` one for each operator, with the default ones one
    for each kernel. The code may differ from that of the program alone, which need not keep what nobody reads, and sums
    may round otherwise in the last bits; values are not overwritten in place.
    """
    program = run(mod, kept_values(options), Observer())
    main = main_function(program)
    steps = tuple(step for step in flow(main)[0] if step.is_data)
    bindings, result = chain(main.body)
    kept = [step.var for step in steps if step.var is not None]
    types = (result.checked_type, *(var.checked_type for var in kept))
    body = lets(bindings, Tuple((result, *kept), ty=TupleType(types)))
    results = [name for name, _ in output_types(main)]
    names = (*results, *(t.name for step in steps for t in step.outputs))
    attrs = {**main.attrs, "output_names": names}
    whole = program.with_function(program.var("main"), Function(main.params, body, body.ty, main.type_params, attrs))
    compiled = compile_module(whole, replace(options, passes=(), donate=()))
    return Tensors(compiled.executable, steps, len(results))


def kept_values(options: CompileOptions) -> tuple[Pass, ...]:
    """The passes of `options` but the one that overwrites values which somebody may want to see."""
    return tuple(p for p in options.pipeline if not isinstance(p, UpdateInPlace))


def flow(main: Function) -> tuple[list[Step], list[Tensor]]:
    """The steps of a function in A-normal form, and what of them it gives back.

    A binding that only takes a tuple apart, or puts one together, is no step: the values keep their names. A constant
    that is given back has none; it stands as a value called "constant".
    """
    leaves = iter(input_types(main))
    known = {p: [Tensor(*next(leaves)) for _ in leaf_types(p.ty)] for p in main.params}
    bindings, result = chain(main.body)
    taken = [name for name, _ in (*input_types(main), *output_types(main))]
    names = iter(unique([*taken, *(v.name for v, _ in bindings)])[len(taken) :])
    steps = []
    for var, value in bindings:
        name = next(names)
        parts = _parts(value, known)
        if parts is None:
            inputs = dict.fromkeys(t for v in free_vars(value) for t in known[v])
            parts = _outputs(name, var.checked_type)
            place = "" if value.span is None else str(value.span)
            steps.append(Step(name, _operators(value), tuple(inputs), tuple(parts), place, var))
        known[var] = parts
    found = _parts(result, known)
    return steps, found if found is not None else _outputs("constant", result.checked_type)


def _outputs(name: str, ty: Type) -> list[Tensor]:
    types = leaf_types(ty)
    return [Tensor(name if not isinstance(ty, TupleType) else f"{name}.{n}", t) for n, t in enumerate(types)]


def _parts(value: Expr, known: Mapping[Var, list[Tensor]]) -> list[Tensor] | None:
    """The tensors that `value` only picks or lists; None where it computes."""
    match value:
        case Var():
            return known[value]
        case Tuple(fields):
            found = [_parts(f, known) or _outputs("constant", f.checked_type) for f in fields]
            return [t for part in found for t in part]
        case TupleGetItem(whole, index):
            parts = _parts(whole, known)
            if parts is None or not isinstance(whole.ty, TupleType):
                return None
            start = sum(len(leaf_types(f)) for f in whole.ty.fields[:index])
            return parts[start : start + len(leaf_types(whole.ty.fields[index]))]
        case _:
            return None


def _operators(value: Expr) -> tuple[str, ...]:
    """The operators that a binding's value calls, groups looked into; functions of the module as `@name`."""
    found: dict[str, None] = {}
    for node in post_order([value]):
        if isinstance(node, Call) and isinstance(node.op, Op):
            found[node.op.name] = None
        elif isinstance(node, Call) and isinstance(node.op, GlobalVar):
            found[f"@{node.op.name}"] = None
    return tuple(found) or (type(value).__name__,)
