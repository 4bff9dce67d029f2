"""The tables of docs/migration*.md, from the .tsv files here and from what the package has.

python tests/relay/migration.py        writes them into the pages
"""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from legato import relay
from legato.relay.op import _functions
from legato.testing import MODELS

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENTS = tuple(DOCS / f"{name}.md" for name in ("migration", "migration_running", "migration_names"))
NAMES = Path(__file__).with_name("names.tsv")
OPERATORS = Path(__file__).with_name("operators.tsv")
TVMC = Path(__file__).with_name("tvmc.tsv")
REGISTRIES = Path(__file__).with_name("registries.tsv")


def rows_of(file: Path) -> list[list[str]]:
    """The rows of a file of columns."""
    return [line.split("\t") for line in file.read_text().splitlines() if not line.startswith("#")]


def names() -> str:
    """The table of names."""
    rows = rows_of(NAMES)
    lines = ["| TVM | here | what differs |", "|---|---|---|"]
    for name, here, difference in rows:
        lines.append(f"| `tvm.{name}` | {'not here' if here == '-' else f'`{here}`'} | {difference} |")
    return "\n".join(lines)


def tvmc() -> str:
    """The table of tvmc's options."""
    lines = ["| `tvmc` | options | here | what differs |", "|---|---|---|---|"]
    for verb, options, here, difference in rows_of(TVMC):
        named = ", ".join(f"`{option}`" for option in options.split(", "))
        lines.append(f"| {verb} | {named} | {'–' if here == '-' else f'`{here}`'} | {difference} |")
    return "\n".join(lines)


def registries() -> str:
    """The table of registries and strategies."""
    lines = ["| TVM | here | what differs |", "|---|---|---|"]
    for names, here, difference in rows_of(REGISTRIES):
        named = names if names.startswith("(") else ", ".join(f"`{name}`" for name in names.split(", "))
        lines.append(f"| {named} | {'–' if here == '-' else here} | {difference} |")
    return "\n".join(lines)


def operators() -> dict[str, str]:
    """The operators of the original, and why one is not here; "": it is."""
    lines = (line for line in OPERATORS.read_text().splitlines() if not line.startswith("#"))
    return {name: reason for name, _, reason in (line.partition("\t") for line in lines)}


def absent() -> str:
    """The table of operators that are not here, those with one reason in a row."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in operators().items():
        if reason:
            by_reason.setdefault(reason, []).append(f"`{name}`")
    rows = [f"| {', '.join(names)} | {reason} |" for reason, names in by_reason.items()]
    return "\n".join(["| operators | what they are |", "|---|---|", *rows])


def lists() -> str:
    """Everything public, by where it is."""
    parts = {
        "`relay`": [n for n in relay.__all__ if n[0].isupper() or n in ("bind", "const", "var", "parse", "fromtext")],
        "`relay.analysis`": relay.analysis.__all__,
        "`relay.dataflow_pattern`": relay.dataflow_pattern.__all__,
        "`relay.transform`": relay.transform.__all__,
        "`relay.testing`, models": MODELS,
        "Operators of `relay`": [*_functions.names(), *relay.op.reduce.__all__, *relay.op.transform.__all__],
        "Operators of `relay.nn`": [*_functions.names("nn."), *relay.nn.__all__],
        "Operators of `relay.qnn`": [*_functions.names("qnn."), "requantize_config"],
        "Operators of `relay.image`": _functions.names("image."),
        "Operators of `relay.random`": [*_functions.names("random."), "threefry_key"],
        "Operators of `relay.annotation`": _functions.names("annotation."),
    }
    return "\n\n".join(
        fill(f"**{title}**: " + " ".join(f"`{n}`" for n in sorted(set(listed))), 120, break_on_hyphens=False)
        for title, listed in parts.items()
    )


def written(text: str) -> str:
    """A page with its tables as they should be."""
    tables = {"names": names, "operators": absent, "tvmc": tvmc, "registries": registries, "lists": lists}
    for key, make in tables.items():
        before, mark, after = text.partition(f"<!-- {key} -->")
        if mark:
            text = f"{before}{mark}\n\n{make()}\n\n<!-- end -->{after.split('<!-- end -->', 1)[1]}"
    return text


if __name__ == "__main__":
    for page in DOCUMENTS:
        page.write_text(written(page.read_text()))
