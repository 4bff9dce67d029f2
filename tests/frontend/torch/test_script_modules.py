"""Scripted and traced modules against eager."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from legato.base.errors import ImportModelError  # noqa: E402
from legato.frontend.torch.script.importer import import_script  # noqa: E402
from tests.frontend.torch.scripts import agrees  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
Tensor = torch.Tensor
X = ((torch.arange(12) * 7 + 3) % 12 - 5).reshape(3, 4).float()


class _Block(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A residual block: normalisations and rectifiers that work in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 3, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(3)
        self.relu = torch.nn.ReLU(inplace=True)
        self.pool = torch.nn.AdaptiveAvgPool2d(1)
        self.fc = torch.nn.Linear(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm(self.conv(x)))
        y += x
        return self.fc(torch.flatten(self.pool(self.relu(y)), 1))


class _Recurrent(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.LSTMCell(4, 3)
        self.rnn = torch.nn.LSTM(3, 2, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.zeros(3, 3)
        c = torch.zeros(3, 3)
        rows: list[Tensor] = []
        for _i in range(3):
            h, c = self.cell(x, (h, c))
            rows.append(h)
        out, (last, _) = self.rnn(torch.stack(rows, 1))
        return out, last


@pytest.mark.parametrize(("kind", "x"), [(_Block, torch.rand(2, 3, 4, 4) - 0.5), (_Recurrent, X)])
def test_modules(kind: Any, x: Tensor) -> None:
    torch.manual_seed(0)
    module = kind().eval()
    agrees(torch.jit.script(module), (x,), (-x,))
    agrees(torch.jit.trace(module, (x.clone(),)), (x,), (-x,))


class _Named(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.code = torch.nn.Parameter(torch.arange(4.0))
        self.graph = torch.nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.graph(x) + self.code


def test_attributes_may_have_any_name() -> None:
    agrees(torch.jit.script(_Named().eval()), (X,))


@pytest.mark.parametrize("shape", [(-1, 4), (None, 4), 4, "n", (2.5, 4)])
def test_shapes_are_numbers_and_names(shape: Any) -> None:
    with pytest.raises(ImportModelError, match="the shape of an argument"):
        import_script(torch.jit.script(_Named().eval()), [("x", shape)])
