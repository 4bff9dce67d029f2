"""How many of the official node tests need nothing but their inputs, and how many take inputs of any extent.

    python -m tests.frontend.onnx.node_survey [--compiled] [--json FILE] [PATTERN]

Each case runs twice: with the extents that its model states, and with a name in place of every extent of every input.
A case passes, is refused with an error of Legato's (at once, or when it is called with sizes that the model is for), or
is wrong: other results, or another error. `--compiled` compiles a case of each kind rather than interpret all.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import onnx

import legato
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, RunError
from legato.frontend.onnx import from_onnx
from legato.interp import evaluate
from legato.ir.module import Module
from tests.frontend.onnx import node_suite as suite
from tests.frontend.onnx.misses import miss

Verdict = Literal["passes", "refused", "called", "wrong"]  # called: refused when it is called


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one case, and why."""

    case: str
    operator: str
    verdict: Verdict
    why: str = ""


def operator(case: Any) -> str:
    """The operator that a case is of: its only one, or the one that its name tells."""
    names = {node.op_type for node in case.model.graph.node}
    return names.pop() if len(names) == 1 else case.name.removeprefix("test_")


def with_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a name for every extent of an input, and nothing said of the extents of its outputs."""
    named = onnx.ModelProto()
    named.CopyFrom(model)
    for value in named.graph.input:
        tensor = _tensor(value.type)
        for axis, dim in enumerate(tensor.shape.dim if tensor is not None else ()):
            dim.dim_param = f"{value.name}_{axis}"
    for value in named.graph.output:
        if (tensor := _tensor(value.type)) is not None:
            tensor.ClearField("shape")
    return named


def _tensor(proto: onnx.TypeProto) -> onnx.TypeProto.Tensor | None:
    """The tensor that a type is, or that its sequences and optional values hold."""
    while (kind := proto.WhichOneof("value")) in ("sequence_type", "optional_type"):
        proto = getattr(proto, kind).elem_type
    return proto.tensor_type if kind == "tensor_type" else None


def sized(feeds: Mapping[str, Any], model: onnx.ModelProto, *, named: bool) -> dict[str, Any]:
    """`shapes` for the sequences of a model: the extents of their elements, or names for these."""
    shapes = suite.shapes_of(model, feeds)
    if not named:
        return shapes
    return {
        name: [tuple(f"{name}_{n}_{axis}" for axis in range(len(shape))) for n, shape in enumerate(items)]
        for name, items in shapes.items()
    }


def survey(case: Any, *, named: bool, compiled: bool) -> Found:
    """What becomes of a case without constants."""
    model = with_names(case.model) if named else case.model

    def found(verdict: Verdict, why: object = "") -> Found:
        return Found(case.name, operator(case), verdict, str(why))

    for inputs, outputs in case.data_sets:
        feeds = dict(zip((v.name for v in model.graph.input), map(suite.array_of, inputs), strict=False))
        try:
            module = from_onnx(model, shapes=sized(feeds, model, named=named))
            run = legato.compile(module) if compiled else None
        except CompileError as error:
            return found("refused", f"{type(error).__name__}: {_reason(error)}")
        except Exception as error:  # what the survey is for
            return found("wrong", f"{type(error).__name__}: {error}")
        try:
            result = _results(module, run, feeds)
        except RunError as error:
            return found("called", f"in a call of {_sizes(feeds)}: {error}")
        except Exception as error:
            return found("wrong", f"{type(error).__name__} in a call of {_sizes(feeds)}: {error}")
        wanted = list(suite.leaves([suite.array_of(o) for o in outputs]))
        difference = suite.compare(list(suite.leaves(result)), wanted, case.rtol, case.atol)
        if difference is not None:
            return found("wrong", difference)
    return found("passes")


def _reason(error: CompileError) -> str:
    text = error.details[0] if error.details else error.message
    return text.strip().split(": ", 1)[-1] if error.details else text


def _sizes(feeds: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}{list(getattr(value, 'shape', []))}" for name, value in feeds.items())


def _results(module: Module, run: Any, feeds: Mapping[str, Any]) -> Any:
    args = [suite.argument(feeds[param.name], param.ty) for param in module["main"].params]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflow in the references is part of some cases
        if run is None:
            return evaluate(module, args)
        return run(*[leaf for arg in args for leaf in (arg if isinstance(arg, tuple) else (arg,))])


def supported() -> list[Any]:
    """The cases of what Legato has."""
    return [case for case in suite.cases() if miss(case.name) is None]


def counted(counts: Counter[Verdict]) -> str:
    """How many cases pass, and how many not."""
    called = f"{counts['called']} are refused when they are called, " if counts["called"] else ""
    refused = f"{counts['refused']} are refused, {called}{counts['wrong']} are wrong"
    return f"{counts['passes']} of {counts.total()} pass, {refused}"


def told(found: Iterable[Found]) -> str:
    """The counts, and what does not pass by operator and reason."""
    found = list(found)
    counts = Counter(f.verdict for f in found)
    lines = [counted(counts)]
    groups: dict[tuple[Verdict, str, str], list[str]] = defaultdict(list)
    for f in found:
        if f.verdict != "passes":
            groups[f.verdict, f.operator, f.why].append(f.case)
    for (verdict, name, why), cases in sorted(groups.items(), key=lambda item: (item[0][0] == "refused", item[0][1:])):
        lines.append(f"  {verdict}  {name} ({len(cases)}: {cases[0]}): {why}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the survey; 1 if a case is wrong, or needs constants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="of the names of cases")
    parser.add_argument("--compiled", action="store_true", help="compile a case of each kind")
    parser.add_argument("--json", type=Path, help="a file for all that was found")
    args = parser.parse_args(argv)
    few = {case.name for case in suite.kinds().values()} if args.compiled else None
    chosen = [c for c in supported() if re.search(args.pattern, c.name) and (few is None or c.name in few)]
    both = {
        "with the extents of the models": [survey(c, named=False, compiled=args.compiled) for c in chosen],
        "with a name for every extent": [survey(c, named=True, compiled=args.compiled) for c in chosen],
    }
    for title, found in both.items():
        print(f"{title}: {told(found)}")
    if args.json:
        args.json.write_text(json.dumps({t: [asdict(f) for f in found] for t, found in both.items()}, indent=1))
    stated, named = both.values()
    return int(any(f.verdict != "passes" for f in stated) or any(f.verdict not in ("passes", "refused") for f in named))


if __name__ == "__main__":
    raise SystemExit(main())
