"""`make tvm`: each module of this folder in TVM and in Legato, on the same arguments.

    python -m tests.script.modules.tvm --python .venv-tvm/bin/python [--only NAME] [--update]

Prints a table, and the share of modules that agree; exits with 1 where one does not that is expected to, or less than
85 % do. --update writes what TVM gives to `expected.json`, which the tests compare with.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from legato.script import parse
from tests.script.modules.tvm import peer
from tests.script.modules.tvm.agree import compiled, difference
from tests.script.modules.tvm.cases import FOLDER, Case, arguments, cases
from tests.script.modules.tvm.translate import translated

LEAST = 0.85


def tvm_results(found: dict[str, Case], python: str) -> dict[str, dict[str, object]]:
    """What TVM gives for each case: its runs, or an error."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n, case in enumerate(found.values()):
            try:
                runs = [[peer.encoded(a) for a in args] for args in arguments(case, parse(case.script))]
            except Exception:
                runs = []
            (folder / f"{n}.py").write_text(translated(case.script))
            (folder / f"{n}.json").write_text(json.dumps(runs))
        subprocess.run([python, str(Path(peer.__file__)), str(folder)], check=True)
        return {name: json.loads((folder / f"{n}.out.json").read_text()) for n, name in enumerate(found)}


def judge(case: Case, theirs: dict[str, object]) -> str | None:
    """In what Legato and TVM differ."""
    try:
        ours = compiled(case)
    except Exception as error:
        return f"Legato: {str(error).splitlines()[0]}"
    if "error" in theirs:
        lines = [line for line in str(theirs["error"]).splitlines() if line.strip()]
        return f"TVM: {lines[0]}"
    runs = theirs["runs"]
    assert isinstance(runs, list)
    found = (difference(a, peer.decoded(b)) for a, b in zip(ours, runs, strict=True))
    return next((f for f in found if f is not None), None)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.script.modules.tvm")
    options.add_argument("--python", required=True, help="of an environment that has apache-tvm")
    options.add_argument("--only", default="", help="cases whose names have this")
    options.add_argument("--update", action="store_true", help="write expected.json")
    given = options.parse_args()
    found = {name: case for name, case in cases().items() if given.only in name}
    theirs = tvm_results(found, given.python)
    wrong = {name: judge(case, theirs[name]) for name, case in found.items()}
    for name, case in found.items():
        print(f"{name:34} {wrong[name] or 'agrees'}")
        if case.reason is not None:
            print(f"{'':34}   {case.reason}")
    agree = [name for name in found if wrong[name] is None]
    share = len(agree) / len(found)
    print(f"{len(agree)} of {len(found)} agree: {share:.1%}")
    odd = [name for name, case in found.items() if (wrong[name] is None) == (case.reason is not None)]
    for name in odd:
        print(f"not as expected: {name}", file=sys.stderr)
    if given.update:
        kept = {name: one["runs"] for name, one in theirs.items() if "runs" in one}
        lines = [f"{json.dumps(name)}: {json.dumps(runs, separators=(',', ':'))}" for name, runs in kept.items()]
        (FOLDER / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return int(bool(odd) or share < LEAST)


if __name__ == "__main__":
    sys.exit(main())
