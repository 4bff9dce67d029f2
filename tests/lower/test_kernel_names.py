"""Kernels are called like the main operator of their group."""

from __future__ import annotations

import pytest

import legato
from legato.base.target import host
from legato.driver import CompileOptions
from legato.ir.expr import Function
from legato.lower.kernel_names import kernel_names, operators_of
from legato.viz import graph_of, stages

X, W = "%x: Tensor[(2, 8, 8, 8), float32]", "%w: Tensor[(8, 8, 3, 3), float32]"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("nn.relu(nn.conv2d(%x, %w, padding=[1, 1, 1, 1]) + %x)", "conv2d"),
        ("nn.relu(%x) + abs(%x)", "add"),
        ("sum(abs(%x) * %x, axis=[1])", "sum"),
        ("sqrt(sum(%x, axis=[3]))", "sum"),
        ("nn.softmax(%x)", "softmax"),
        ("transpose(%x)", "transpose"),
    ],
)
def test_names(body: str, name: str) -> None:
    mod = legato.parse(f"def @main({X}, {W}) {{ {body} }}")
    (*_, lowered) = stages(mod, CompileOptions(host())).stages
    kernels = [n.label for n in graph_of(lowered.module).nodes if n.kind == "kernel"]
    assert kernels[-1] == f"@{name}_0"
    assert all(kernel.startswith(f"@{name}_") for kernel in kernels)


def test_kernels_before_the_last_say_what_they_make() -> None:
    mod = legato.parse(f"def @main({X}, {W}) {{ nn.relu(nn.conv2d(%x, %w)) }}")
    main = mod["main"]
    assert isinstance(main, Function)
    assert kernel_names(main, ["packed", "relu"]) == ("conv2d_packed", "conv2d")
    assert operators_of(main) == ("nn.conv2d", "nn.relu")
    nothing = legato.parse("def @main(%x: float32) { %x }")["main"]
    assert isinstance(nothing, Function)
    assert kernel_names(nothing, ["copy"]) == ("copy",)
