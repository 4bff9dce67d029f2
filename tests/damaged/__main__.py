"""Damaged files and odd command lines by the thousand.

    python -m tests.damaged [--files N] [--commands N] [--first SEED]
                            [--kinds onnx,nodes,model,large,official,rank,text,json,script,artifact,command]
                            [--jobs N] [--out FOLDER] [--smaller]

Of each kind so many are made, and each is compiled, loaded or run in a process that may use 2 GB and 10 s of the
processor. It is accepted, or refused with one of Legato's own errors. Whatever else happens, a crash, another error,
too much time or memory, is printed, and what it happened with is kept in FOLDER by kind and seed: exit code 1.
With --smaller a model is kept with less in it, too, as smaller.onnx. Kind and seed make the same file again.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.damaged import artifacts, commands, onnx_models, programs, real_models, scripts
from tests.damaged.forked import ACCEPTED, Attempt, Tried, tried
from tests.damaged.smaller import smaller

KINDS: Final[dict[str, tuple[Attempt, Callable[[], object]]]] = {  # and what is made once, before processes are
    "onnx": (onnx_models.attempt_graph, lambda: None),
    "nodes": (onnx_models.attempt_node_test, onnx_models.small_cases),
    "model": (real_models.attempt_model, real_models.files),
    "large": (real_models.attempt_large, real_models.large_ones),
    "official": (real_models.attempt_official, onnx_models.small_cases),
    "rank": (real_models.attempt_rank, onnx_models.small_cases),
    "text": (programs.attempt_text, lambda: None),
    "json": (programs.attempt_json, programs.saved),
    "script": (scripts.attempt, lambda: None),
    "artifact": (artifacts.attempt, artifacts.made),
    "command": (commands.attempt, commands.contents),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what was tried, by kind; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.damaged", description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1000, help="of each kind")
    parser.add_argument("--commands", type=int, default=1000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out/damaged"))
    parser.add_argument("--smaller", action="store_true", help="leave out of models what is not needed")
    args = parser.parse_args(argv)
    out = args.out.absolute()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="damaged-") as cache:
        os.environ["LEGATO_CACHE_DIR"] = cache  # one of the verbs empties it
        for kind in args.kinds.split(","):
            count = args.commands if kind == "command" else args.files
            wrong += _tried(kind, range(args.first, args.first + count), out / kind, args.jobs, args.smaller)
    return 1 if wrong else 0


def _tried(kind: str, numbers: range, out: Path, jobs: int, is_smaller: bool) -> int:
    """How many are wrong of a kind."""
    attempt, prepare = KINDS[kind]
    prepare()
    done: list[Tried] = []
    for one in tried(attempt, numbers, out, jobs=jobs):
        done.append(one)
        if not one.is_right:
            print(f"{kind} {one.number}: {one.verdict}", flush=True)
            (out / str(one.number) / "verdict.txt").write_text(one.verdict, encoding="utf-8")
            if is_smaller and (path := out / str(one.number) / real_models.FILE).exists():
                _make_smaller(path, one.verdict)
    wrong = sum(not one.is_right for one in done)
    accepted = sum(one.verdict == ACCEPTED for one in done)
    most = max(done, key=lambda one: one.seconds), max(done, key=lambda one: one.bytes)
    print(
        f"{kind:9s} {len(done):6d} tried: {accepted} accepted, {len(done) - accepted - wrong} refused, {wrong} wrong; "
        f"at most {most[0].seconds:.1f} s (seed {most[0].number}), {most[1].bytes >> 20} MB (seed {most[1].number})",
        flush=True,
    )
    return wrong


def _make_smaller(path: Path, verdict: str) -> None:
    """Keeps beside a model what is needed of it, for the same to go wrong."""
    trial = path.with_name("trial.onnx")

    def fails(content: bytes) -> str | None:
        trial.write_bytes(content)
        with tempfile.TemporaryDirectory() as folder:
            done = next(tried(lambda *_: real_models.judge(trial), [0], Path(folder)))
        return None if done.is_right else done.verdict

    path.with_name("smaller.onnx").write_bytes(smaller(path.read_bytes(), verdict, fails))
    trial.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
