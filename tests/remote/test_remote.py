"""Programs on another machine: the same results, nothing sent twice, one typed error for whatever is wrong there."""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato import cli
from legato.base.errors import LegatoError, PlatformError, RunError
from legato.base.target import TARGETS
from legato.remote import Connection, _far, place
from legato.remote.arrays import pack, unpack
from legato.remote.package import archive
from legato.runtime import Executable
from tests.remote.conftest import RELU, Machine

CALL = {"rounds": 0, "block": 0.0, "fill": None, "dims": {}, "seed": 0, "threads": 1}


def call(url: str, artifact: Path, given: Any = None, told: list[str] | None = None, **job: Any) -> Any:
    with Connection(place(url)) as there:
        return there.run(artifact, {**CALL, **job}, given, (told if told is not None else []).append)


def before(machine: Machine, code: str) -> None:
    """Has the machine's Python run `code` (without double quotes) first."""
    machine.put("python3", f'shift; exec "{sys.executable}" -c "{code}; $1"')


# ---------------------------------------------------------------------------------------------------- what works


def test_results_are_those_of_a_call_here(machine: Machine, artifact: Path, exe: Executable, x: np.ndarray) -> None:
    for arrays in ({"x": x}, [x]):
        reply = call("ssh://lab", artifact, arrays)
        np.testing.assert_array_equal(reply.outputs["output"], exe(x))
        assert reply.facts["inputs"] == ["x: float32[5, 3]"]
    reply = call("ssh://lab", artifact, fill="random", dims={"n": 7}, seed=3)
    assert reply.outputs["output"].shape == (7, 3)
    assert (reply.outputs["output"] >= 0).all()


def test_nothing_is_sent_twice(machine: Machine, artifact: Path, x: np.ndarray) -> None:
    told: list[str] = []
    call("ssh://lab", artifact, {"x": x}, told)
    assert told == ["sending the runtime to lab", "sending relu.legato to lab", "loading on lab", "running on lab"]
    files = {path.name: path.stat().st_ino for path in machine.sent}
    assert sorted(Path(name).suffix for name in files) == [".legato", ".zip"]
    old = machine.folder / ".cache/legato/sent" / ("0" * 64 + ".legato")
    old.write_bytes(b"")
    os.utime(old, (0, 0))
    told.clear()
    call("ssh://lab", artifact, {"x": x}, told)
    assert [what for what in told if "sending" in what] == []
    assert {path.name: path.stat().st_ino for path in machine.sent} == files, "what nobody has asked for is removed"
    (damaged,) = (path for path in machine.sent if path.suffix == ".legato")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    call("ssh://lab", artifact, {"x": x}, told)
    assert [what for what in told if "sending" in what] == ["sending relu.legato to lab"]


def test_what_runs_there_is_what_was_sent(machine: Machine, artifact: Path, x: np.ndarray) -> None:
    files = "[getattr(m, '__file__', None) or '' for n, m in sys.modules.items() if n.split('.')[0] == 'legato']"
    before(machine, f"import atexit, sys; atexit.register(lambda: open('loaded', 'w').write(' '.join({files})))")
    call("ssh://lab", artifact, {"x": x})
    loaded = (machine.folder / "loaded").read_text().split()
    assert len(loaded) > 20
    assert [path for path in loaded if "/.cache/legato/sent/" not in path or ".zip/legato/" not in path] == []


def test_the_command_is_the_same_for_every_job(machine: Machine, artifact: Path, x: np.ndarray, tmp_path: Path) -> None:
    strange = tmp_path / "a '$(touch bad)'; touch bad.legato"
    shutil.copy(artifact, strange)
    call("ssh://me@lab:2222", strange, {"x": x})
    call("ssh://lab", artifact, fill="ones")
    first, second = machine.calls
    assert first["command"] == second["command"]
    start = "uname -s -m; exec python3 -c 'import sys;sys.path[:]=filter(None,sys.path);exec(sys.stdin.buffer.read("
    assert first["command"].startswith(start)
    assert first["options"][-4:] == ["-p", "2222", "-l", "me"]
    assert "BatchMode=yes" in second["options"]
    assert not (machine.folder / "bad").exists()


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", "fish", "csh", "tcsh", "ksh"])
def test_login_shells(shell: str, machine: Machine, artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell}")
    monkeypatch.setenv("FAKE_SHELL", found)
    machine.says("Welcome\nto the lab: legato 1\n")
    assert call("ssh://lab", artifact, fill="ones").outputs["output"].tolist() == np.ones((4, 3)).tolist()


def test_without_a_cache_nothing_is_left(machine: Machine, artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine.folder / ".cache").write_text("no folder")
    (machine.folder / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(machine.folder / "tmp"))
    call("ssh://lab", artifact, fill="ones")
    assert list((machine.folder / "tmp").iterdir()) == []


def test_strings_and_bfloat16_come_back() -> None:
    import ml_dtypes

    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3).T, "b": np.array(3, ml_dtypes.bfloat16),
        "c": np.array([["ü", ""]], object), "d": np.zeros((0, 2), bool), "e": np.array([1, 2], ml_dtypes.int4),
        "f": np.array([[1, 2], [3, 4]], np.int16)[:, 1], "g": np.array([b"\1", b"\2"], "V1"),
    }  # fmt: skip
    found = unpack(pack(arrays))
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@given(st.sampled_from(["f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4", "u8"]), st.sampled_from("<>"))
def test_numbers_are_the_same_in_either_order_of_bytes(kind: str, order: str) -> None:
    array = np.array([[1, 2, 300]], order + kind)
    found = unpack(pack({"x": array}))["x"]
    assert found.dtype == kind
    np.testing.assert_array_equal(found, array)


@given(st.binary(max_size=40), st.integers(0, 200))
def test_bytes_that_are_no_arrays(noise: bytes, at: int) -> None:
    data = pack({"x": np.arange(4, dtype=np.int64), "s": np.array(["a"], object)})
    for wrong in (noise, data[: at % len(data)]):
        with pytest.raises(RunError, match="cannot be read"):
            unpack(wrong)


@pytest.mark.parametrize(
    "head",
    [
        b"[" * 100_000, b"[[1]]", b'[[1, "bool", [0], null]]', b'[["x", "none", [0], null]]',
        b'[["x", "string", [1], [2]]]',
        b'[["x", "int8", [1e9], null]]', b'[["x", "int8", [99999999999999999999], null]]', b'[["x", [], [1], null]]',
    ],
)  # fmt: skip
def test_heads_that_are_of_no_arrays(head: bytes) -> None:
    with pytest.raises(RunError, match="cannot be read"):
        unpack(len(head).to_bytes(8, "big") + head)


def test_the_archive_is_the_runtime_alone() -> None:
    import io
    import zipfile

    data = archive()
    assert data == archive()
    names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    assert {name.split("/")[1] for name in names} == {"__init__.py", "_version.py", "base", "remote", "runtime"}
    assert "legato/runtime/native/liblegato_rt.so" in names


def test_what_runs_first_is_for_older_pythons() -> None:
    """It is there to say that a Python is too old."""
    tree = ast.parse((Path(_far.__file__)).read_text(), feature_version=(3, 6))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert imported == {"hashlib", "json", "numpy", "os", "shutil", "struct", "sys", "tempfile", "time"}
    unquoted = [node for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for node in ast.walk(f.args)]
    assert [node for node in unquoted if isinstance(node, ast.Subscript)] == [], "such annotations are evaluated"


# ---------------------------------------------------------------------------------------------------- what does not


def fails(kind: type[LegatoError], url: str, artifact: Path, **job: Any) -> str:
    with pytest.raises(kind) as error:
        call(url, artifact, **{"fill": "ones", **job})
    assert type(error.value) is kind
    return str(error.value)


def test_machines_that_cannot_be_reached(machine: Machine, artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nowhere cannot be reached: ssh: Could not resolve hostname" in fails(RunError, "ssh://nowhere", artifact)
    message = fails(RunError, "ssh://root@locked", artifact)
    assert "root@locked cannot be reached: root@locked: Permission denied (publickey)." in message
    assert "ssh -o BatchMode=yes root@locked true" in message
    assert "ssh -o BatchMode=yes -p 2222 me@nowhere true" in fails(RunError, "ssh://me@nowhere:2222", artifact)
    monkeypatch.setenv("PATH", str(machine.folder))
    assert "there is no ssh on PATH" in fails(PlatformError, "ssh://lab", artifact)


@pytest.mark.parametrize("uname", ["Linux aarch64", "Darwin arm64", "Darwin x86_64", "FreeBSD amd64"])
def test_other_machines_are_refused(uname: str, machine: Machine, artifact: Path) -> None:
    machine.put("uname", f"echo {uname}")
    system, _, kind = uname.partition(" ")
    for url in ("ssh://lab", "ssh://lab/no/python3"):
        assert f"lab is {system} on {kind}; programs are compiled for Linux on x86-64" in fails(
            PlatformError, url, artifact
        )


def test_what_is_missing_there_is_told(machine: Machine, artifact: Path) -> None:
    message = fails(PlatformError, "ssh://lab/opt/none/python3", artifact)
    assert "lab has no /opt/none/python3" in message
    assert "hint: install Python 3.11 or newer with NumPy there" in message
    for code, wanted in (
        ("import sys; sys.version_info = (3, 9, 1)", "python3 is Python 3.9.1, and 3.11 is wanted"),
        ("import sys; sys.modules['numpy'] = None", "python3 has no NumPy, and 2 or newer is wanted"),
        (
            "import sys, types; m = sys.modules['numpy'] = types.ModuleType('numpy'); m.__version__ = '1.24.2'",
            "python3 has NumPy 1.24.2, and 2 or newer is wanted",
        ),
    ):
        before(machine, code)
        message = fails(PlatformError, "ssh://lab", artifact)
        assert wanted in message
        assert "ssh://HOST/opt/venv/bin/python3" in message
    machine.put("uname", "echo what is this")
    assert "lab has no shell that says what it is" in fails(PlatformError, "ssh://lab/no/python3", artifact)


def old_processor(machine: Machine) -> None:
    """Has the machine say that its processor is of x86-64-v2."""
    flags = "pni ssse3 sse4_1 sse4_2 popcnt cx16"
    text = f"'model name\\t: Old One\\nflags\\t\\t: {flags}\\n'"
    fake = f"(lambda real: lambda p, *a, **k: io.StringIO({text}) if p == '/proc/cpuinfo' else real(p, *a, **k))(open)"
    before(machine, f"import builtins, io; builtins.open = {fake}")


def test_code_for_another_processor_is_refused(machine: Machine, tmp_path: Path) -> None:
    old_processor(machine)
    for level in ("x86-64-v3", "x86-64-v2"):
        legato.compile(legato.parse(RELU), target=level).save(tmp_path / f"{level}.legato")
    with Connection(place("ssh://lab")) as there:
        assert there.target == TARGETS["x86-64-v2"]
        there.require_target("x86-64-v2", "it")
        with pytest.raises(
            PlatformError, match=r"F is compiled for x86-64-v3, and lab \(Old One\) lacks avx, avx2"
        ) as error:
            there.require_target("x86-64-v3", "F")
    assert "hint: compile it for x86-64-v2" in str(error.value)


def test_connections_that_end(machine: Machine, artifact: Path) -> None:
    before(machine, "import hashlib, os; hashlib.sha256 = lambda *a: os._exit(255)")
    assert "the connection to lab was lost: ssh does not say why" in fails(RunError, "ssh://lab", artifact)
    before(machine, "import hashlib, os; hashlib.sha256 = lambda *a: os.kill(os.getpid(), 9)")
    assert "python3 on lab ended with exit code" in fails(RunError, "ssh://lab", artifact)
    before(machine, "import hashlib; hashlib.sha256 = None")
    message = fails(RunError, "ssh://lab", artifact)
    assert "ended with exit code 1: TypeError: 'NoneType' object is not callable" in message


def test_programs_that_need_more_than_is_sent_are_refused(machine: Machine, tmp_path: Path) -> None:
    head, path = '#[version = "0.0.5"]\n', tmp_path / "more.legato"
    legato.compile(legato.parse(head + "def @main(%x: Tensor[(n,), string]) { strings.concat(%x, %x) }")).save(path)
    message = fails(RunError, "ssh://lab", path)
    assert "lab: the program calls strings.concat, which Python runs: that is not sent along" in message
    legato.compile(legato.parse(head + "def @main(%x: Tensor[(3,), float32]) { Cons(%x, Nil) }")).save(path)
    assert "lab: the program takes or gives values of data types: only arrays are sent" in fails(
        RunError, "ssh://lab", path
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (r"\000\000\000\000\000\000\000\002no", "answers what is no JSON"),
        (r"\000\000\000\000\000\000\000\002[]", "answers a list"),
        (r"\000\000\000\000\000\000\000\002{}", "answers something else than what it is"),
        (r"\377\377\377\377\377\377\377\377", "bytes, for which there is no room"),
        (r"\000\000\000", "ended with exit code 0"),
    ],
)
def test_answers_of_somebody_else(answer: str, why: str, machine: Machine, artifact: Path) -> None:
    machine.put("python3", f"printf 'legato 1\\n{answer}'")
    assert why in fails(RunError, "ssh://lab", artifact)


RESULT = {"threads": 1, "mapped": 0.1, "inputs": []}


@pytest.mark.parametrize(
    "answer",
    [
        {"missing": 5}, {"missing": [["zip"]]}, {"missing": ["else"]}, {"error": "no"}, {},
        *({"done": done} for done in ({}, 5, [], {"x": 1}, RESULT)),
        *({"done": {**RESULT, **more}} for more in ({"seconds": "1"}, {"blocks": [[]]}, {"blocks": []}, {"inputs": 1})),
        {"error": "no", "missing": []}, {"error": {"kind": 1, "message": ""}, "missing": []}, {"told": 5},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("rounds", [0, 1])
def test_results_of_somebody_else(answer: Any, rounds: int, machine: Machine, artifact: Path) -> None:
    frames = [{"python": [3, 12, 0], "numpy": "2.0", "cpu": "", "flags": []}]
    frames += [answer] if "missing" in answer else [{"missing": []}]
    frames += [{key: value for key, value in answer.items() if key != "missing"}]
    data = b"legato 1\n" + b"".join(len(f).to_bytes(8, "big") + f for f in (json.dumps(f).encode() for f in frames))
    (machine.folder / "answers").write_bytes(data)
    machine.put("python3", "cat answers")
    assert "lab answers something else than" in fails(RunError, "ssh://lab", artifact, rounds=rounds)


def test_artifacts_that_change_while_they_are_sent(machine: Machine, artifact: Path, x: np.ndarray) -> None:
    """A file that is replaced is sent as it was; one that is written to is told."""
    data = artifact.read_bytes()

    def send(change: Callable[[], object]) -> Any:
        artifact.unlink(missing_ok=True)
        artifact.write_bytes(data)
        for sent in machine.sent:
            sent.unlink()
        with Connection(place("ssh://lab")) as there:
            return there.run(artifact, CALL, {"x": x}, lambda what: change() if "relu.legato" in what else None)

    other = artifact.with_name("other")
    other.write_bytes(b"no program")
    np.testing.assert_array_equal(send(lambda: other.replace(artifact)).outputs["output"], np.maximum(x, 0))
    with pytest.raises(RunError, match=r"relu\.legato was written to while it was sent to lab"):
        send(lambda: os.truncate(artifact, len(data) - 1))
    with pytest.raises(RunError, match="exit code 1: what was sent was written to, or damaged on the way: try again"):
        send(lambda: artifact.write_bytes(bytes(len(data))))


def test_errors_there_are_errors_here(machine: Machine, artifact: Path) -> None:
    message = fails(RunError, "ssh://lab", artifact, fill=None, dims={"m": 3})
    assert message.startswith("lab: 'm' is not a dim of an input")
    with pytest.raises(RunError, match="lab: inputs: got y, wanted x"):
        call("ssh://lab", artifact, {"y": np.zeros(3)})
    (machine.folder / "x.legato").write_bytes(b"no")
    with pytest.raises(LegatoError) as error:
        call("ssh://lab", machine.folder / "x.legato", fill="ones")
    assert type(error.value).__name__ == "ArtifactError"


# ---------------------------------------------------------------------------------------------------- command line


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        code = cli.main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_files_of_other_orders_of_bytes_and_of_codes(
    machine: Machine, artifact: Path, x: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `run` takes here, and what it writes, is taken there."""
    import ml_dtypes

    np.save("swapped.npy", x.astype(">f4"))
    assert command(capsys, "run", "relu.legato", "-i", "swapped.npy", "-o", "y.npz", "--on", "ssh://lab")[0] == 0
    with np.load("y.npz") as file:
        np.testing.assert_array_equal(file["output"], np.maximum(x, 0))
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(3,), int4]) { (%x, cast(%x, dtype="int32")) }'
    legato.compile(legato.parse(text)).save("codes.legato")
    np.save("codes.npy", np.array([1, -8, 7], ml_dtypes.int4).view("V1"))
    assert command(capsys, "run", "codes.legato", "-i", "codes.npy", "-o", "z.npz", "--on", "ssh://lab")[0] == 0
    with np.load("z.npz") as file:
        assert [file[name].tolist() for name in file.files][1] == [1, -8, 7]


def test_run_on(
    machine: Machine, artifact: Path, x: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = command(capsys, "run", "relu.legato", "-i", "x.npz", "-o", "y.npz", "--on", "ssh://me@lab", "--json")
    assert code == 0
    data = json.loads(out)
    assert (data["on"], data["outputs"][0]["type"]) == ("me@lab", "float32[5, 3]")
    with np.load(tmp_path / "y.npz") as file:
        np.testing.assert_array_equal(file["output"], np.maximum(x, 0))


def test_models_are_compiled_for_the_machine(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "relu.relay").write_text(RELU)
    old_processor(machine)
    code, out, err = command(capsys, "run", "relu.relay", "--fill", "ones", "--on", "ssh://lab")
    assert (code, err) == (0, "")
    assert "on lab (Old One, x86-64-v2, " in out
    (artifact,) = (path for path in machine.sent if path.suffix == ".legato")
    assert legato.load(artifact).target == "x86-64-v2"
    code, _, err = command(capsys, "run", "relu.relay", "--fill", "ones", "--target", "x86-64-v3", "--on", "ssh://lab")
    assert code == 2
    assert "relu.relay is compiled for x86-64-v3, and lab (Old One) lacks" in err


def test_bench_on(machine: Machine, artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--rounds", "2", "--block", "0.001", "--threads", "1", "--on", "ssh://lab", "-o", "bench.json")
    code, out, _ = command(capsys, "bench", "relu.legato", *flags)
    assert code == 0
    assert "machine  lab: " in out
    data = json.loads(Path("bench.json").read_text())
    assert data["engines"]["legato"]["calls"] >= 4
    assert data["mapped"] > 0
    assert "startup" not in data, "that is of a fresh process, which reads the weights"
    assert (data["on"], data["threads"], data["rounds"], data["inputs"]) == ("lab", 1, 2, ["x: float32[4, 3]"])


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("run", "relu.legato", "--on", "ssh://-oProxyCommand=id", "--fill", "ones"), 2, "wanted ssh://HOST"),
        (("run", "relu.legato", "--on", "ssh://lab"), 2, "no inputs"),
        (
            ("run", "relu.legato", "--on", "ssh://lab", "--fill", "ones", "--dump", "d"),
            2,
            "--dump would have no effect",
        ),
        (("run", "relu.legato", "--on", "ssh://lab", "--fill", "ones", "--target", "x86-64-v2"), 2, "--target would"),
        (
            ("run", "relu.legato", "--on", "ssh://lab", "--fill", "ones", "--ops", "o.py"),
            2,
            "--ops would have no effect",
        ),
        (("run", "x.npz", "--on", "ssh://lab", "--fill", "ones"), 2, "x.npz"),
        (("bench", "relu.legato", "--on", "ssh://lab", "--vs", "onnxruntime"), 2, "--vs would have no effect"),
        (("bench", "relu.legato", "--on", "ssh://lab", "--max-rounds", "3"), 2, "--max-rounds would have no effect"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: tuple[str, ...], code: int, why: str, machine: Machine, artifact: Path, x: np.ndarray,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    Path("o.py").write_text(
        "from legato.ops._families import unary\nsame = unary('my.same', abs, abs, doc='Itself.')\n"
    )
    found, _, err = command(capsys, *arguments)
    assert (found, why in err) == (code, True), err
