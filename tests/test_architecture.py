"""What the shape of the source promises: sizes, public names, and what `import legato` costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tools import sz

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path for path in (ROOT / "src/legato").rglob("__init__.py"))

# Prints what `import legato` imports in a process that has numpy already.
IMPORTED = "import numpy, sys; before = set(sys.modules); import legato; print(*set(sys.modules) - before)"


def python(code: str) -> str:
    """What a fresh interpreter prints for `code`."""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT / "src")
    return done.stdout


def test_no_file_is_too_long() -> None:
    long = {str(path): lines for path, lines in sz.line_counts(["src", "tests", "tools"]).items() if lines > sz.FAIL}
    assert long == {}


def public_names(tree: ast.Module) -> Iterator[str]:
    """Public names that a module's top level defines or takes from another module of the package."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "legato"):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: str(path.parent.relative_to(ROOT / "src")))
def test_public_names_are_listed(path: Path) -> None:
    names = {name for name in public_names(ast.parse(path.read_text())) if not name.startswith("_")}
    module = import_module(".".join(path.parent.relative_to(ROOT / "src").parts))
    listed = getattr(module, "__all__", [])
    assert set() == names - set(listed), "public, but not in __all__"
    assert [name for name in listed if not hasattr(module, name)] == [], "in __all__, but not there"
    assert len(set(listed)) == len(listed)


def test_import_is_cheap() -> None:
    """A handful of small modules beyond NumPy's: everything else is imported on use."""
    found = python(IMPORTED).split()
    own = [name for name in found if name.split(".")[0] == "legato"]
    assert set(own) == {"legato", "legato._version", "legato.base", "legato.base.sources"}
    assert len(found) <= 16, sorted(found)


# Clocks that a test replaces by its own, reads by which nothing is decided, and how long a process may sleep.
CLOCKS = {
    "test_bench.py",
    "test_cluster.py",
    "test_sources.py",
    "test_architecture.py",
    "forked.py",
    "browser.py",
}  # the last: make test-page


def test_no_test_depends_on_the_clock() -> None:
    clocks = re.compile(r"perf_counter|monotonic\(|process_time|time\.time\(|timeit|deadline=[^N]")
    files = [path for path in (ROOT / "tests").rglob("*.py") if path.name not in CLOCKS]
    assert [str(path.relative_to(ROOT)) for path in files if clocks.search(path.read_text())] == []


def test_import_leaves_heavy_packages_alone() -> None:
    loaded = python("import sys, legato; print(*sys.modules)").split()
    assert set() == {"onnx", "llvmlite", "torch", "rich", "onnxruntime"} & set(loaded)


def test_the_compiler_leaves_readers_of_text_alone() -> None:
    """A model that is read from ONNX, and compiled, needs no parser of programs."""
    loaded = python("import sys, legato.driver, legato.frontend.onnx.importer; print(*sys.modules)").split()
    assert set() == {"difflib", "legato.ir.files", "legato.ir.json_load", "legato.ir.parser", "legato.tir.parser"} & {
        *loaded
    }


TORCH = {"torch", "torchvision", "timm", "transformers"}  # which the extra `test` does not install
IMPORT = re.compile(
    r"^(?:import (\S+)|from (\S+) import ([\w, ]*)|.*\bpytest\.importorskip\(\"torch\"\))", re.MULTILINE
)


@cache
def imported(path: Path) -> frozenset[str]:
    """What a module imports as it is imported, up to where it asks for PyTorch in a way that skips it without."""
    found: set[str] = set()
    for line in IMPORT.finditer(path.read_text()):
        whole, parent, names = line.groups()
        if not whole and not parent:
            if line[0][0] == " ":
                continue
            break
        found |= (
            {whole} if whole else {parent, *(f"{parent}.{name.split(' as ')[0].strip()}" for name in names.split(","))}
        )
    return frozenset(found)


def needs_torch(path: Path) -> bool:
    """Whether importing a module imports PyTorch, or what is built on it."""
    files, seen = [path], {path}
    while files:
        names = imported(files.pop())
        if not {name.split(".")[0] for name in names}.isdisjoint(TORCH):
            return True
        found = {file for name in names for file in files_of(name)} - seen
        files += found
        seen |= found
    return False


@cache
def files_of(name: str) -> tuple[Path, ...]:
    """The file of a module of ours, if it is one."""
    stems = [base / name.replace(".", "/") for base in (ROOT, ROOT / "src")]
    files = [file for stem in stems for file in (stem.with_suffix(".py"), stem / "__init__.py")]
    return tuple(file for file in files if file.exists())


def test_tests_are_collected_without_pytorch() -> None:
    """Continuous integration has it for one version of Python alone."""
    found = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py") if needs_torch(path)]
    assert found == []
