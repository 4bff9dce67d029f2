"""Exports architectures with dynamic axes by both exporters of PyTorch, compiles them, and compares with ONNX Runtime.

    python -m tools.exports [--only bert,swin_t] [--exporters torchscript,dynamo] [--folder F] [--json F]

Each export has a process of its own. Packages beside PyTorch (torchvision, timm, transformers) are used where they are
installed. Exports are kept in the folder, and not made again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np

from tools.exports.architectures import ARCHITECTURES, Architecture, Sizes

EXPORTERS: Final = ("torchscript", "dynamo")
OPSET: Final = 18
TOLERANCE: Final = 1e-3  # of an output's range
AGREES: Final = "agrees"


def export(name: str, exporter: str, path: Path) -> None:
    """Writes one ONNX file."""
    import torch

    from tools.zoo.build import Flat

    of = ARCHITECTURES[name]
    torch.manual_seed(0)
    module = of.make().eval()
    given = tuple(torch.from_numpy(a) for a in feeds(of, of.sizes[0]).values())
    axes = {n: {k: d for k, d in enumerate(shape) if isinstance(d, str)} for n, (_, shape) in of.inputs.items()}
    common: dict[str, Any] = {"input_names": list(of.inputs), "opset_version": OPSET, "verbose": False}
    wrapped = Flat(module, tuple(of.inputs), by_name="x" not in of.inputs)
    if exporter == "torchscript":
        torch.onnx.export(wrapped, given, path, dynamo=False, dynamic_axes=axes, **common)
        return
    dynamic = torch.export.Dim.DYNAMIC
    shapes = (tuple(dict.fromkeys(a, dynamic) for a in axes.values()),)  # of *args
    torch.onnx.export(wrapped, given, path, dynamo=True, dynamic_shapes=shapes, external_data=False, **common)


def feeds(of: Architecture, sizes: Sizes) -> dict[str, np.ndarray[Any, Any]]:
    """Seeded inputs at some sizes: ids below 100, masks of ones, normally distributed numbers."""
    rng = np.random.default_rng(0)
    found = {}
    for name, (dtype, shape) in of.inputs.items():
        extents = [sizes[d] if isinstance(d, str) else d for d in shape]
        if name == "attention_mask":
            found[name] = np.ones(extents, dtype)
        elif dtype == "int64":
            found[name] = rng.integers(2, 100, extents)
        else:
            found[name] = rng.standard_normal(extents).astype(dtype)
    return found


def tried(name: str, path: Path) -> dict[str, Any]:
    """Compiles an export and compares it at each size."""
    import legato
    from legato.base.errors import LegatoError

    start = time.process_time()
    try:
        exe = legato.compile(path)
        found: dict[str, Any] = {"compile": time.process_time() - start, "inputs": list(map(str, exe.inputs))}
    except LegatoError as error:
        return {"outcome": f"refused: {str(error)[:1000]}"}
    return {**found, "outcome": _compared(ARCHITECTURES[name], path, exe)}


def _compared(of: Architecture, path: Path, exe: Any) -> str:
    import onnxruntime

    from legato.base.errors import LegatoError

    session = onnxruntime.InferenceSession(path)
    taken = {i.name for i in session.get_inputs()}
    for sizes in of.sizes:
        given = {k: v for k, v in feeds(of, sizes).items() if k in taken}
        try:
            wanted = session.run(None, given)
        except Exception as error:  # whatever ONNX Runtime raises
            told = f"ONNX Runtime refuses {dict(sizes)}: {str(error)[:200]}"
            if sizes is of.sizes[0]:
                return told
            continue  # the exporter has fixed it
        try:
            got = exe.run({i.name: given[i.name] for i in exe.arguments})
        except LegatoError as error:
            return f"does not run at {dict(sizes)}: {str(error)[:500]}"
        for theirs, (output, ours) in zip(wanted, got.items(), strict=True):
            if ours.shape != theirs.shape:
                return f"wrong at {dict(sizes)}: {output} has shape {ours.shape}, wanted {theirs.shape}"
            off = float(np.max(np.abs(ours.astype(np.float64) - theirs), initial=0))
            reach = float(np.max(np.abs(theirs.astype(np.float64)), initial=0)) or 1.0
            if not off <= TOLERANCE * reach:
                return f"wrong at {dict(sizes)}: {output} is off by {off / reach:.1e} of its range"
    return AGREES


def one(name: str, exporter: str, folder: Path) -> dict[str, Any]:
    """The row of one export; what the exporter says where it fails."""
    path = folder / f"{name}.{exporter}.onnx"
    base = {"name": name, "exporter": exporter}
    if not path.exists():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what exporters say of their future
                export(name, exporter, path)
        except Exception as error:  # whatever exporters raise
            path.unlink(missing_ok=True)
            return {**base, "outcome": f"not exported: {type(error).__name__}: {str(error)[:300]}"}
    return {**base, **tried(name, path)}


def main() -> None:
    """Make, compile, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(ARCHITECTURES), help="names of architectures, with commas")
    parser.add_argument("--exporters", default=",".join(EXPORTERS))
    parser.add_argument("--folder", type=Path, default=Path("out/exports"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--here", action="store_true", help="one export, in this process; its row as JSON")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    jobs = [(name, exporter) for exporter in args.exporters.split(",") for name in args.only.split(",")]
    if args.here:
        print(json.dumps(one(*jobs[0], args.folder)))
        return
    rows = []
    for name, exporter in jobs:
        command = [sys.executable, "-m", "tools.exports", "--here", "--only", name, "--exporters", exporter]
        done = subprocess.run([*command, "--folder", str(args.folder)], capture_output=True, text=True)
        if done.returncode:
            row = {"name": name, "exporter": exporter, "outcome": f"crashed ({done.returncode}): {done.stderr[-500:]}"}
        else:
            row = json.loads(done.stdout.strip().splitlines()[-1])
        rows.append(row)
        print(f"{name:20} {exporter:12} {row.get('compile', 0):6.1f} s  {row['outcome']}", flush=True)
        if args.json is not None:
            args.json.write_text(json.dumps(rows, indent=1))
    print(dict(Counter(row["outcome"].split(":")[0] for row in rows)))


if __name__ == "__main__":
    main()
