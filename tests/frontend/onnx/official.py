"""Every case of all official suites of the installed onnx package, as shipped and compiled natively.

    python -m tests.frontend.onnx.official [--named] [--json FILE] [--jobs N] [PATTERN]

The suites are those of single operators, of small graphs, of PyTorch's exports, and the real graphs with their weights
left out. A case passes, is refused with an error of Legato's (at once, or when it is called), or is wrong: other
results, another error, more than 60 s of the processor. `misses.toml` says which do not pass, and why. The exit code is
1 where one is wrong that is not said to differ, where one does not pass that should, or passes that should not.
`--named` puts a name in place of every extent of every input; `named.toml` says which others do not pass then.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.damaged.forked import Limits, tried
from tests.frontend.onnx import node_suite as suite
from tests.frontend.onnx.misses import MISSES, NAMED, Miss, miss
from tests.frontend.onnx.node_survey import Verdict, counted, survey

__all__ = ["Outcome", "cases", "main", "outcomes"]

KINDS = ("simple", "pytorch-operator", "pytorch-converted", "real")  # the suites in folders, beside that of operators
ROOT = Path(onnx.__file__).parent.parent
LIMITS = Limits(seconds=60.0, bytes=12 << 30)


@dataclass(frozen=True, slots=True)
class Case:
    """A case as `node_suite` and `node_survey` take it."""

    name: str
    model: onnx.ModelProto
    data_sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case; `reason`: that of the files of misses, "" where it should pass; `seconds`: of the
    processor."""

    case: str
    suite: str
    verdict: Verdict
    why: str
    reason: str
    seconds: float


@cache
def cases() -> tuple[tuple[str, Any], ...]:
    """Every case as (suite, case), where the case of a folder is a function that reads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        found: list[tuple[str, Any]] = [("node", case) for case in suite.cases()]
        for kind in KINDS:
            found += [(kind, case) for case in sorted(load_model_tests(kind=kind), key=lambda case: str(case.name))]
    return tuple(found)


def read(case: Any) -> Any:
    """The case with its model and its data, which those of folders have in files."""
    if case.model is not None:
        return case
    if case.url is not None:
        return _real(case, ROOT / case.url)
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    sets = [
        (_values(data, "input", model.graph.input), _values(data, "output", model.graph.output))
        for data in sorted(folder.glob("test_data_set_*"))
    ]
    return Case(case.name, model, sets, case.rtol, case.atol)


def _real(case: Any, path: Path) -> Case:
    """A real graph: as the runner of the onnx package has it, its input counts from 0 to 1."""
    model = onnx.load(path)
    given = {tensor.name for tensor in model.graph.initializer}
    inputs = []
    for value in model.graph.input:
        if value.name not in given:
            shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
    kept = onnx.ModelProto()
    kept.CopyFrom(model)
    del kept.graph.input[:]
    kept.graph.input.extend(value for value in model.graph.input if value.name not in given)
    wanted = onnx.load_tensor(path.with_name(f"{path.stem}_output_0.pb"))
    return Case(case.name, kept, [(inputs, [wanted])], case.rtol, case.atol)


def _values(folder: Path, what: str, declared: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    """The inputs or outputs of a data set, in order."""
    count = len(list(folder.glob(f"{what}_*.pb")))
    return [_value((folder / f"{what}_{n}.pb").read_bytes(), declared[n].type) for n in range(count)]


def _value(data: bytes, ty: onnx.TypeProto) -> Any:
    if ty.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if ty.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return onnx.TensorProto.FromString(data)


def outcomes(pattern: str = "", *, named: bool = False, jobs: int = 2) -> Iterator[Outcome]:
    """What becomes of each case, in processes of their own, as it comes."""
    chosen = [(kind, case) for kind, case in cases() if re.search(pattern, case.name)]
    with tempfile.TemporaryDirectory(prefix="official-") as folder:
        notes = Path(folder)

        def attempt(number: int, own: Path) -> bool:
            found = survey(read(chosen[number][1]), named=named, compiled=True)
            (notes / f"{number}.json").write_text(json.dumps([found.verdict, found.why]), encoding="utf-8")
            return True

        for one in tried(attempt, range(len(chosen)), notes / "cases", jobs=jobs, limits=LIMITS, batch=20):
            kind, case = chosen[one.number]
            verdict, why = "wrong", one.verdict.strip().splitlines()[-1]
            if one.is_right:
                verdict, why = json.loads((notes / f"{one.number}.json").read_text(encoding="utf-8"))
            expected = expectation(case.name, named=named)
            reason = "" if expected is None else expected.reason
            yield Outcome(case.name, kind, verdict, why, reason, round(one.seconds, 2))


def expectation(case: str, *, named: bool) -> Miss | None:
    """Why a case does not pass; None where it should."""
    return miss(case) or (miss(case, NAMED) if named else None)


def fault(found: Outcome, *, named: bool) -> str | None:
    """What is not as it should be."""
    expected = expectation(found.case, named=named)
    if found.verdict == "wrong":
        return None if expected is not None and expected.differs else "is wrong"
    if found.verdict == "called":
        return None if expected is not None and expected.called else "is refused when it is called"
    if found.verdict == "passes":
        return None if expected is None else f"passes, and is in {NAMED.name if named else MISSES.name}"
    return "is refused" if expected is None or expected.called else None


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what became of the cases; 1 where something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="of the names of cases")
    parser.add_argument("--named", action="store_true", help="a name in place of every extent")
    parser.add_argument("--json", type=Path, help="a file for all that was found")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    args = parser.parse_args(argv)
    found: list[Outcome] = []
    faults = 0
    for one in outcomes(args.pattern, named=args.named, jobs=args.jobs):
        found.append(one)
        if (wrong := fault(one, named=args.named)) is not None:
            faults += 1
            print(f"{one.case} {wrong}: {one.why or one.reason}", flush=True)
    _tell(found)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps([asdict(one) for one in found], indent=1), encoding="utf-8")
    return int(faults > 0)


def _tell(found: Sequence[Outcome]) -> None:
    """Prints the counts, and how many do not pass for each reason."""
    for kind in ("node", *KINDS):
        own = Counter(one.verdict for one in found if one.suite == kind)
        if own:
            print(f"{kind}: {counted(own)}")
    print(f"all: {counted(Counter(one.verdict for one in found))}")
    for reason, count in Counter(one.reason or "no reason" for one in found if one.verdict != "passes").most_common():
        print(f"  {count:5d}  {reason}")


if __name__ == "__main__":
    raise SystemExit(main())
