"""Gradients of random programs over the whole language, and of the small ones, are those of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

pytest.importorskip("torch")

import torch

import legato
from legato.autodiff.program import live
from legato.base.errors import LegatoError
from legato.infer.infer import infer
from legato.interp import Data, evaluate
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.relay.transform import ChangeDatatype
from legato.transform.gradient import Gradient
from tests.autodiff.language_programs import PROGRAMS, arguments
from tests.autodiff.test_random import floats, of_floats
from tests.autodiff.twin import NotHere, Twin
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs


def as_torch(value: Any) -> Any:
    """A value with torch's tensors, which ask for gradients."""
    if isinstance(value, tuple):
        return tuple(map(as_torch, value))
    if isinstance(value, Data):
        return Data(value.constructor, tuple(map(as_torch, value.fields)))
    found = torch.from_numpy(np.array(value))
    return found.requires_grad_() if found.is_floating_point() else found


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of floats in a value."""
    if isinstance(value, tuple):
        return [t for part in value for t in tensors(part)]
    if isinstance(value, Data):
        return tensors(value.fields)
    return [value] if isinstance(value, torch.Tensor) and value.is_floating_point() else []


def wanted(mod: Module, args: Any) -> list[np.ndarray[Any, Any]]:
    """PyTorch's gradients of the sum of all floats in the result."""
    given_ = tuple(map(as_torch, args))
    total = sum(t.sum() for t in tensors(Twin(mod)(*given_)))
    inputs = tensors(given_)
    assert isinstance(total, torch.Tensor)
    if not total.requires_grad:
        return [np.zeros(t.shape) for t in inputs]
    found = torch.autograd.grad(total, inputs, allow_unused=True)
    return [np.zeros(t.shape) if g is None else g.numpy() for g, t in zip(found, inputs, strict=True)]


def assert_equal(mod: Module, args: Any) -> None:
    """The gradients of a program, within 1e-10 of the largest element."""
    expected = wanted(mod, args)
    got = list(floats(evaluate(Gradient()(mod), args)[1]))
    for g, w in zip(got, expected, strict=True):
        scale = max(1.0, float(np.abs(w).max(initial=0.0)))
        np.testing.assert_allclose(g, w, rtol=0, atol=1e-10 * scale)


def in_float64(program: Program) -> tuple[Module, list[Any]]:
    """A random program on float64, and its arguments."""
    mod = live(of_floats(program))
    for narrow in ("float32", "float16", "bfloat16"):
        mod = ChangeDatatype(narrow, "float64")(legato.relay.IRModule(mod)).module
    return infer(mod), [widened(a) for a in program.args]


def widened(value: Any) -> Any:
    """A value on float64."""
    if isinstance(value, tuple):
        return tuple(map(widened, value))
    if isinstance(value, Data):
        return Data(value.constructor, tuple(map(widened, value.fields)))
    return np.asarray(value).astype(np.float64) if np.asarray(value).dtype.kind in "fV" else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_small_programs(name: str) -> None:
    mod = infer(legato.parse(PROGRAMS[name]))
    main = mod["main"]
    assert isinstance(main, Function)
    assert_equal(mod, arguments(main.params, np.random.default_rng(len(name))))


@examples(100)
@given(programs(20, smooth=True))
def test_random_programs(program: Program) -> None:
    try:
        mod, args = in_float64(program)
        Twin(mod)(*map(as_torch, args))
        Gradient()(mod)
    except (NotHere, LegatoError):
        assume(False)
    assert_equal(mod, args)
