"""Modules cut into what code generators take, and the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from legato.generators.annotate_target import AnnotateTarget
from legato.generators.generator import composites_of, supports_of
from legato.generators.merge_composite import MergeComposite
from legato.ir.module import Module
from legato.runtime.engines import by_name
from legato.transform.infer_types import InferTypes
from legato.transform.merge_compiler_regions import MergeCompilerRegions
from legato.transform.partition_graph import PartitionGraph
from legato.transform.pass_ import run
from legato.transform.to_graph import ToGraph

__all__ = ["partition"]


def partition(mod: Module, generators: Iterable[Any], *, bind_constants: bool = True, prefix: str = "") -> Module:
    """`mod` in graph form, with functions of the module, whose attribute Compiler names a generator, for what these
    generators take: the first that takes a call gets it, and neighbouring calls of one are one function.

    bind_constants: constants are part of the functions, not passed to them. `prefix`: of the functions' names, which
    are NAME_FUNCTION_NUMBER.
    """
    given = by_name(generators).values()
    targets = tuple((g.name, supports_of(g)) for g in given)
    steps = (
        InferTypes(),
        ToGraph(),
        MergeComposite(composites_of(given)),
        InferTypes(),
        AnnotateTarget(targets),
        MergeCompilerRegions(),
        PartitionGraph(prefix, bind_constants),
    )
    return run(mod, steps)
