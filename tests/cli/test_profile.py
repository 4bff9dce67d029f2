"""The verb `profile`, and `doctor --peaks`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np


def test_profile(call: Any) -> None:
    done = call("profile", "mlp.relay", "--dim", "n=64", "--seconds", "0.05", "--threads", "1")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["model", "inputs", "machine", "peaks", "run"]
    (row,) = (line.split() for line in lines if line.startswith("relu_0 "))
    assert row[1] == "1"
    assert row[-4:-2] == ["nn.dense", "nn.relu"]
    assert any(line.startswith("overhead ") for line in lines)
    assert any(line.startswith("sum ") for line in lines)


def test_profile_of_a_compiled_file(call: Any) -> None:
    assert call("compile", "mlp.relay", "-o", "mlp.legato").code == 0
    done = call(
        "profile", "mlp.legato", "--seconds", "0.05", "--best", "--json", "--trace", "t.json", "--html", "p.html"
    )
    assert (done.code, done.err) == (0, "")
    assert (done.json["verb"], done.json["statistic"]) == ("profile", "best")
    assert "relu_0" in {k["name"] for k in done.json["kernels"]}
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
