"""Subscripts of groups: proven once for all calls of the same types, clamped in each group that needs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from legato.arith.expr import Expr
from legato.infer.infer import infer
from legato.ir import expr as ir
from legato.ir.contents import body_nodes
from legato.lower import accesses
from legato.ops import table
from legato.prelude import parse
from legato.te.access import CLAMP, Access, Proof
from legato.tir.expr import Load
from legato.transform.fuse import Fuse


def fused(text: str) -> ir.Function:
    """@main of a text, with a group for each operator."""
    func = Fuse(max_ops=1)(infer(parse(text, ops=table())))["main"]
    assert isinstance(func, ir.Function)
    return func


def groups(func: ir.Function) -> list[ir.Function]:
    """The groups of a function."""
    return [node for node in body_nodes(func) if isinstance(node, ir.Function)]


def test_calls_of_the_same_types_are_proven_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    proven = accesses.call_accesses

    def counted(call: ir.Call, facts: Sequence[Expr] = ()) -> Iterator[Access]:
        seen.append(getattr(call.op, "name", ""))
        return proven(call, facts)

    monkeypatch.setattr(accesses, "call_accesses", counted)
    func = fused("def @main(%x: Tensor[(n, 4), float32]) { add(exp(exp(exp(%x))), transpose(exp(%x), axes=[0, 1])) }")
    assert accesses.with_access_checks(func) is func
    assert sorted(seen) == ["add", "exp", "transpose"]


def test_each_group_that_may_read_outside_is_clamped(monkeypatch: pytest.MonkeyPatch) -> None:
    proven = accesses.call_accesses

    def doubted(call: ir.Call, facts: Sequence[Expr] = ()) -> Iterator[Access]:
        for access in proven(call, facts):
            beyond = Load(access.load.buffer, tuple(i * i for i in access.load.indices))  # no axis is linear in it
            yield replace(access, load=beyond, proof=Proof.OPEN) if getattr(call.op, "name", "") == "exp" else access

    monkeypatch.setattr(accesses, "call_accesses", doubted)
    func = accesses.with_access_checks(fused("def @main(%x: Tensor[(4,), float32]) { exp(tanh(exp(%x))) }"))
    assert [CLAMP in group.attrs for group in groups(func)] == [True, False, True]
