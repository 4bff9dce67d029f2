"""What a compiled file holds, in words."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato.cli._answer import Answer, counted, rows, size

if TYPE_CHECKING:
    from legato.runtime.executable import Executable

__all__ = ["describe"]

_SHOWN = 8  # operators that the kernels are counted by


def describe(exe: Executable, path: Path) -> Answer:
    """What it takes and gives, what it is for, how large it is, what is in it."""
    program = exe.program
    data: dict[str, Any] = {
        "model": str(path),
        "after": None,
        "text": program.source,
        "version": program.version,
        "format": program.format,
        "bytes": path.stat().st_size,
        "weight_bytes": exe.weight_bytes,
        "target": exe.target,
        "precision": exe.precision.value,
        "inputs": [str(leaf) for leaf in exe.arguments],
        "outputs": [str(leaf) for leaf in exe.results],
        "peak_memory": str(exe.peak_memory),
        "kernels": [{"name": k.name, "operators": list(k.operators), "sites": list(k.sites)} for k in exe.kernels],
        "by_reference": [op.op for op in program.host_ops],
        "generators": [external.name for external in program.externals],
        "functions": list(program.functions),
        "stages": list(program.stages),
    }
    return Answer(data, _text(data))


def _text(data: dict[str, Any]) -> str:
    memory = data["peak_memory"]
    bytes_of = {name: size(data[name]) for name in ("bytes", "weight_bytes")}
    lines = [
        ("file", f"{data['model']}: {bytes_of['bytes']}, of which weights {bytes_of['weight_bytes']}"),
        ("made by", f"Legato {data['version']}, format {data['format']}"),
        ("for", f"{data['target']}, precision {data['precision']}"),
        *(("inputs" if not n else "", text) for n, text in enumerate(data["inputs"])),
        *(("outputs" if not n else "", text) for n, text in enumerate(data["outputs"])),
        ("memory", f"{size(int(memory)) if memory.isdigit() else memory + ' bytes'} per call, beside the weights"),
        ("kernels", _kernels(data["kernels"])),
    ]
    for name, head in (("by_reference", "by reference"), ("generators", "by others")):
        if data[name]:
            lines.append((head, ", ".join(dict.fromkeys(data[name]))))
    if len(data["functions"]) > 1:
        lines.append(("functions", ", ".join(data["functions"])))
    lines.append(("stages", ", ".join(data["stages"]) or "none kept; the program that it was compiled from: --text"))
    return rows(lines)


def _kernels(kernels: list[dict[str, Any]]) -> str:
    """`12: 4 dense, 8 add`: by the names that they have, which are those of their main operators."""
    names = Counter(k["name"].rpartition("_")[0] or k["name"] for k in kernels)
    most = [f"{count} {name}" for name, count in names.most_common(_SHOWN)]
    rest = sum(names.values()) - sum(count for _, count in names.most_common(_SHOWN))
    told = ", ".join([*most, *[f"{rest} more"] * bool(rest)])
    return f"{counted(len(kernels), 'kernel')}{': ' if told else ''}{told}"
