"""What the shape of the source promises: sizes, public names, and what `import legato` costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tools import sz

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path for path in (ROOT / "src/legato").rglob("__init__.py"))

# Prints the milliseconds that `import legato` takes in a process that has numpy already.
IMPORT_TIME = """
import numpy, time
start = time.perf_counter()
import legato
print((time.perf_counter() - start) * 1e3)
"""


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
    # The smallest of several runs: a busy machine makes some of them slow, never one of them fast.
    times = []
    for _ in range(10):
        times.append(float(python(IMPORT_TIME)))
        if times[-1] <= 40:
            break
    assert min(times) <= 40, f"import legato takes {min(times):.0f} ms beyond numpy; 40 are allowed"


def test_import_leaves_heavy_packages_alone() -> None:
    loaded = python("import sys, legato; print(*sys.modules)").split()
    assert set() == {"onnx", "llvmlite", "torch", "rich", "onnxruntime"} & set(loaded)
