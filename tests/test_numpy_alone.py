"""Where NumPy alone is installed: artifacts run as they do elsewhere, and what takes the compiler says so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import legato
from legato.base.compiler import NEEDED
from legato.base.dtype import STORAGE_DTYPES
from legato.runtime import decode, encode

ROOT = Path(__file__).parents[1]
NUMPY = Path(np.__file__).parents[1]


@dataclass(frozen=True)
class Alone:
    """A Python that has the standard library, NumPy and the package."""

    folder: Path

    def __call__(self, code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs code in an empty folder."""
        start = f"import sys; sys.path += [{str(self.folder / 'site')!r}, {str(ROOT / 'src')!r}]\n"
        command = [sys.executable, "-I", "-S", "-c", start + code, *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env={**os.environ, **variables})

    def said(self, code: str, *arguments: str) -> str:
        """What it prints."""
        done = self(code, *arguments)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    def legato(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command line."""
        return self("from legato.cli import main; sys.exit(main())", *arguments)


@pytest.fixture
def alone(tmp_path: Path) -> Alone:
    (tmp_path / "site").mkdir()
    for part in ("numpy", "numpy.libs"):
        if (NUMPY / part).exists():
            (tmp_path / "site" / part).symlink_to(NUMPY / part)
    return Alone(tmp_path)


HEAD = '#[version = "0.0.5"]\n'
PROGRAMS = {
    "bfloat16": "def @main(%x: Tensor[(n, 4), bfloat16]) { let %y = add(%x, 1.5bf16); (nn.relu(%y), nn.softmax(%y)) }",
    "bfloat16 inside": 'def @main(%x: Tensor[(n, 4), float32]) { cast(cast(%x, dtype="bfloat16"), dtype="float32") }',
    **{
        kind.name: f'def @main(%x: Tensor[(n, 4), {kind.name}]) {{ (%x, cast(%x, dtype="float32")) }}'
        for kind in STORAGE_DTYPES
    },
    "data": "def @main(%x: Tensor[(2,), bfloat16], %s: bfloat16) { (Cons(%x, Nil()), Some(%s), Cons(%s, Nil())) }",
    **{
        f"{name} as text": f"def @main(%x: Tensor[(n, 4), {name}]) {{ let %t = strings.format(%x); "
        f'(%t, strings.parse(%t, dtype="{name}")) }}'
        for name in ("bfloat16", "float8_e5m2", "int4")
    },
    "strings": "def @main(%x: Tensor[(n,), string]) { (strings.concat(%x, %x), equal(%x, %x)) }",
}
# Makes the same inputs of all programs, runs them, and prints the bits of all that comes out.
RUN = """
import numpy as np
import legato
from legato.runtime import Data, decode, encode
def bits(value):
    if isinstance(value, Data):
        return [value.constructor.name, *map(bits, value.fields)]
    if isinstance(value, tuple):
        return list(map(bits, value))
    array = np.asarray(value)
    return array.tolist() if array.dtype.kind == "O" else [array.shape, np.ascontiguousarray(array).tobytes().hex()]
for path in sys.argv[1:]:
    exe = legato.load(path)
    rng, given = np.random.default_rng(7), []
    for t in exe.inputs:
        shape = [3 if isinstance(d, str) else d for d in t.shape]
        x = rng.normal(size=shape)
        given.append(np.array(["a", "b", "a"]) if t.dtype == "string" else encode(x, t.dtype))
    print(bits(exe(*given)))
"""


@pytest.mark.parametrize("names", [[n for n in PROGRAMS if "float" in n], [n for n in PROGRAMS if "float" not in n]])
def test_every_artifact_gives_the_same_bits(names: list[str], alone: Alone) -> None:
    paths = [str(alone.folder / f"{n}.legato") for n in names]
    for name, path in zip(names, paths, strict=True):
        legato.compile(legato.parse(HEAD + PROGRAMS[name])).save(path)
    here = subprocess.run(
        [sys.executable, "-c", "import sys\n" + RUN, *paths], capture_output=True, text=True, check=True
    )
    assert alone.said(RUN, *paths) == here.stdout
    assert len(here.stdout.splitlines()) == len(names)


def save(text: str, alone: Alone, name: str = "p.legato") -> None:
    legato.compile(legato.parse(HEAD + text)).save(alone.folder / name)


def test_what_arrays_of_bfloat16_are(alone: Alone) -> None:
    save("def @main(%x: Tensor[(2,), bfloat16]) { add(%x, %x) }", alone)
    said = alone.said("""
import numpy as np, legato
from legato.base.errors import RunError
from legato.runtime import decode, encode
exe = legato.load("p.legato")
y = exe(np.array([0x3f80, 0x4020], np.uint16).view([("bfloat16", "<u2")]))
print(y.dtype, decode(y))
out = np.empty(2, y.dtype)
exe.run({exe.inputs[0].name: encode([1.0, -1.0], "bfloat16")}, out={"output": out})
print(decode(out))
for x in (np.ones(2, np.uint16), np.ones(2, np.float32)):
    try:
        exe(x)
    except RunError as error:
        print(error)
""")
    assert said.splitlines() == [
        "[('bfloat16', '<u2')] [2. 5.]",
        "[ 2. -2.]",
        *[
            line
            for got in ("uint16", "float32")
            for line in (
                'input "x": wrong dtype',
                f"  got:    {got}[2]",
                "  wanted: bfloat16[2]",
                "  hint: legato.runtime.encode(x, 'bfloat16') converts numbers; x.view([('bfloat16', '<u2')]) takes "
                "their codes",
            )
        ],
    ]


def test_codes_of_numpy_alone_are_taken_where_ml_dtypes_is() -> None:
    exe = legato.compile(legato.parse(HEAD + "def @main(%x: Tensor[(2,), bfloat16]) { add(%x, %x) }"))
    x = encode([1, 2], "bfloat16")
    assert decode(exe(x.view([("bfloat16", "<u2")]))).tolist() == [2, 4]


def test_sessions_convert_numbers_of_bfloat16(alone: Alone) -> None:
    save("def @main(%x: Tensor[(2,), bfloat16]) { add(%x, %x) }", alone)
    assert (
        alone.said("""
import numpy as np, legato
from legato.runtime import decode
from legato.runtime.session import Session
exe = legato.load("p.legato")
session = Session(exe)
session.set_input("x", np.float32([1, 2]))
session.run()
print(decode(session.get_output(0)))
print(decode(Session(exe).get_input("x")))
""")
        == "[2. 4.]\n[0. 0.]\n"
    )


def test_the_command_line_runs_what_was_compiled(alone: Alone) -> None:
    save("def @main(%x: Tensor[(n, 4), bfloat16]) { add(%x, 1bf16) }", alone)
    done = alone.legato("run", "p.legato", "--fill", "zeros", "-o", "y.npz")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "output  bfloat16[4, 4]  min 1  max 1  mean 1"
    again = alone.legato("run", "p.legato", "--fill", "random")
    assert (again.returncode, again.stderr) == (0, "")
    with np.load(alone.folder / "y.npz") as file:
        assert file["output"].dtype == np.dtype("V2")
        assert file["output"].tobytes() == 16 * b"\x80\x3f"
        np.savez(alone.folder / "x.npz", x=file["output"])
    assert "min 2  max 2" in alone.legato("run", "p.legato", "-i", "x.npz").stdout
    assert "inputs" in alone.legato("show", "p.legato").stdout
    assert "def @main" in alone.legato("show", "p.legato", "--text").stdout
    assert alone.legato("verify", "p.legato").stdout.splitlines()[-1] == "Every byte is as it was written."
    bench = alone.legato(
        "bench", "p.legato", "--rounds", "1", "--max-rounds", "1", "--block", "0.001", "--threads", "2"
    )
    assert bench.returncode == 0, bench.stderr
    assert "fork-join  not measured, which takes the compiler" in bench.stdout
    profile = alone.legato("profile", "p.legato", "--seconds", "0.01")
    assert profile.returncode == 0, profile.stderr
    doctor = alone.legato("doctor")
    assert (doctor.returncode, doctor.stderr) == (0, "")
    assert 'compiler  not installed (llvmlite is missing): pip install "legato[compiler]"' in doctor.stdout


WANTED = (
    "this takes Legato's compiler, which needs llvmlite, ml_dtypes, onnx, safetensors, rich: not installed\n"
    '  hint: pip install "legato[compiler]"; compiled programs are loaded and run without it'
)


def test_other_verbs_say_what_to_install(alone: Alone) -> None:
    (alone.folder / "m.onnx").write_bytes(b"")
    (alone.folder / "m.relay").write_text(HEAD + PROGRAMS["strings"])
    save(PROGRAMS["strings"], alone)
    lines = [
        "check m.onnx", "compile m.onnx -o m.legato", "compile m.relay --emit asm", "run m.onnx --fill random",
        "bench m.onnx", "profile m.onnx", "verify m.onnx", "show m.onnx", "opt m.relay -p simplify", "cache ls",
        "doctor --peaks", "run p.legato --generators c --fill random",
    ]  # fmt: skip
    said = alone.said(f"""
import contextlib, io
from legato.cli import main
for line in {lines!r}:
    err, out = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        code = main(line.split())
    told = [x for x in err.getvalue().splitlines() if not x.startswith(f"legato {{line.split()[0]}}: ")]
    is_right = (code, told, out.getvalue()) == (2, {("legato: " + WANTED).splitlines()!r}, "")
    print(line if is_right else (line, code, told))
""")
    assert said.splitlines() == lines


def test_completion_offers_what_there_is(alone: Alone) -> None:
    said = alone.said("""
import contextlib, io
from legato.cli import main
out = io.StringIO()
with contextlib.redirect_stdout(out):
    code = main(["completion", "bash"])
print(code, "_legato_words 'host x86-64-v2" in out.getvalue(), "fold-constant" in out.getvalue())
""")
    assert said == "0 True False\n"


CALLS = """
legato.compile("m.onnx")
legato.compile(3)
legato.parse("")
legato.from_onnx("m.onnx")
legato.from_torch(None)
legato.verify("m.onnx")
legato.packed(print, "int32")
legato.grad
legato.value_and_grad
legato.relay
legato.relax
legato.optim
legato.autodiff
__import__("legato.torch")
__import__("legato.torch.backend")
import legato.script
import legato.transform
import legato.patterns
import legato.frontend.onnx
import legato.testing.resnet
from legato import te; te.placeholder
from legato.relay import var
"""


def test_the_api_says_what_to_install(alone: Alone) -> None:
    said = alone.said(f"""
import legato
from legato.base.errors import LegatoError, MissingError
for call in {CALLS.strip().splitlines()!r}:
    try:
        exec(call)
    except MissingError as error:
        print(error.name, isinstance(error, LegatoError), isinstance(error, ImportError), str(error) == {WANTED!r})
    else:
        print(call)
""")
    assert set(said.splitlines()) == {"llvmlite True True True"}
    assert len(said.splitlines()) == len(CALLS.strip().splitlines())


TORCH = """
__import__("legato.torch")
__import__("legato.torch.backend")
legato.from_torch(None)
from legato.relay.frontend import from_pytorch; from_pytorch(None, [])
"""


def test_what_takes_pytorch_says_what_to_install() -> None:
    """Where all that the compiler needs is installed, and PyTorch is not."""
    code = f"""
import sys
sys.modules["torch"] = None
import legato
from legato.base.errors import MissingError
for call in {TORCH.strip().splitlines()!r}:
    try:
        exec(call)
    except MissingError as error:
        print(error.name, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    told = 'torch this takes PyTorch: not installed\n  hint: pip install "legato[torch]"\n'
    assert (done.stdout, done.stderr) == (told * len(TORCH.strip().splitlines()), "")


def test_no_module_misses_a_package_in_other_words(alone: Alone) -> None:
    """Each is imported, or says what to install; importing one of PyTorch's does so, too."""
    said = alone.said("""
import importlib, pkgutil
import legato
from legato.base.errors import MissingError
imported = 0
for found in pkgutil.walk_packages(legato.__path__, "legato.", onerror=lambda name: None):
    if found.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(found.name)
        imported += 1
    except MissingError:
        pass
print(imported > 100)
""")
    assert said == "True\n"


def test_the_extra_has_what_the_compiler_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.split(r"[<>=]", each)[0].replace("-", "_") for each in project["optional-dependencies"]["compiler"]]
    assert tuple(names) == NEEDED
    assert [re.split(r"[<>=]", each)[0] for each in project["dependencies"]] == ["numpy"]


def test_loading_imports_little(alone: Alone) -> None:
    """What it costs follows from how many modules there are; beside NumPy's, and those that every Python has."""
    save(PROGRAMS["strings"], alone)
    said = alone.said("""
import numpy
before = set(sys.modules)
import legato
legato.load("p.legato")
new = sorted(set(sys.modules) - before)
print(len(new), len([n for n in new if n.startswith("legato")]))
print(*sorted({n.split(".")[1] for n in new if n.startswith("legato.")}))
""")
    counts, parts = said.splitlines()
    assert parts == "_version base runtime"
    every, own = map(int, counts.split())
    assert own <= 50
    assert every - own <= 26, said
