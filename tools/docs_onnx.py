"""The page of ONNX operators, written from the importer's converters: versions, attributes, limits."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import onnx.defs
from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime

from legato.frontend.onnx.control import CONTROL
from legato.frontend.onnx.report import why_absent
from legato.frontend.onnx.signature import Converter, Signature, signature, table

__all__ = ["onnx_page"]

_INTRO = """\
The operators that models may have, as the importer's converters declare them: the operator sets in which the meaning of
each changed, its inputs (those with `?` may be left out) and its attributes, both as of the newest. Any other attribute
of a node is refused, by name. `legato check MODEL` says which operators a model has, and which of its nodes cannot be
compiled and why. An operator set newer than the last that is named means the last. Where answers are others than ONNX
Runtime's, and why: [differences](onnx_differences.md)."""


_ABSENT = """\
Operators that the installed onnx declares and that have no converter, unless a model gives one its meaning (a function
of the model, `custom=`)."""


@cache
def _schemas() -> Mapping[tuple[str, str], Sequence[Any]]:
    """The versions of every operator that the installed onnx knows, oldest first; keys: those of `signature.table`."""
    found: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name.lower()), []).append(schema)
    return {key: sorted(versions, key=lambda s: s.since_version) for key, versions in found.items()}


@cache
def _spellings() -> Mapping[tuple[str, str], str]:
    """How the installed onnx and ONNX Runtime spell the operators that they know; keys: those of `signature.table`."""
    registered = {(s.domain, s.name.lower()): str(s.name) for s in onnxruntime.get_all_operator_schema()}
    return registered | {key: str(versions[-1].name) for key, versions in _schemas().items()}


def _name(key: tuple[str, str], function: Converter) -> str:
    """An operator as models spell it; one that nothing knows as the words of its converter."""
    if key in _spellings():
        return _spellings()[key]
    words = [word for word in function.__name__.split("_") if word and not word.isdigit()]
    return "".join(word[:1].upper() + word[1:] for word in words)


def _versions(key: tuple[str, str], since: Sequence[int]) -> str:
    """The operator sets: all, or from which one on; and where its meaning changed."""
    known = [s.since_version for s in _schemas().get(key, ())]
    first = max(min(since), known[0] if known else 1)
    shown = [str(v) for v in known if v >= first] or [str(v) for v in sorted(since)]
    missing = [str(v) for v in known if v < first]
    return ", ".join(shown) + (f" (not {', '.join(missing)})" if missing else "")


def _inputs(found: Signature) -> str:
    names = [name + ("?" if n >= found.required else "") for n, name in enumerate(found.inputs)]
    return ", ".join([*names, *(["…"] if found.variadic else [])])


def _attributes(key: tuple[str, str], found: Signature) -> str:
    known = ", ".join(f"`{name}`" for name in found.attributes)
    schema = _schemas().get(key)
    refused = [name for name in (schema[-1].attributes if schema else ()) if name not in found.attributes]
    return "; ".join([*([known] if known else []), *([f"refused: {', '.join(refused)}"] if refused else [])])


def _notes(versions: Sequence[tuple[int, Converter]]) -> Iterator[str]:
    for since, function in versions:
        text = " ".join(inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].split())
        if text:
            yield text if len(versions) == 1 else f"{since}: {text}"


def _row(key: tuple[str, str], versions: Sequence[tuple[int, Converter]]) -> tuple[str, str]:
    newest = signature(versions[0][1])
    name, sets = _name(key, versions[0][1]), _versions(key, [v for v, _ in versions])
    notes = "<br>".join(_notes(versions)).replace("|", "\\|")
    return name, f"| {name} | {sets} | {_inputs(newest)} | {_attributes(key, newest)} | {notes} |"


_TABLE = ["| operator | operator sets | inputs | attributes | notes |", "|---|---|---|---|---|"]


def _domain(domain: str) -> list[str]:
    rows = dict(_row(key, versions) for key, versions in table().items() if key[0] == domain)
    rows |= {key[1]: _control_row(key) for key in CONTROL if key[0] == domain}
    shown = [rows[name] for name in sorted(rows)]
    return [f"## {_heading(domain)}", "", f"{len(rows)} operators.", "", *_TABLE, *shown, ""]


def _heading(domain: str) -> str:
    return domain or "ai.onnx (the default domain)"


def _contents(headings: Iterable[str]) -> str:
    """Links to the parts of the page, by the anchors that their headings have."""
    return " · ".join(f"[{h}](#{re.sub('[^a-z ]', '', h.lower()).replace(' ', '-')})" for h in headings)


def _control_row(key: tuple[str, str]) -> str:
    """The row of an operator whose attributes are graphs."""
    domain, name = key
    schema = _schemas()[domain, name.lower()]
    inputs, known = (
        ", ".join(names) for names in ([i.name for i in schema[-1].inputs], map(_code, schema[-1].attributes))
    )
    note = " ".join(inspect.cleandoc(CONTROL[key].__doc__ or "").split())
    return f"| {name} | {', '.join(str(s.since_version) for s in schema)} | {inputs} | {known} | {note} |"


def _code(name: str) -> str:
    return f"`{name}`"


def _absent() -> list[str]:
    """The operators of the installed onnx that have no converter."""
    by_reason: dict[str, list[str]] = {}
    for key, versions in _schemas().items():
        newest = versions[-1]
        if key not in table() and (key[0], newest.name) not in CONTROL and not newest.deprecated:
            name = f"{newest.domain}.{newest.name}" if newest.domain else str(newest.name)
            by_reason.setdefault(why_absent(newest.domain, newest.name), []).append(name)
    lines = [f"- {reason}: {', '.join(sorted(names))}" for reason, names in sorted(by_reason.items())]
    return ["## Not imported", "", _ABSENT, "", *(lines or ["None."])]


def onnx_page(written: str) -> str:
    """docs/onnx.md; `written` says who has written it."""
    domains = sorted({domain for domain, _ in (*table(), *CONTROL)})
    lines = [
        "# ONNX operators",
        "",
        written,
        "",
        _INTRO,
        "",
        _contents([*map(_heading, domains), "Not imported"]),
        "",
        *(line for d in domains for line in _domain(d)),
        *_absent(),
    ]
    return "\n".join(lines).rstrip() + "\n"
