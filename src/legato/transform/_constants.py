"""Programs of which some inputs have their values for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legato.arith.expr import Var
from legato.base.errors import CompileError
from legato.base.spelling import option
from legato.infer.infer import infer
from legato.ir.constant_input import constant_input
from legato.ir.expr import Function, constant
from legato.ir.module import Module
from legato.ir.types import TensorType, Type
from legato.ir.visit import substitute
from legato.transform._sizes import Combination, for_sizes, without_calls_of_main

__all__ = ["with_constants"]

Array = np.ndarray[Any, Any]


def with_constants(mod: Module, constants: Mapping[str, ArrayLike]) -> Module:
    """`mod`, of which these inputs of @main are constants; the dims that their shapes tell are numbers.

    CompileError for names that are no input's, and for arrays of another type.
    """
    if not constants:
        return mod
    mod = without_calls_of_main(infer(mod))
    var = mod.var("main")
    main = mod[var]
    assert isinstance(main, Function)
    types = {p.name: p.ty for p in main.params}
    if unknown := [name for name in constants if name not in types]:
        raise CompileError(
            f"{option('constants')}: the program has no input {unknown[0]!r}",
            hint=f"its inputs: {', '.join(types) or 'none'}",
        )
    arrays = {name: constant_input(name, types[name], value) for name, value in constants.items()}
    main = for_sizes(main, _sizes(types, arrays), "constants")
    bound = {p: constant(arrays[p.name]) for p in main.params if p.name in arrays}
    kept = tuple(p for p in main.params if p not in bound)
    new = replace(main, params=kept, body=substitute(main.body, bound), type_params=(), ty=None)
    return infer(mod.with_function(var, new))


def _sizes(types: Mapping[str, Type | None], arrays: Mapping[str, Array]) -> Combination:
    """The dims that the arrays tell."""
    found: dict[str, tuple[int, int]] = {}
    for name, array in arrays.items():
        ty = types[name]
        assert isinstance(ty, TensorType)
        for dim, n in zip(ty.shape, array.shape, strict=True):
            if isinstance(dim, Var) and found.setdefault(dim.name, (n, n)) != (n, n):
                raise CompileError(f"{option('constants')}: {dim.name} is {found[dim.name][0]} and {n} (in {name!r})")
    return found
