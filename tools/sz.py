"""Lines per folder; fails when a source file is longer than a reader can hold in mind.

Usage: python tools/sz.py [FOLDER ...]        (default: src tests tools)
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

WARN, FAIL = 500, 800
SUFFIXES = {".py", ".c", ".h"}


def line_counts(folders: Iterable[str]) -> dict[Path, int]:
    """Lines of every Python and C file below `folders`."""
    files = sorted(path for folder in folders for path in Path(folder).rglob("*") if path.suffix in SUFFIXES)
    return {path: path.read_text(encoding="utf-8").count("\n") for path in files}


def folder_of(path: Path) -> str:
    """The folder that a file is counted under: `src/legato/ir` for `src/legato/ir/expr.py`."""
    parts = path.parent.parts
    return "/".join(parts[:3] if parts[0] == "src" else parts[:2])


def main(folders: list[str]) -> int:
    """Print the table and the long files; 1 if any file is over the limit."""
    counts = line_counts(folders)
    table: Counter[str] = Counter()
    for path, lines in counts.items():
        table[folder_of(path)] += lines
    for folder, lines in sorted(table.items()):
        print(f"{lines:7,}  {folder}")
    print(f"{sum(counts.values()):7,}  in {len(counts)} files")
    for path, lines in counts.items():
        if lines > WARN:
            level = "error" if lines > FAIL else "warning"
            print(f"{level}: {path} has {lines} lines, aim for {WARN} at most", file=sys.stderr)
    return int(any(lines > FAIL for lines in counts.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["src", "tests", "tools"]))
