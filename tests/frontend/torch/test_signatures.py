"""Every converter fits the schemas of the operators that it is for."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from legato.base.errors import ImportModelError  # noqa: E402  # after torch is known to be there
from legato.base.span import Span  # noqa: E402
from legato.frontend.torch import from_torch  # noqa: E402
from legato.frontend.torch.signature import PLACEMENT, require_known, table  # noqa: E402
from legato.frontend.torch.walk import Fault, way_out  # noqa: E402
from legato.torch.recurrent import declare  # noqa: E402


def _overloads(name: str) -> list[Any]:
    declare()  # those of `legato::`
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


def _convert(b: Any, self: Any) -> Any:
    return b.op("nn.relu")(self)


@pytest.mark.parametrize(
    ("custom", "told"),
    [
        ({"aten::rellu": _convert}, r"'aten::rellu'.*no such operator\n.*did you mean .*'aten::relu'"),
        ({"aten::relu.defaut": _convert}, r"did you mean .*'aten::relu.default'"),
        ({"nobodys::operator": _convert}, "import the library"),
        ({"relu": _convert}, "no such operator"),
        ({1: _convert}, "names the operator 1"),
        ({"aten::relu": 3}, "is 3, wanted a function"),
    ],
    ids=lambda value: str(*value) if isinstance(value, dict) else value,
)
def test_converters_are_functions_by_the_names_of_operators(custom: Any, told: str) -> None:
    with pytest.raises(ImportModelError, match=r"(?s)" + told):
        from_torch(torch.nn.ReLU(), (torch.ones(2),), custom=custom)


@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning")  # PyTorch's own
def test_an_operator_that_the_program_does_not_have_may_have_a_converter() -> None:
    for name in ("aten::sin", "aten::relu", "aten::add.Tensor"):
        from_torch(torch.nn.ReLU(), (torch.ones(2),), custom={name: _convert})


@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning")  # PyTorch's own
def test_without_converters_of_ones_own_no_names_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed() -> Any:
        raise AssertionError("the names of PyTorch's operators are listed")

    monkeypatch.setattr(torch._C, "_dispatch_get_all_op_names", listed)
    require_known({})
    with pytest.raises(AssertionError):
        require_known({"aten::relu": _convert})


@pytest.mark.parametrize(
    ("operator", "reason", "is_named"),
    [
        ("aten::qr", "no converter", True),
        ("aten::qr", "an axis is symbolic: it must be known", False),
        ("flex_attention", "no converter", False),
    ],
)
def test_a_hint_names_operators_that_converters_are_asked_for(operator: str, reason: str, is_named: bool) -> None:
    hint = way_out([Fault("n", operator, reason, Span("x.py", 1, 1))])
    assert hint.endswith('torch.compile(module, backend="legato"), which leaves them to PyTorch')
    assert (f'custom={{"{operator}": function}}' in hint) is is_named is ("custom" in hint)
