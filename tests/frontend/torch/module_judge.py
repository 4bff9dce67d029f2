"""What becomes of a random module: exported, imported, interpreted and, for a part, compiled, against eager."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from legato.base.errors import RunError, TypeCheckError, UnsupportedError
from legato.base.target import target
from legato.driver import CompileOptions, compile_module
from legato.frontend.torch.exported import import_program
from legato.interp import evaluate
from legato.torch import CompiledModule
from tests.frontend.torch.random_modules import Program, copied, module_of

__all__ = ["outcome"]


def outcome(program: Program, compiled: bool = False) -> tuple[str, str]:
    """The kind ("agrees", "refused", "eager": PyTorch does not export it), and why or at how many sizes.

    AssertionError, with the source, for a wrong result and for an error that has no type.
    """
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return _outcome(program, compiled)


def _outcome(program: Program, compiled: bool) -> tuple[str, str]:
    module = module_of(program.source)
    auto = torch.export.Dim.AUTO
    shapes = [dict.fromkeys(axes, auto) or None for axes in program.dynamic]
    try:
        exported = torch.export.export(
            copy.deepcopy(module), tuple(map(copied, program.calls[0])), dynamic_shapes=shapes if any(shapes) else None
        )
        exported.run_decompositions({})
    except Exception as error:
        return "eager", f"{type(error).__name__}: {_line(error)}"
    try:
        mod, face = import_program(exported)
    except UnsupportedError as error:
        return "refused", "; ".join(error.details) or error.message
    except Exception as error:
        raise AssertionError(f"the import: {type(error).__name__}: {error}\n{program}") from error
    tensors = {**exported.state_dict, **exported.constants}

    def module_by(run: Callable[..., Any]) -> CompiledModule:
        state = {a.target: tensors[a.target].clone() for a in face.arguments if a.kind == "state"}
        return CompiledModule(run, face, state)  # type: ignore[arg-type]

    def interpreted(*arrays: Any) -> tuple[Any, ...]:
        found = evaluate(mod, arrays)
        return tuple(np.array(f, order="C") for f in (found if isinstance(found, tuple) else (found,)))

    agreed = _agrees(program, module_by(interpreted), "interpreted")
    if compiled:
        try:
            executable = compile_module(mod, CompileOptions(target("host"))).executable
        except UnsupportedError as error:
            return "refused", f"compiling: {error.message}"
        except Exception as error:
            raise AssertionError(f"the compilation: {type(error).__name__}: {error}\n{program}") from error
        _agrees(program, module_by(executable), "compiled")
    return "agrees", f"at {agreed} sizes"


def _agrees(program: Program, own: CompiledModule, how: str) -> int:
    """At how many sizes a module gave what eager gives; at the others, but for the first, it refused the call."""
    state, count = dict(own.state), 0
    for n, call in enumerate(program.calls):
        eager = module_of(program.source)
        theirs, ours = list(map(copied, call)), list(map(copied, call))
        wanted = eager(*theirs)
        own.state.update({name: t.clone() for name, t in state.items()})
        try:
            found = own(*ours)
        except (RunError, TypeCheckError) as error:
            if n == 0:
                raise AssertionError(f"{how}, call {n}: {type(error).__name__}: {error}\n{program}") from error
            continue
        except Exception as error:
            raise AssertionError(f"{how}, call {n}: {type(error).__name__}: {error}\n{program}") from error
        count += 1
        _same(program, found, wanted, f"{how}, call {n}, results")
        _same(program, ours, theirs, f"{how}, call {n}, inputs")
        _same(program, list(own.state.values()), [eager.state_dict()[k] for k in own.state], f"{how}, call {n}, state")
    return count


def _same(program: Program, found: Sequence[Any], wanted: Sequence[Any], what: str) -> None:
    coarse = 64 if program.epsilon < 1e-5 else 8
    tolerance = coarse * program.epsilon
    for n, (own, peer) in enumerate(zip(found, wanted, strict=True)):
        try:
            exact = not isinstance(peer, torch.Tensor) or not peer.dtype.is_floating_point
            near = {} if exact else {"rtol": tolerance, "atol": tolerance * program.scale}
            torch.testing.assert_close(own, peer, equal_nan=True, check_stride=False, **near)
        except AssertionError as error:
            raise AssertionError(f"{what} {n}: {error}\nfound {own}\nwanted {peer}\n{program}") from None


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:120]
