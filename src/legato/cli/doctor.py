"""the machine as Legato sees it: a block to paste into a report"""

from __future__ import annotations

import argparse
import os
import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from legato._version import __version__
from legato.base.errors import MissingError, PlatformError
from legato.cli._answer import NO, YES, Answer, Tell, rows, seconds, size

__all__ = ["add_arguments", "run"]

PACKAGES = ("numpy", "llvmlite", "ml-dtypes", "onnx", "safetensors", "onnxruntime", "openvino", "torch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whether to measure."""
    parser.add_argument(
        "--peaks", action="store_true", help="measure what this machine can do: multiply-adds, caches, memory"
    )


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """CPU, target, threads and why, versions, cache. Exit code 1 where nothing can be compiled or run."""
    from legato.base.target import cpu_name
    from legato.cli.cache import entries, where

    compiler = _compiler()
    folder, problem = where() if compiler is None else (None, "nothing is compiled here")
    data: dict[str, Any] = {
        "version": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpu": cpu_name(),
        **_machine(),
        "compiler": compiler,
        "packages": {name: _version(name) for name in PACKAGES},
        "cache": {"folder": folder, "problem": problem, "bytes": 0 if compiler else sum(entries().values())},
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith("LEGATO_")},
    }
    if args.peaks and not data["problem"]:
        tell("measuring")
        data["peaks"] = _peaks(data["threads"])
    return Answer(data, _text(data), NO if data["problem"] else YES)


def _peaks(threads: int) -> list[dict[str, Any]]:
    """The machine's peaks on one thread, and on as many as programs get."""
    from legato.base.target import host
    from legato.profile.machine import measure_machine

    return [measure_machine(host(), n).to_json() for n in sorted({1, threads})]


def _machine() -> dict[str, Any]:
    """Target and threads, or what is in the way."""
    from legato.base.config import config
    from legato.base.target import host
    from legato.runtime.binding import cpu_count, library

    try:
        quota = float(library().lg_cgroup_cpus(b""))
        affinity, count, named = len(os.sched_getaffinity(0)), cpu_count(), config().threads
        threads = named or count
        why = "LEGATO_THREADS" if named else "the cgroup quota" if quota and count < affinity else "CPU affinity"
        found = {"cores": os.cpu_count(), "affinity": affinity, "cgroup_cpus": quota or None}
        return {"problem": None, "target": host().name, "threads": threads, "threads_why": why, **found}
    except PlatformError as error:
        return {"problem": str(error), "target": None, "threads": None}


def _compiler() -> str | None:
    """Why nothing can be compiled here, if so."""
    try:
        import_module("legato.base.compiler")
    except MissingError as error:
        return f'not installed ({error.name} is missing): pip install "legato[compiler]"'
    return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _text(data: dict[str, Any]) -> str:
    table = [
        ("legato", f"{data['version']}, Python {data['python']}"),
        ("system", data["system"]),
        ("cpu", data["cpu"]),
    ]
    if data["problem"]:
        table.append(("problem", data["problem"]))
    else:
        quota = data["cgroup_cpus"]
        limit = "no cgroup quota" if quota is None else f"a cgroup quota of {quota:g}"
        seen = f"{data['cores']} cores, {data['affinity']} by affinity, {limit}"
        table.append(("target", data["target"]))
        table.append(("threads", f"{data['threads']}, because of {data['threads_why']} ({seen})"))
    for peak in data.get("peaks", ()):
        rates = ", ".join(f"{level} {rate / 1e9:.0f}" for level, rate in peak["bandwidths"].items())
        number = peak["threads"]
        what = f"{number} thread{'s' if number > 1 else ''}: {peak['flops'] / 1e9:.0f} GFLOP/s; GB/s: {rates}"
        table.append(("peaks", f"{what}; fork-join {seconds(peak['fork_join'])}"))
    if data["compiler"]:
        table.append(("compiler", data["compiler"]))
    table.append(("packages", ", ".join(f"{name} {found}" for name, found in data["packages"].items() if found)))
    table.append(("cache", data["cache"]["problem"] or f"{data['cache']['folder']}: {size(data['cache']['bytes'])}"))
    table += [("setting", f"{name}={value}") for name, value in data["environment"].items()]
    return rows(table)
