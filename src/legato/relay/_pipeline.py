"""The compiler's passes as the current `PassContext` wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from legato.base.errors import CompileError
from legato.ir.module import Module
from legato.pipelines import DEFAULT, OPTIONAL, without
from legato.relay._passes import PassContext, PassInfo
from legato.relay.module import IRModule
from legato.transform.canonicalize import Canonicalize
from legato.transform.eliminate_common import EliminateCommon
from legato.transform.fold_constant import FoldConstant
from legato.transform.fold_scale import FoldScale
from legato.transform.fuse import Fuse
from legato.transform.infer_types import InferTypes
from legato.transform.pass_ import Pass
from legato.transform.plan_devices import PlanDevices
from legato.transform.simplify import Simplify
from legato.transform.to_a_normal import ToANormal
from legato.transform.to_graph import ToGraph

__all__ = ["pipeline"]

# Passes under Relay's names and at Relay's levels; `OPTIONAL` says which of them code can do without.
_NAMES: Final[Mapping[type[Pass], PassInfo]] = {
    InferTypes: PassInfo(0, "InferType"),
    PlanDevices: PassInfo(0, "PlanDevices"),
    ToGraph: PassInfo(0, "ToGraphNormalForm"),
    FoldConstant: PassInfo(2, "FoldConstant"),
    Canonicalize: PassInfo(0, "SimplifyInference"),
    FoldScale: PassInfo(3, "FoldScaleAxis"),
    Simplify: PassInfo(0, "SimplifyExpr"),
    EliminateCommon: PassInfo(3, "EliminateCommonSubexpr"),
    ToANormal: PassInfo(0, "ToANormalForm"),
    Fuse: PassInfo(0, "FuseOps"),
}


def pipeline() -> tuple[Pass, ...]:
    """The passes that `relay.build` runs: all of `legato.pipelines.DEFAULT` outside of a context; within one those
    that its level and its lists of names enable, with its limit on groups, told to its instruments.

    Without FuseOps every operator is a group. CompileError where it disables a pass that code cannot do without, or
    requires one that is not run.
    """
    context = PassContext.current()
    if context.is_default:
        return DEFAULT
    for kind, info in _NAMES.items():
        if kind not in OPTIONAL and info.name in (context.disabled_pass or ()):
            raise CompileError(f"pass {info.name} cannot be disabled", hint="code is made of its result")
    known = {info.name for info in _NAMES.values()}
    for name in context.required_pass or ():
        if name not in known:
            raise CompileError(f"relay.build runs no pass {name}", hint=f"it runs {', '.join(sorted(known))}")
    left_out = [kind for kind, info in _NAMES.items() if kind in OPTIONAL and not context.enables(info)]
    steps = [_limited(step, context.max_depth) for step in without(DEFAULT, left_out)]
    return tuple(_Watched(step, context) for step in steps) if context.instruments else tuple(steps)


def _limited(step: Pass, limit: int | None) -> Pass:
    """The step with the context's limit, where it forms groups."""
    return Fuse(max_ops=limit) if isinstance(step, Fuse) and limit is not None else step


class _Watched(Pass):
    """A step that the context's instruments are told of, and may forbid where code can do without it."""

    name: ClassVar[str] = "watched"

    def __init__(self, step: Pass, context: PassContext) -> None:
        self._step, self._context = step, context
        self._info = _NAMES.get(type(step)) or PassInfo(0, step.name)
        self.name = step.name  # type: ignore[misc]  # what an observer calls it

    def __call__(self, mod: Module) -> Module:
        if not all(self._tell("should_run", mod)):
            if type(self._step) in OPTIONAL:
                return mod
            raise CompileError(f"an instrument forbids pass {self._info.name}", hint="code is made of its result")
        self._tell("run_before_pass", mod)
        try:
            new = self._step(mod)
        except BaseException:
            self._tell("run_failed_pass", mod)
            raise
        self._tell("run_after_pass", new)
        return new

    def _tell(self, event: str, mod: Module) -> list[Any]:
        try:
            return self._context.tell(event, IRModule(mod), self._info)
        except Exception as error:
            raise CompileError(f"an instrument fails at {event} of {self._info.name}: {error}") from error
