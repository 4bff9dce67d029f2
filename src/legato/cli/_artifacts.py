"""What a compiled file holds, in words."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legato.cli._answer import Answer, counted, rows, size

if TYPE_CHECKING:
    from legato.runtime.facts import Facts

__all__ = ["describe", "memory_line", "memory_of"]

_SHOWN = 8  # operators that the kernels are counted by


def memory_of(found: Facts) -> dict[str, Any]:
    """The workspace of a call, as JSON has it: a formula, and the bytes where its dims are as small as is usual."""
    memory = found.peak_memory
    return {"peak_memory": memory.formula, "peak_bytes": memory.smallest, "peak_at": memory.least}


def memory_line(data: dict[str, Any]) -> str:
    """What `memory_of` gives, in words."""
    if not data["peak_at"]:
        return f"{size(data['peak_bytes'])} per call, beside the weights"
    at = ", ".join(f"{name} = {value}" for name, value in data["peak_at"].items())
    general = f"in general {data['peak_memory']} bytes"
    return f"{size(data['peak_bytes'])} per call at {at}, beside the weights; {general}"


def describe(found: Facts, path: Path) -> Answer:
    """What it takes and gives, what it is for, how large it is, what is in it."""
    program = found.program
    data: dict[str, Any] = {
        "model": str(path),
        "after": None,
        "text": program.source,
        "version": program.version,
        "format": program.format,
        "bytes": path.stat().st_size,
        "weight_bytes": found.weight_bytes,
        "target": found.target,
        "precision": found.precision.value,
        "inputs": [str(leaf) for leaf in found.arguments],
        "outputs": [str(leaf) for leaf in found.results],
        **memory_of(found),
        "kernels": [{"name": k.name, "operators": list(k.operators), "sites": list(k.sites)} for k in found.kernels],
        "by_reference": [op.op for op in program.host_ops],
        "generators": [external.name for external in program.externals],
        "functions": list(program.functions),
        "stages": list(program.stages),
    }
    return Answer(data, _text(data))


def _text(data: dict[str, Any]) -> str:
    bytes_of = {name: size(data[name]) for name in ("bytes", "weight_bytes")}
    lines = [
        ("file", f"{data['model']}: {bytes_of['bytes']}, of which weights {bytes_of['weight_bytes']}"),
        ("made by", f"Legato {data['version']}, format {data['format']}"),
        ("for", f"{data['target']}, precision {data['precision']}"),
        *(("inputs" if not n else "", text) for n, text in enumerate(data["inputs"])),
        *(("outputs" if not n else "", text) for n, text in enumerate(data["outputs"])),
        ("memory", memory_line(data)),
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
