"""what of a model cannot be compiled, all of it at once

Reads an ONNX or Relay model, runs every stage that can refuse something, and compiles nothing. Exit code 1 if
anything is unsupported."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from legato.base.errors import ImportModelError, UnsupportedError
from legato.base.files import open_regular
from legato.cli import _arguments
from legato.cli._answer import NO, YES, Answer, Tell, counted, rows, size

if TYPE_CHECKING:
    from legato.frontend.onnx.census import Use
    from legato.ir.module import Module

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """MODEL and how it would be compiled."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="an .onnx, .pt2, .pt, .relay or .relax file")
    _arguments.add_compile(parser, threads=False)


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """Signature, contents and everything unsupported."""
    from legato.driver import is_onnx, require_path

    require_path(_arguments.program(args))
    tell("reading")
    data: dict[str, Any] = _onnx(args) if is_onnx(_arguments.program(args)) else {"unsupported": []}
    data = {"model": str(args.model), "sha256": _digest(args.model), **data}
    if not data["unsupported"]:
        data |= _below(_arguments.module(args), args, tell)
    return Answer(data, _text(data), NO if data["unsupported"] else YES)


def _digest(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ImportModelError(f"{path}: {error.strerror or error}") from None


def _onnx(args: argparse.Namespace) -> dict[str, Any]:
    from legato.frontend.onnx import check
    from legato.frontend.onnx.report import way_out

    report = check(
        args.model,
        shapes=_arguments.shapes(args),
        custom=_arguments.custom(args),
        constants=_arguments.constants(args),
    )
    return {
        "producer": report.producer,
        "ir_version": report.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in report.opsets.items()},
        "inputs": {name: str(ty) for name, ty in report.inputs.items()},
        "outputs": {name: None if ty is None else str(ty) for name, ty in report.outputs.items()},
        "nodes": report.nodes,
        "operators": dict(sorted(report.operators.items(), key=lambda item: (-item[1], item[0]))),
        "table": [_row(use) for use in report.table],
        "parameters": report.parameters,
        "weight_bytes": report.bytes,
        "help": way_out(report.unsupported),
        "unsupported": [
            {"node": u.node, "operator": u.operator, "domain": u.domain, "opset": u.opset, "reason": u.reason}
            for u in report.unsupported
        ],
    }


def _row(use: Use) -> dict[str, Any]:
    return {
        "domain": use.domain or "ai.onnx",
        "operator": use.operator,
        "opset": use.opset,
        "count": use.count,
        "supported": use.is_supported,
        "refused": use.refused,
        "reasons": list(use.reasons),
    }


def _below(mod: Module, args: argparse.Namespace, tell: Tell) -> dict[str, Any]:
    """What the stages below the frontend say: unsupported programs, operators without native code, packed functions."""
    from legato.driver import lower_module, main_function
    from legato.generators.external import require_generators
    from legato.ir.expr import Constant
    from legato.ir.visit import nodes
    from legato.runtime.outside import PackedCall
    from legato.transform.pass_ import Observer, run
    from legato.transform.read_programs import ReadPrograms

    main = main_function(mod)
    constants = {id(node): node.data for node in nodes(main) if isinstance(node, Constant)}
    found: dict[str, Any] = {
        "inputs": {p.name: str(p.ty) for p in main.params},
        "parameters": sum(data.size for data in constants.values()),
        "weight_bytes": sum(data.nbytes for data in constants.values()),
    }
    if "output_names" not in main.attrs:
        found["outputs"] = {"output": str(main.body.ty)}
    found |= {**_known(mod), "unreached": list(_unreached(mod))}
    options = _arguments.options(args, tell)
    found["as_written"] = list(_as_written(mod)) if ReadPrograms() in options.pipeline else []
    observer = Observer(progress=tell)
    try:
        tell("lowering")
        require_generators(mod)
        _, program = lower_module(run(mod, options.pipeline, observer), options, observer)
    except UnsupportedError as error:
        nowhere = {"node": "", "operator": "", "domain": "", "opset": 0}
        return {**found, "unsupported": [{**nowhere, "reason": text} for text in _reasons(error)]}
    called = {r.attrs.name: None for r in program.host_ops if isinstance(r.attrs, PackedCall)}
    by_reference = [r.op.name for r in program.host_ops if not r.is_outside]
    return {**found, "kernels": len(program.kernels), "by_reference": by_reference, "packed": [*called]}


def _known(mod: Module) -> dict[str, Any]:
    """What is proven of the program, and what its calls check."""
    from legato.lower.survey import survey

    known = survey(mod)
    checks = [{"what": what, "left": a, "right": b, "at": at} for what, a, b, at in known.checks]
    return {"accesses": dict(known.accesses), "checks": checks}


def _as_written(mod: Module) -> Iterator[dict[str, Any]]:
    """The tensor programs that are compiled as they are written, each with the reason."""
    from legato.transform._programs import unread

    for name, reason in unread(mod).items():
        yield {"program": name, "reason": reason}


def _unreached(mod: Module) -> Iterator[dict[str, Any]]:
    """The clauses of matches that no value comes to: those before them take all."""
    from legato.ir.exhaustive import show_pattern, unreached_clauses
    from legato.ir.expr import Match
    from legato.ir.visit import nodes

    for gv, func in mod.graph_functions():
        for match in (node for node in nodes(func) if isinstance(node, Match)):
            for clause in (match.clauses[n] for n in unreached_clauses(match, mod.types)):
                place = clause.pattern.span or match.span
                at = "" if place is None else str(place)
                yield {"function": gv.name, "pattern": show_pattern(clause.pattern), "at": at}


def _reasons(error: UnsupportedError) -> Sequence[str]:
    """What the error lists; one that has a place is about a single thing."""
    if error.span is None and error.details:
        return error.details
    return ("; ".join((error.message, *error.details)),)


def _text(data: dict[str, Any]) -> str:
    table = [("model", data["model"])]
    if "nodes" in data:
        opsets = ", ".join(f"{domain} {version}" for domain, version in data["opsets"].items())
        table += [("operators", f"{data['nodes']} nodes of {opsets}")]
    table += [("inputs" if not n else "", f"{k}: {v}") for n, (k, v) in enumerate(data.get("inputs", {}).items())]
    outputs = data.get("outputs", {}).items()
    table += [("outputs" if not n else "", f"{k}: {v or 'unknown'}") for n, (k, v) in enumerate(outputs)]
    if "parameters" in data:
        table += [("weights", f"{data['parameters']} parameters, {size(data['weight_bytes'])}")]
    if "accesses" in data:
        table += [("accesses", ", ".join(f"{n} {how}" for how, n in data["accesses"].items()))]
    checks = [f"{c['left']} = {c['right']}: {c['what']}{c['at'] and ', at ' + c['at']}" for c in data.get("checks", ())]
    table += [("each call checks" if not n else "", text) for n, text in enumerate(checks)]
    dead = [f"{c['pattern']} in @{c['function']}{c['at'] and ', at ' + c['at']}" for c in data.get("unreached", ())]
    table += [("never reached" if not n else "", f"clause {text}") for n, text in enumerate(dead)]
    programs = [f"@{p['program']}: {p['reason']}" for p in data.get("as_written", ())]
    table += [("as written" if not n else "", text) for n, text in enumerate(programs)]
    return "\n".join([rows(table), *_operators(data.get("table", ())), *_verdict(data)])


def _operators(table: Sequence[dict[str, Any]]) -> list[str]:
    """The operators, a line each: those that are refused first, with the reasons, then what there is most of."""
    if not table:
        return []
    lines = [("domain", "operator", "opset", "nodes", "supported")]
    lines += [(u["domain"], u["operator"], str(u["opset"] or "-"), str(u["count"]), _supported(u)) for u in table]
    return ["", rows(lines, right=(2, 3)), ""]


def _supported(use: dict[str, Any]) -> str:
    if use["supported"]:
        return "yes"
    first, *rest = map(str, use["reasons"])
    more = f", and {counted(len(rest), 'reason')} more" if rest else ""
    return (
        ("no: " if use["refused"] >= use["count"] else f"not {use['refused']} of them: ")
        + shorten(first, 90, placeholder=" …")
        + more
    )


def _verdict(data: dict[str, Any]) -> list[str]:
    if not data["unsupported"]:
        slow = data["by_reference"]
        names = f": {', '.join(dict.fromkeys(slow))}" if slow else ""
        by_reference = f"{counted(len(slow), 'operator')} run by their reference"
        packed = f" It calls the packed functions {', '.join(data['packed'])}." if data["packed"] else ""
        return [f"It can be compiled, to {counted(data['kernels'], 'kernel')}; {by_reference}{names}.{packed}"]
    lines = [
        "  " + (f"{u['node']}: {u['domain'] or 'ai.onnx'}.{u['operator']}: {u['reason']}" if u["node"] else u["reason"])
        for u in data["unsupported"]
    ]
    lines.insert(0, f"It cannot be compiled: {counted(len(lines), 'reason')}")
    if data.get("table"):
        lines.append("Nodes behind what is refused are checked for their operators and attributes only.")
    return [*lines, *([f"hint: {data['help']}"] if data.get("help") else [])]
