"""The verb `profile`, and `doctor --peaks`."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legato.cli.profile import FEW, _text
from legato.profile.html import html
from legato.profile.report import KernelProfile, Profile


def test_profile(call: Any) -> None:
    done = call("profile", "mlp.relay", "--dim", "n=64", "--seconds", "0.05", "--threads", "1")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["model", "inputs", "machine", "peaks", "run"]
    (row,) = (line.split() for line in lines if line.startswith("dense_0 "))
    assert row[1] == "1"
    assert row[-4:-2] == ["nn.dense", "nn.relu"]
    assert any(line.startswith("outside kernels ") for line in lines)
    assert any(line.startswith("sum ") for line in lines)


def test_rows_are_the_sum() -> None:
    """Those that are not shown are a row, too."""
    found = Profile("x86-64-v3", 1, 9, "median", 0.2, 1e-3, tuple(map(kernel, range(FEW + 3))), None, "", ())
    lines = _text(found, "m", "", FEW).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("kernel"))
    end = next(n for n, line in enumerate(lines) if line.startswith("sum"))
    shown = [line.split("  ") for line in lines[start + 1 : end + 1]]
    times = [next(cell for cell in map(str.strip, row) if cell.endswith(" ms")) for row in shown]
    *parts, total = (float(text.removesuffix(" ms")) for text in times)
    assert shown[-3][0] == "3 more (--all)"
    assert sum(parts) == pytest.approx(total, abs=0.01 * len(parts))
    assert total == pytest.approx(1e3 * found.total, abs=0.01)


def test_parts_that_do_not_add_up_are_told() -> None:
    found = Profile("x86-64-v3", 1, 9, "median", 2e-3, 1e-3, (kernel(0),), None, "", ())
    assert (found.total, found.busy) == (2e-3, "")
    busy = replace(found, seconds=3e-3)
    assert busy.busy in _text(busy, "m", "", FEW)
    assert busy.busy in html(busy, "m", "")
    assert busy.busy == (
        "a run takes 3000.0 µs, its parts 2000.0 µs (median of each): others use this machine, or its speed changes"
    )


def kernel(n: int) -> KernelProfile:
    return KernelProfile(f"dense_{n}", ("nn.dense",), (), 1, 1e-3 * (1 + n / 7 if n else 1), 0, 0, {}, 1.0, None)


def test_profile_of_a_compiled_file(call: Any) -> None:
    assert call("compile", "mlp.relay", "-o", "mlp.legato").code == 0
    done = call(
        "profile", "mlp.legato", "--seconds", "0.05", "--best", "--json", "--trace", "t.json", "--html", "p.html"
    )
    assert (done.code, done.err) == (0, "")
    assert (done.json["verb"], done.json["statistic"]) == ("profile", "best")
    assert "dense_0" in {k["name"] for k in done.json["kernels"]}
    assert json.loads(Path("t.json").read_text())["traceEvents"]
    assert Path("p.html").read_text().startswith("<!DOCTYPE html>")
    done = call("profile", "mlp.legato", "--target", "x86-64-v3")
    assert done.code == 2
    assert "mlp.legato is compiled already" in done.err


def test_profile_of_a_program_without_inputs_that_fit(call: Any) -> None:
    np.savez("in.npz", x=np.zeros((2, 5), np.float32), w=np.zeros((3, 4), np.float32))
    done = call("profile", "mlp.relay", "-i", "in.npz")
    assert done.code == 2
    assert 'input "x": wrong size of dimension 1' in done.err


def test_doctor_measures(call: Any) -> None:
    done = call("doctor", "--peaks")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"^peaks +1 thread: \d+ GFLOP/s; GB/s: L1 \d+, L2 \d+, L3 \d+, memory \d+; ", done.out, re.M)
    assert call("doctor", "--peaks", "--json").json["peaks"][0]["threads"] == 1
