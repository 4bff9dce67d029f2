"""Every converter fits the schemas of the operators that it is for."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from legato.frontend.torch.signature import PLACEMENT, table  # noqa: E402  # after torch is known to be there


def _overloads(name: str) -> list[Any]:
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), operator)
    return [getattr(packet, o) for o in ([overload] if overload else packet.overloads())]


@pytest.mark.parametrize("name", sorted(table()))
def test_parameters_are_those_of_the_schema(name: str) -> None:
    parameters = list(inspect.signature(table()[name]).parameters.values())[1:]
    known = set()
    for overload in _overloads(name):
        given = {a.name for a in overload._schema.arguments}
        known |= given
        required = {p.name for p in parameters if p.default is p.empty}
        assert required <= given or "." not in name, f"{overload}: {required - given}"
    assert {p.name for p in parameters} <= known, f"{name} has {sorted(known)}"
    assert not PLACEMENT & {p.name for p in parameters}


def test_each_converter_is_documented_by_its_types() -> None:
    for name, function in table().items():
        hints = inspect.signature(function)
        assert all(p.annotation is not p.empty for p in hints.parameters.values()), name
        assert hints.return_annotation is not hints.empty, name
