"""`CompiledModule.save` and `legato.torch.load`: structures, constants and state come back."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

import legato.torch  # noqa: E402
from legato.base.errors import ArtifactError, RunError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning")  # PyTorch's own


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("halves", torch.ones(2, dtype=torch.bfloat16))

    def forward(self, x: Any, *, pair: Any, scale: float, flag: bool = True) -> Any:
        self.calls += 1
        a, b = pair
        return {"y": self.layer(x) * scale, "rest": [(a + 1, None), b * self.halves, x.shape[0], "text"]}


def args(n: int) -> tuple[Any, dict[str, Any]]:
    return torch.randn(n, 3), {"pair": [torch.ones(n), torch.ones(2)], "scale": 1.5, "flag": False}


@pytest.mark.parametrize("frozen", [True, False])
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, frozen: bool) -> None:
    torch.manual_seed(0)
    x, more = args(3)
    shapes = {"x": {0: Dim.DYNAMIC}, "pair": [{0: Dim.DYNAMIC}, None], "scale": None, "flag": None}
    net = legato.compile(Net(), args=(x,), kwargs=more, dynamic_shapes=shapes, frozen=frozen)
    net(x, **more)
    path = tmp_path / "net.module"
    net.save(path)
    again = legato.torch.load(path, threads=1)
    assert again.executable.threads == 1
    assert again.state.keys() == net.state.keys()
    for n in (3, 4):
        x, more = args(n)
        found, wanted = again(x, **more), net(x, **more)
        assert found["rest"].pop() == wanted["rest"].pop() == "text"
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert again.state["calls"] == net.state["calls"] == 3
    with pytest.raises(RunError, match=r"compiled for 1\.5"):
        again(x, **{**more, "scale": 2.5})


def test_what_no_file_can_have(tmp_path: Path) -> None:
    net = legato.compile(nn.ReLU(), args=(torch.ones(2),))
    net.interface = replace(net.interface, fixed={0: torch.float32})
    with pytest.raises(ArtifactError, match=r"torch\.float32"):
        net.save(tmp_path / "net.module")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fault", ["absent", "text", "program", "state", "interface", "structure"])
def test_other_files_are_refused(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "net.module"
    if fault == "text":
        path.write_text("no archive")
    elif fault != "absent":
        legato.compile(nn.ReLU(), args=(torch.ones(2),)).save(path)
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        match fault:
            case "program":
                parts["program.legato"] = parts["program.legato"][:-1]
            case "state":
                parts["state.pt"] = b"cbuiltins\nprint\n(tR."
            case "interface":
                parts["interface.json"] = b'{"specs": []}'
            case _:
                parts["interface.json"] = parts["interface.json"].replace(b"builtins.tuple", b"nobodys.tuple")
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in parts.items():
                archive.writestr(name, data)
    with pytest.raises(ArtifactError):
        legato.torch.load(path)
