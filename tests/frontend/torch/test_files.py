"""PyTorch's files as models: what is read, how, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import legato  # noqa: E402
from legato.base.errors import CompileError, ImportModelError, UnsupportedError  # noqa: E402
from legato.driver import load_model  # noqa: E402
from legato.frontend.torch import limits  # noqa: E402
from tests.heavy import marked  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, n: int = 1) -> torch.Tensor:
        return torch.relu(self.fc(x)) * n


@pytest.fixture(scope="module")
def net() -> Any:
    return Net().eval()


@pytest.fixture(scope="module")
def script(net: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt") / "net.pt"
    torch.jit.script(net).save(path)
    return path


def test_an_exported_program(net: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.from_numpy(X),)), path)
    wanted = net(torch.from_numpy(X)).detach().numpy()
    exe = legato.compile(path)
    assert [leaf.name for leaf in exe.arguments] == ["x"]
    np.testing.assert_allclose(exe(X), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(CompileError, match="has its own"):
        legato.compile(path, shapes={"x": (3, 4)})


def test_a_module_of_torchscript(net: Any, script: Path) -> None:
    exe = legato.compile(script, shapes={"n": ("int64",), "x": ("m", 4)})
    assert [leaf.name for leaf in exe.arguments] == ["x", "n"]
    for rows in (1, 3):
        wanted = net(torch.from_numpy(X[:rows]), 3).detach().numpy()
        np.testing.assert_allclose(exe(X[:rows], np.int64(3)), wanted, rtol=1e-5, atol=1e-6)


def test_its_shapes_must_be_given(script: Path) -> None:
    with pytest.raises(ImportModelError, match="none are given") as caught:
        load_model(script)
    assert "--shape x=1,3 --shape n=1,3" in str(caught.value)


@pytest.mark.heavy  # each file that is read has a process of its own, which imports PyTorch
def test_a_number_has_no_shape(script: Path) -> None:
    with pytest.raises(ImportModelError, match="the argument n is a number"):
        load_model(script, shapes={"x": (3, 4), "n": (1, "int64")})


def test_a_reader_that_takes_too_long_is_ended(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_SECONDS", 0.01)
    with pytest.raises(ImportModelError, match=r"more than 0\.01 s"):
        load_model(script, shapes={})


def test_a_reader_has_only_so_much_memory(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_MEMORY", 200 << 20)
    with pytest.raises(ImportModelError, match="the process that reads it ended"):
        load_model(script, shapes={})


class _Runs:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("ran"),)


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        marked({"w": torch.ones(2)}, "weights without a program", "load_state_dict", heavy=True),
        (_Runs(), "a pickle could run code", "weights_only=False"),
    ],
)
def test_pickles_are_refused(
    content: Any, message: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(content, "file.pth")
    with pytest.raises(UnsupportedError, match=message) as caught:
        load_model("file.pth")
    assert hint in str(caught.value)
    assert not Path("ran").exists()


def test_what_is_no_file_of_pytorch(tmp_path: Path) -> None:
    path = tmp_path / "text.pt"
    path.write_text("no model")
    with pytest.raises(UnsupportedError, match="no file of PyTorch"):
        load_model(path)
    with pytest.raises(ImportModelError, match="No such file"):
        load_model(tmp_path / "none.pt2")
