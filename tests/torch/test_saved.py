"""`CompiledModule.save` and `legato.torch.load`: structures, constants and state come back."""

from __future__ import annotations

import enum
import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

import legato.torch  # noqa: E402
from legato.base.errors import ArtifactError, GeneratorError, PackedError, RunError  # noqa: E402
from legato.generators import partition  # noqa: E402
from legato.ir.packed import CALL_PACKED  # noqa: E402
from tests.extension.own_operator import median  # noqa: E402
from tests.generators.samples import Interpreting  # noqa: E402

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


def saved(path: Path, **changed: bytes) -> Path:
    """A file of a small module, parts of it replaced."""
    legato.compile(nn.ReLU(), args=(torch.ones(2),)).save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, changed.get(name.partition(".")[0], data))
    return path


def test_options_that_are_wrong_are_said_to_be(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.module")
    with pytest.raises(RunError, match=r"^threads: got 0, wanted 1 to"):
        legato.torch.load(path, threads=0)
    with pytest.raises(RunError, match=r"^memory_limit: got -1"):
        legato.torch.load(path, memory_limit=-1)


def test_operators_and_packed_functions_of_ones_own_are_given_again(tmp_path: Path) -> None:
    path, x = tmp_path / "net.module", torch.tensor([3.0, 1.0, 7.0])

    class Median(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.median(x)

    def by_operator(b: Any, self: Any) -> Any:
        return b.call(median, self)

    def by_packed(b: Any, self: Any) -> Any:
        return b.call(CALL_PACKED, self, name="median", shapes=[[]], dtypes=[b.dtype(self)])

    custom = {"aten::median": by_operator}
    legato.compile(Median(), args=(x,), custom=custom, ops=[median]).save(path)
    assert legato.torch.load(path, ops=[median])(x) == 3
    custom, functions = {"aten::median": by_packed}, {"median": np.median}
    legato.compile(Median(), args=(x,), custom=custom, packed=functions).save(path)
    with pytest.raises(PackedError, match="median"):
        legato.torch.load(path)
    assert legato.torch.load(path, packed=functions)(x) == 3


def test_code_generators_are_given_again(tmp_path: Path) -> None:
    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.exp().log() + x

    path, x, given = tmp_path / "net.module", torch.tensor([3.0, 1.0]), [Interpreting()]
    net = legato.torch.compile_module(
        Net(), (x,), None, dynamic_shapes=None, custom=None, frozen=True,
        build=lambda mod, _: legato.compile(partition(mod, given), generators=given),
    )  # fmt: skip
    net.save(path)
    with pytest.raises(GeneratorError, match="need the generators 'c'"):
        legato.torch.load(path)
    torch.testing.assert_close(legato.torch.load(path, generators=given)(x), net(x))


def test_what_is_compressed_or_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "net.module")
    monkeypatch.setattr("legato.torch.saved.MAX_JSON", 10)
    with pytest.raises(ArtifactError, match=r"interface\.json has \d+ bytes; at most 10 are accepted"):
        legato.torch.load(path)
    monkeypatch.undo()
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data, zipfile.ZIP_DEFLATED if name == "interface.json" else zipfile.ZIP_STORED)
    with pytest.raises(ArtifactError, match=r"interface\.json is compressed"):
        legato.torch.load(path)


def test_a_structure_names_no_module(tmp_path: Path) -> None:
    name = "this_module_is_imported"
    (tmp_path / f"{name}.py").write_text("x = {}")
    told = {"__enum__": True, "fqn": f"{name}:x", "name": "y"}
    node = {"type": "builtins.dict", "context": json.dumps([told]), "children_spec": []}
    spec = json.dumps([1, node])
    interface = json.dumps({"arguments": [], "results": [], "specs": [spec, spec], "fixed": []})
    path = saved(tmp_path / "net.module", interface=interface.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        with pytest.raises(ArtifactError):
            legato.torch.load(path)
    assert name not in sys.modules


class Color(enum.Enum):
    RED = 1


def test_a_structure_that_names_a_module_is_not_written(tmp_path: Path) -> None:
    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            return {Color.RED: x.relu()}

    net = legato.compile(Net(), args=(torch.ones(2),))
    with pytest.raises(ArtifactError, match="an enum, or a factory"):
        net.save(tmp_path / "net.module")
