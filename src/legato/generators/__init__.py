"""Code generators of others: what of a program they take, and the engines that run it.

    from legato.generators import OnnxRuntime, partition

    engine = OnnxRuntime()
    mod = partition(legato.from_onnx("model.onnx"), [engine])
    exe = legato.compile(mod, generators=[engine])

To read in this order:

    generator        what a generator is
    merge_composite  patterns of several calls become functions
    annotate_target  calls that a generator takes are marked
    cut              regions of such calls become functions of the module (by passes of `transform`)
    external         functions of the module become calls of engines
    c_source         C of the system's compiler
    onnx_runtime     ONNX Runtime
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from legato.generators.annotate_target import AnnotateTarget
    from legato.generators.c_source import CSource
    from legato.generators.cut import partition
    from legato.generators.generator import Composite, Engine, Generator
    from legato.generators.merge_composite import MergeComposite
    from legato.generators.onnx_runtime import OnnxRuntime

__all__ = ["AnnotateTarget", "CSource", "Composite", "Engine", "Generator", "MergeComposite", "OnnxRuntime",
           "partition"]  # fmt: skip

_ON_USE: Final = {
    "AnnotateTarget": "annotate_target", "CSource": "c_source", "Composite": "generator", "Engine": "generator",
    "Generator": "generator", "MergeComposite": "merge_composite", "OnnxRuntime": "onnx_runtime", "partition": "cut",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """On use: a program without such functions needs none of it."""
    if name not in _ON_USE:
        raise AttributeError(f"legato.generators has no {name}")
    return getattr(import_module(f"legato.generators.{_ON_USE[name]}"), name)
