"""Modules partitioned for the code generators that come with the package, and for any that is registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legato.base.errors import CompileError
from legato.generators import partition as cut
from legato.relay._external import generator
from legato.relay.build_module import with_params
from legato.relay.module import IRModule

__all__ = ["partition_for", "partition_for_ccompiler", "partition_for_onnxruntime"]


def partition_for(compiler: str, mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
    """`mod`, with `params` bound in @main, in graph form, cut into what a registered generator takes and the rest."""
    if not isinstance(mod, IRModule):
        raise CompileError(f"partition_for takes a module, got a {type(mod).__name__}")
    return IRModule(cut(with_params(mod, params).module, [generator(compiler)], prefix="tvmgen_default_"))


def partition_for_onnxruntime(mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
    """`partition_for` ONNX Runtime."""
    return partition_for("onnxruntime", mod, params)


def partition_for_ccompiler(mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
    """`partition_for` the system's C compiler."""
    return partition_for("ccompiler", mod, params)
