"""The verb `show`: trees, pictures, pages, and what compiled files hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import legato
from legato.base.errors import ArtifactError, GeneratorError, PackedError
from legato.cli._answer import size
from legato.runtime import artifact
from legato.runtime.facts import Contents, Facts
from tests.viz.test_page import held


def test_tree(call: Any) -> None:
    done = call("show", "mlp.relay", "--tree")
    assert done.out == (
        "@main(%x: float32[n, 4], %w: float32[3, 4]) -> float32[n, 3]\n"
        "├─ nn.dense  float32[n, 3]\n"
        "└─ nn.relu  float32[n, 3]\n"
    )
    assert "fused: nn.dense + nn.relu" in call("show", "mlp.relay", "--tree", "--after", "fuse").out
    assert call("show", "mlp.relay", "--tree", "--json").json["text"] == done.out.rstrip("\n")


def test_pictures(call: Any) -> None:
    assert call("show", "mlp.relay", "--dot", "-").out.startswith("digraph module {")
    done = call("show", "mlp.relay", "--dot", "m.dot", "--after", "fuse")
    assert done.out.startswith("written  m.dot: ")
    assert 'label="nn.dense + nn.relu"' in Path("m.dot").read_text()
    done = call("show", "mlp.relay", "--svg", "m.svg", "--json")
    assert (done.json["output"], done.json["after"]) == ("m.svg", None)
    assert ElementTree.parse("m.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert call("show", "mlp.relay", "--svg", "-").out.rstrip("\n") == Path("m.svg").read_text().rstrip("\n")
    assert not Path("-").exists()


def test_a_page_is_not_printed(call: Any) -> None:
    """Neither is it written into a file called so."""
    for verb in ("show", "profile"):
        done = call(verb, "mlp.relay", "--html", "-")
        assert (done.code, done.out, done.err) == (
            2, "", "legato: --html - would be a file called -: a page is not printed\n  hint: --html page.html\n"
        )  # fmt: skip
    assert not Path("-").exists()


def test_page(call: Any) -> None:
    done = call("show", "mlp.relay", "--html", "m.html", "--json")
    data = held(Path("m.html").read_text(encoding="utf-8"))
    assert done.json["stages"] == [stage["name"] for stage in data["stages"]]
    assert data["start"] == 0
    assert done.json["note"] == ""
    call("show", "mlp.relay", "--html", "m.html", "--after", "fuse")
    data = held(Path("m.html").read_text(encoding="utf-8"))
    assert data["stages"][data["start"]]["name"] == "fuse"
    done = call("show", "mlp.relay", "--html", "m.html", "--after", "gradient")
    assert done.code == 2
    assert done.err.startswith(
        "legato: the page has no stage 'gradient'\n  hint: these changed the program: imported, "
    )


def test_page_with_shares_of_time(call: Any) -> None:
    done = call("show", "mlp.relay", "--html", "m.html", "--profile", "--dim", "n=64", "--json")
    assert done.code == 0
    data = held(Path("m.html").read_text(encoding="utf-8"))
    assert data["stages"][data["start"]]["name"] == "fuse"
    words = data["strings"]
    for stage, part in (("fuse", "clusters"), ("lower", "nodes")):
        (found,) = (s for s in data["stages"] if s["name"] == stage)
        kind, share = ("group", -1) if part == "clusters" else ("kernel", -2)
        shares = [p[share] for p in found[part] if words[p[0]] == kind]
        assert 0 < sum(shares) <= 1.00001


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("mlp.relay --tree --svg m.svg", "--tree and --svg at once\n  hint: one of them, or run it again for each"),
        ("mlp.relay --tree --types", "--tree is no text: --types would have no effect"),
        ("mlp.relay --html m.html --brief", "--html is no text: --brief would have no effect"),
        ("mlp.relay --text", "a model is shown as text in any case: --text would have no effect"),
        ("mlp.relay --tree --profile", "shares of time stand in the page alone: --profile would have no effect"),
        ("mlp.relay --dim n=3", "nothing is run without --profile: --dim would have no effect"),
        ("mlp.relay --svg mlp.relay", "mlp.relay is read: it would be replaced\n  hint: name another file"),
        ("mlp.relay --html m.html --profile --fill ones --seed 1", "nothing is random: --seed would have no effect"),
    ],
)
def test_what_would_have_no_effect(call: Any, arguments: str, message: str) -> None:
    done = call("show", *arguments.split())
    assert (done.code, done.err) == (2, f"legato: {message}\n")


def test_a_compiled_file_is_described(call: Any) -> None:
    assert call("compile", "mlp.relay", "-o", "mlp.legato", "--target", "x86-64-v3").code == 0
    done = call("show", "mlp.legato")
    lines = {line[:9].strip(): line[9:].strip() for line in done.out.splitlines()}
    assert lines["inputs"] == "x: float32[n, 4]"
    assert lines["outputs"].endswith("float32[n, 3]")
    assert lines["for"] == "x86-64-v3, precision default"
    assert lines["kernels"] == "2 kernels: 1 dense_packed_p1, 1 dense"
    assert lines["stages"] == "none kept; the program that it was compiled from: --text"
    data = call("show", "mlp.legato", "--json").json
    assert data["bytes"] == Path("mlp.legato").stat().st_size
    assert [k["operators"] for k in data["kernels"]] == [["nn.dense", "nn.relu"]] * 2
    assert data["text"] == call("show", "mlp.legato", "--text", "--json").json["text"]
    assert "nn.dense" in call("show", "mlp.legato", "--text").out
    for flag in (["--tree"], ["--svg", "m.svg"], ["--types"]):
        assert "a .legato file holds text as it is" in call("show", "mlp.legato", *flag).err
    assert "--after would have no effect" in call("show", "mlp.legato", "--text", "--after", "fuse").err


STATIC = "def @main(%x: Tensor[(2, 64), float32]) { nn.softmax(nn.softmax(%x, axis=0), axis=1) }"


@pytest.mark.parametrize("dim", ["2", "n"])
def test_memory_is_told_as_compile_tells_it(dim: str, call: Any) -> None:
    Path("m.relay").write_text(f'#[version = "0.0.5"]\n{STATIC}\n'.replace("(2,", f"({dim},"))
    told = [line for line in call("compile", "m.relay").out.splitlines() if line.startswith("memory")]
    data = call("show", "m.legato", "--json").json
    peak = legato.load("m.legato").peak_memory
    assert (data["peak_memory"], data["peak_bytes"]) == (peak.formula, peak(n=1))
    general = f" at n = 1, beside the weights; in general {peak.formula} bytes"
    line = f"{size(peak(n=1))} per call" + (general if dim == "n" else ", beside the weights")
    shown = [line for line in call("show", "m.legato").out.splitlines() if line.startswith("memory")]
    assert [line.removeprefix("memory").strip() for line in (*told, *shown)] == [line, line]


OTHERS = """#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32]) {
  call_pure_packed((nn.relu(%x), %x), name="half", shapes=[[n, 4]], dtypes=[float32])
}
"""


def test_files_are_described_that_cannot_be_run_here(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    legato.compile(legato.parse(OTHERS), packed={"half": lambda a, b: a / 2 + b / 2}).save("packed.legato")
    assert call("compile", "mlp.relay", "-o", "c.legato", "--generators", "c").code == 0
    assert call("compile", "mlp.relay", "-o", "far.legato", "--target", "x86-64-v4", "--shape", "n=1,2..8").code == 0
    monkeypatch.setattr(artifact, "missing_features", lambda t: ("avx512f",) * (t.name == "x86-64-v4"))
    for name, why in (("packed", PackedError), ("c", GeneratorError), ("far", ArtifactError)):
        with pytest.raises(why):
            legato.load(f"{name}.legato")
    lines = {name: described(call("show", f"{name}.legato").out) for name in ("packed", "c", "far")}
    assert lines["packed"]["by reference"] == "call_pure_packed"
    assert lines["c"]["by others"] == "c.c_main_0"
    assert lines["far"]["for"] == "x86-64-v4, precision default"
    assert lines["far"]["inputs"] == "x: float32[n, 4] where n = 1 or 2 <= n <= 8"
    assert all(line["kernels"].partition(" ")[0].isdigit() for line in lines.values())
    assert call("show", "c.legato", "--json").json["generators"] == ["c.c_main_0"]
    assert "nn.dense" in call("show", "far.legato", "--text").out
    assert "kept: none" in call("show", "far.legato", "--after", "fuse").err


def test_what_is_shown_is_what_is_loaded(call: Any) -> None:
    assert call("compile", "mlp.relay", "-o", "mlp.legato", "--shape", "n=1,2..8").code == 0
    shown, exe = Contents(artifact.read(Path("mlp.legato"), anywhere=True)), legato.load("mlp.legato")
    names = [name for name, value in vars(Facts).items() if isinstance(value, property)]
    assert {name: getattr(shown, name) for name in names} == {name: getattr(exe, name) for name in names}
    assert len(names) > 10


def described(text: str) -> dict[str, str]:
    """The rows of a description by their heads."""
    return {
        head.strip(): rest.strip() for head, rest in (re.split("  +", line, maxsplit=1) for line in text.splitlines())
    }
