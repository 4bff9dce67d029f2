"""A function's gradient against differences of the function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from legato.base.arrays import as_array
from legato.base.errors import CompileError
from legato.base.kinds import require, require_number, require_sequence
from legato.interp import evaluate
from legato.ir.expr import Function, Var
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.relay.build_module import create_executor
from legato.relay.module import IRModule
from legato.relay.transform import InferType, gradient

__all__ = ["check_grad"]

Array = np.ndarray[Any, Any]


def check_grad(
    func: Function,
    inputs: Sequence[Any] | None = None,
    test_inputs: Sequence[Any] | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    scale: float | None = None,
    mean: float = 0,
    mode: str = "higher_order",
    target_devices: Iterable[tuple[Any, Any]] | None = None,
    executor_kind: str = "debug",
) -> None:
    """AssertionError where gradients of the sum of the result are not what differences of two values say.

    inputs: arrays, one for each parameter; None: normal ones around `mean`, `scale` (None: ten times eps) wide.
    test_inputs: those among `inputs` whose gradients are tested; None: all with floats. eps: how far each element is
    moved to both sides; the values there are computed in float64 by the interpreter, whatever the program's floats.
    mode: that of `relay.transform.gradient`. target_devices and executor_kind: what computes the gradient, as for
    `relay.create_executor`, one pair after the other.
    """
    eps = require_number(eps, "check_grad: eps")
    require(eps > 0, eps, "check_grad: eps", "more than 0")
    width = 10 * eps if scale is None else require_number(scale, "check_grad: scale")
    mean, atol, rtol = (
        require_number(x, f"check_grad: {n}") for x, n in ((mean, "mean"), (atol, "atol"), (rtol, "rtol"))
    )
    places = [("host", None)] if target_devices is None else _pairs(target_devices)
    mod = InferType()(IRModule.from_expr(func))
    params = mod["main"].params
    made = IRModule(mod.module)
    made["main"] = gradient(mod["main"], made, mode)
    given = _random(params, width, mean) if inputs is None else require_sequence(inputs, "check_grad: inputs", "arrays")
    points = [as_array(x, f"check_grad: input {n}") for n, x in enumerate(given)]
    for n, x in enumerate(points):
        require(x.dtype.kind not in "OUSMm", x, f"check_grad: input {n}", "numbers")
    if len(points) != len(params):
        raise CompileError(f"check_grad got {len(points)} inputs, wanted {len(params)}")
    tested = _tested(points, given, test_inputs)
    wanted = {n: _difference(mod.module, points, n, eps) for n in tested}
    for target, device in places:
        run = create_executor(executor_kind, made, device, target).evaluate()
        gradients = run(*points)[1]
        for n, difference in wanted.items():
            np.testing.assert_allclose(np.asarray(gradients[n]), difference, rtol, atol,
                                       err_msg=f"the gradient by {params[n].name}, on {target}")  # fmt: skip


def _pairs(given: Iterable[Any]) -> list[tuple[Any, Any]]:
    what, wanted = "check_grad: target_devices", "pairs of a target and a device"
    found = require_sequence(given, what, wanted)
    require(all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in found), given, what, wanted)
    return [(target, device) for target, device in found]


def _random(params: Sequence[Var], scale: float, mean: float) -> list[Array]:
    """Normal inputs. CompileError for a parameter whose shape is not known, or that is no tensor."""
    rng, found = np.random.default_rng(0), []
    for p in params:
        if not isinstance(p.ty, TensorType) or not p.ty.is_static:
            raise CompileError(f"the parameter {p.name} has type {p.ty}: check_grad has no inputs for it",
                               hint="give it inputs")  # fmt: skip
        found.append((rng.standard_normal(p.ty.static_shape()) * scale + mean).astype(p.ty.dtype.numpy))
    return found


def _tested(points: Sequence[Array], inputs: Sequence[Any], chosen: Sequence[Any] | None) -> list[int]:
    """The numbers of the inputs whose gradients are tested."""
    floats = [n for n, x in enumerate(points) if x.dtype.kind not in "biu"]
    if chosen is None:
        return floats
    found = [n for n in floats if any(x is inputs[n] for x in chosen)]
    if len(found) < len(chosen):
        raise CompileError("test_inputs has what is no input with floats", hint="give objects that are in inputs")
    return found


def _difference(mod: Module, points: Sequence[Array], n: int, eps: float) -> Array:
    """The gradient of the sum of the result by input `n`, element by element."""
    wide = [x.astype(np.float64) if x.dtype.kind not in "biu" else x for x in points]
    found = np.zeros(wide[n].shape)
    for index in np.ndindex(found.shape):
        sides = []
        for step in (eps, -eps):
            moved = wide[n].copy()
            moved[index] += step
            sides.append(_total(evaluate(mod, [*wide[:n], moved, *wide[n + 1 :]], float64=True)))
        found[index] = (sides[0] - sides[1]) / (2 * eps)
    return found


def _total(value: Any) -> float:
    """The sum of all floats of a value."""
    if isinstance(value, tuple):
        return sum(map(_total, value))
    return float(np.sum(value)) if value.dtype.kind not in "biu" else 0.0
