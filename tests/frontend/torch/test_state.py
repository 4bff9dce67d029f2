"""Tensors of modules that their calls change: buffers, weights, arguments."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import legato  # noqa: E402  # after torch is there

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning")  # PyTorch's own


class Changing(torch.nn.Module):  # type: ignore[misc]  # torch may be absent
    """Writes values of other shapes and dtypes into what it has and what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]), requires_grad=False)
        self.register_buffer("total", torch.zeros(2, 3))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any) -> Any:
        self.total.copy_(self.weight)
        self.count.copy_(x.sum())
        self.weight[1:].mul_(2)
        x[:, 0] = self.weight[0]
        return self.total + 1


def test_writes_of_other_shapes_and_dtypes() -> None:
    eager = Changing()
    run = legato.compile(Changing(), args=(torch.ones(2, 3),))
    for _ in range(2):
        theirs, ours = torch.full((2, 3), 1.25), torch.full((2, 3), 1.25)
        torch.testing.assert_close(run(ours), eager(theirs))
        torch.testing.assert_close(ours, theirs)
        assert sorted(run.state) == ["count", "total", "weight"]
        torch.testing.assert_close(run.state, dict(eager.state_dict()))
