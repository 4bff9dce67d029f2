"""The pass lists, as data. Order is a decision: each comment says what holds from there on."""

from __future__ import annotations

from legato.transform.canonicalize import Canonicalize
from legato.transform.eliminate_common import EliminateCommon
from legato.transform.fold_constant import FoldConstant
from legato.transform.fold_scale import FoldScale
from legato.transform.fuse import Fuse
from legato.transform.infer_types import InferTypes
from legato.transform.pass_ import Pass
from legato.transform.simplify import Simplify
from legato.transform.to_a_normal import ToANormal
from legato.transform.to_graph import ToGraph

__all__ = ["DEFAULT"]

DEFAULT: tuple[Pass, ...] = (
    InferTypes(),
    # Every expression is typed from here on; passes type what they make.
    ToGraph(),
    FoldConstant(),
    Canonicalize(),
    FoldScale(),
    Simplify(),
    FoldConstant(),
    EliminateCommon(),
    ToANormal(),
    # Every computation is bound once, in the innermost scope that holds its uses.
    Fuse(),
)
