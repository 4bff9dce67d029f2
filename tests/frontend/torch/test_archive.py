"""Files of torch.export: what could run code is refused before PyTorch reads it."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from legato.base.errors import ImportModelError, UnsupportedError  # noqa: E402
from legato.frontend.torch.archive import load_program  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class _Net(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> Any:
        return torch.relu(x * self.scale)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "net.pt2"
    shapes = {"x": {0: torch.export.Dim("n", min=2, max=9)}}
    torch.export.save(torch.export.export(_Net(), (torch.randn(2, 3),), dynamic_shapes=shapes), path)
    return path


def _with(path: Path, out: Path, part: str, change: Callable[[bytes], bytes], compress: int = 0) -> Path:
    """A copy of an archive, the entry whose name ends with `part` changed, or added where there is none."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", compress) as new:
        names = old.namelist()
        for name in names:
            data = old.read(name)
            new.writestr(name, change(data) if name.endswith(part) else data)
        if not any(name.endswith(part) for name in names):
            new.writestr(f"net/{part}", change(b""))
    return out


def _graph(change: Callable[[dict[str, Any]], Any]) -> Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        tree = json.loads(data)
        change(tree)
        return json.dumps(tree).encode()

    return edit


def test_a_plain_file_is_read(saved: Path) -> None:
    assert isinstance(load_program(saved), torch.export.ExportedProgram)


def _node(tree: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = tree["graph_module"]["graph"]["nodes"][0]
    return found


def _size(text: str) -> dict[str, Any]:
    return {"as_sym_int": {"as_expr": {"expr_str": text, "hint": None}}}


_FACTORY = {"default_factory_module": "os", "default_factory_name": "getcwd"}
_STRUCTURE = json.dumps([1, {"context": json.dumps(_FACTORY)}])
_NO_SYMBOL = {"exit()": {"min_val": 0, "max_val": 1}}


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("models/model.json", _graph(lambda t: _node(t).update(target="torch.utils.cpp_extension.load"))),
        ("models/model.json", _graph(lambda t: _node(t)["inputs"][0].update(arg=_size("__import__('os').getcwd()")))),
        ("models/model.json", _graph(lambda t: _node(t).update(target="_operator.call"))),
        ("models/model.json", _graph(lambda t: _node(t)["inputs"][0].update(arg=_size("s0.__class__")))),
        (
            "models/model.json",
            _graph(lambda t: t["range_constraints"].update(_NO_SYMBOL)),
        ),
        ("models/model.json", _graph(lambda t: t.update(extra={"in_spec": _STRUCTURE}))),
        ("model_weights_config.json", _graph(lambda t: next(iter(t["config"].values())).update(use_pickle=True))),
        ("data/sample_inputs/model.pt", lambda _: pickle.dumps(print)),
        ("data/constants/custom_obj_0", lambda _: pickle.dumps(print)),
        ("data/aotinductor/model/model.so", lambda _: b"\x7fELF"),
    ],
)
def test_what_could_run_code_is_refused(saved: Path, tmp_path: Path, part: str, change: Any) -> None:
    with pytest.raises(UnsupportedError, match="could run code"):
        load_program(_with(saved, tmp_path / "bad.pt2", part, change))


def test_other_files_are_named(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "x.pt2"
    other.write_bytes(b"no archive")
    with pytest.raises(ImportModelError, match="no archive"):
        load_program(other)
    with pytest.raises(UnsupportedError, match="compressed"):
        load_program(_with(saved, tmp_path / "z.pt2", "byteorder", lambda d: d, zipfile.ZIP_DEFLATED))


def test_a_file_that_is_cut_off(saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    for n in (1, len(data) // 2, len(data) - 1):
        cut = tmp_path / f"{n}.pt2"
        cut.write_bytes(io.BytesIO(data).read(n))
        with pytest.raises(ImportModelError):
            load_program(cut)


@pytest.mark.parametrize("data", [b"{", b"\xff\xfe\xfa", b"[" * 200_000])
def test_what_is_no_json_is_named(saved: Path, tmp_path: Path, data: bytes) -> None:
    path = _with(saved, tmp_path / "bad.pt2", "models/model.json", lambda _: data)
    with pytest.raises(ImportModelError, match="no archive"):
        load_program(path)
