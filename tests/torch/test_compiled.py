"""`legato.compile` of a module of PyTorch: called as the module is, with what it changes as state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import legato  # noqa: E402
from legato.base.errors import CompileError, LegatoError, RunError  # noqa: E402
from legato.torch import CompiledModule  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning")  # PyTorch's own


@dataclass
class Output:
    total: Any
    parts: dict[str, Any]
    hidden: Any = None


class Counter(nn.Module):
    """Has a buffer that calls change, and returns it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.seen.add_(x.sum(0))
        return x * self.weight, self.seen


class Structured(nn.Module):
    def forward(self, x: Any, *, scale: Any, pair: Any, flag: bool = True) -> Any:
        a, b = pair
        return Output(x * scale, {"a": a + 1, "size": x.shape[0], "none": None}, hidden=(b, 3))


def compiled(module: Any, *args: Any, **options: Any) -> CompiledModule:
    found = legato.compile(module, args=args, **options)
    assert isinstance(found, CompiledModule)
    return found


def test_what_calls_change_is_state_of_its_own() -> None:
    module = Counter()
    x = torch.randn(4, 3)
    run = compiled(module, x)
    totals = []
    for n in (1, 2, 3):
        y, seen = run(x)
        torch.testing.assert_close(y, x * module.weight.detach())
        torch.testing.assert_close(seen, x.sum(0) * n)
        totals.append(seen)
    torch.testing.assert_close(totals[0], x.sum(0))  # results are no views of the state
    assert not module.seen.any()
    given = torch.ones(3)
    run.load_state_dict({"seen": given})
    run(x)
    assert given.tolist() == [1, 1, 1]
    torch.testing.assert_close(run.state["seen"], x.sum(0) + 1)
    with pytest.raises(RunError, match="a constant of the program"):
        run.load_state_dict({"weight": torch.zeros(3)})


def test_calls_that_change_state_come_one_after_another() -> None:
    run = compiled(Counter(), torch.ones(2, 3))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: run(torch.ones(2, 3)), range(64)))
    assert run.state["seen"].tolist() == [128, 128, 128]


def test_weights_that_are_not_frozen_are_those_of_the_module() -> None:
    module, x = nn.Linear(3, 2), torch.randn(4, 3)
    run = compiled(module, x, frozen=False)
    torch.testing.assert_close(run(x), module(x).detach())
    with torch.no_grad():
        module.weight.add_(1)
    torch.testing.assert_close(run(x), module(x).detach())
    other = nn.Linear(3, 2)
    run.load_state_dict(other.state_dict())
    torch.testing.assert_close(run(x), other(x).detach())
    with pytest.raises(RunError, match=r"wanted torch\.float32"):
        run.load_state_dict({"bias": torch.zeros(3)})


def test_structures_of_arguments_and_results() -> None:
    torch.export.register_dataclass(Output, serialized_type_name="tests.torch.Output")
    x, scale, pair = torch.randn(4, 3), torch.tensor(2.0), (torch.ones(2), torch.zeros(1))
    run = compiled(Structured(), x, kwargs={"scale": scale, "pair": pair, "flag": True})
    found = run(x, flag=True, pair=pair, scale=scale)
    assert isinstance(found, Output)
    torch.testing.assert_close(found.total, x * 2)
    torch.testing.assert_close(found.parts["a"], torch.full((2,), 2.0))
    assert found.parts["size"] == 4
    assert found.parts["none"] is None
    assert found.hidden[1] == 3
    for bad in ({"flag": False}, {"flag": torch.tensor(True)}, {"pair": [*pair]}, {"scale": 2.0}, {"other": x}):
        with pytest.raises(RunError):
            run(x, **{"flag": True, "pair": pair, "scale": scale, **bad})


def test_shapes_and_dtypes_are_held_against_the_program() -> None:
    run = compiled(nn.Softmax(-1), torch.randn(4, 3), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=8)},))
    for n in (2, 5, 8):
        torch.testing.assert_close(run(torch.ones(n, 3)), torch.full((n, 3), 1 / 3))
    torch.testing.assert_close(run(torch.ones(3, 4).t()[:, :3]), torch.full((4, 3), 1 / 3))
    for bad in (torch.ones(9, 3), torch.ones(1, 3), torch.ones(4, 2), torch.ones(4), torch.ones(4, 3).double()):
        with pytest.raises(RunError):
            run(bad)


def test_an_input_that_the_module_changes() -> None:
    class Adding(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            x.add_(y)
            return x * 2

    x, y = torch.randn(3), torch.randn(3)
    run = compiled(Adding(), x.clone(), y)
    own = x.clone()
    torch.testing.assert_close(run(own, y), (x + y) * 2)
    torch.testing.assert_close(own, x + y)


def test_tensors_by_name_in_any_order() -> None:
    class Named(nn.Module):
        def forward(self, x: Any, *, y: Any, z: Any) -> Any:
            return {"sum": x + y, "difference": [y - z]}

    x, y, z = torch.randn(3), torch.randn(3), torch.randn(3)
    run = compiled(Named(), x, kwargs={"y": y, "z": z})
    for found in (run(x, y=y, z=z), run(x, z=z, y=y)):
        torch.testing.assert_close(found, {"sum": x + y, "difference": [y - z]})
    for bad in ({"y": y}, {"y": y, "z": z, "w": x}, {"y": y, "w": z}, {"y": y, "z": [z]}, {"y": y, "z": 1.0}):
        with pytest.raises(RunError):
            run(x, **bad)
    with pytest.raises(RunError):
        run(x, y, z=z)


def test_what_is_fixed_may_be_nan() -> None:
    class Adding(nn.Module):
        def forward(self, x: Any, y: float) -> Any:
            return x + y

    x = torch.ones(3)
    run = compiled(Adding(), x, float("nan"))
    assert run(x, float("nan")).isnan().all()
    for bad in (1.0, None):
        with pytest.raises(RunError):
            run(x, bad)


def test_a_tensor_and_its_negative_view_are_two() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            z = torch.randn(3, dtype=torch.complex64)
            self.register_buffer("plain", z.imag)
            self.register_buffer("negative", z.conj().imag)

        def forward(self, x: Any) -> Any:
            return x + self.plain, x + self.negative

    module, x = Both(), torch.ones(3)
    torch.testing.assert_close(compiled(module, x)(x), module(x))


def test_a_tensor_without_data_is_refused() -> None:
    run = compiled(nn.ReLU(), torch.ones(3))
    with pytest.raises(LegatoError, match="meta tensor"):
        run(torch.ones(3, device="meta"))


def test_nothing_that_is_given_is_ignored() -> None:
    net, x = nn.ReLU(), torch.ones(2)
    relay = legato.parse("def @main(%x: Tensor[(2,), float32]) { tanh(%x) }")
    of_traces: list[dict[str, Any]] = [{"args": (x,)}, {"kwargs": {"x": x}}, {"dynamic_shapes": {}}]
    for given in (*of_traces, {"frozen": False}):
        with pytest.raises(CompileError, match=f"{next(iter(given))}: given for a model that is no module of PyTorch"):
            legato.compile(relay, **given)
    exported = torch.export.export(net, (x,))
    for given in of_traces:
        with pytest.raises(CompileError, match="given for an ExportedProgram, which has been traced"):
            legato.compile(exported, **given)
    with pytest.raises(CompileError, match="constants are given for a model of PyTorch"):
        legato.compile(net, args=(x,), constants={"x": x})
