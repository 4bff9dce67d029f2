"""Writes `src/legato/script/{ir,relax,tir}.pyi`: what editors and type checkers know of `I`, `R` and `T`.

    .venv/bin/python -m tools.script_stubs

The names, their parameters and what is said of them come from the modules themselves. Stubs name nothing but `typing`,
so that a checker needs no other file of the package for a script.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from legato.ops import table
from legato.script.modules import graph_names, module_names, tensor_names
from legato.script.modules.evaluate import Namespace
from legato.script.modules.operators import OPERATORS, SAME, OpForm
from legato.script.modules.spelling import SPELT
from legato.script.modules.values import ReaderCall

__all__ = ["stub", "stubs", "write"]

FOLDER: Final = Path(__file__).parents[1] / "src/legato/script"
MODULES: Final[Mapping[str, ModuleType]] = {"ir": module_names, "relax": graph_names, "tir": tensor_names}
BLOCK: Final = "_t.ContextManager[_t.Any]"
LOOP: Final = "_t.Iterator[_t.Any]"
RESULTS: Final = {  # where a script needs more than Any
    "dataflow": BLOCK, "seq": BLOCK, "sblock": BLOCK, "block": BLOCK, "init": BLOCK, "check": BLOCK,
    "grid": LOOP, "serial": LOOP, "parallel": LOOP, "vectorized": LOOP, "unroll": LOOP,
}  # fmt: skip
HEAD: Final = """# Written by tools/script_stubs.py: change the module, then run that again.
# fmt: off
# ruff: noqa
import typing as _t
"""
CLASS: Final = "class {}:\n    def __new__(cls, *args: _t.Any, **named: _t.Any) -> _t.Any: ..."


def stubs() -> dict[str, str]:
    """The text of each stub by the name of its module."""
    return {name: stub(module) for name, module in MODULES.items()}


def stub(module: ModuleType) -> str:
    """The stub of a module of names."""
    parts = [HEAD]
    for name in sorted(n for n in module.__all__ if not keyword.iskeyword(n)):
        parts += _entry(name, getattr(module, name))
    return "\n".join(parts) + "\n"


def _entry(name: str, value: Any) -> Iterator[str]:
    """The lines for one name."""
    if isinstance(value, OpForm):
        yield _operator(name, name, "")
    elif isinstance(value, ReaderCall):
        yield _function(name, value.rule, skipped=1)
    elif inspect.isfunction(value):
        yield _function(name, value)
    elif isinstance(value, Namespace):
        yield from _namespace(name, value)
    elif isinstance(value, float):
        yield f"{name}: _t.Any"
    else:  # a type: an annotation, and what makes a value
        yield CLASS.format(name)


def _namespace(name: str, value: Namespace) -> Iterator[str]:
    """A class for what is reached by a dot."""
    members = [n for n in OPERATORS if n.startswith(f"{name}.")]
    yield f"class {name}:"
    yield from (_operator(n.partition(".")[2], n, "    ") for n in members)
    yield from (f"    {n}: _t.Any" for n in vars(value) if not n.startswith("_"))
    if not members and not any(not n.startswith("_") for n in vars(value)):
        yield "    def __class_getitem__(cls, name: str) -> _t.Any: ..."
        families = sorted({n.partition(".")[0] for n in table()})
        yield from (f"    {n}: _t.Any" for n in families if not keyword.iskeyword(n))


def _operator(name: str, full: str, indent: str) -> str:
    """A name of Relax; most take what the operator of the language takes that is called so."""
    mark = f"{indent}@staticmethod\n" if indent else ""
    op = table().get(full)
    doc = op.doc if op is not None and (full in SAME or full in SPELT) else ""
    if full in SAME and op is not None:
        params = ", ".join(f"{arg}: _t.Any" for arg in op.args)
        return mark + _with_doc(f"{indent}def {name}({params}, /) -> _t.Any:", doc, indent)
    return mark + _function(name, OPERATORS[full], skipped=1, indent=indent, doc=doc)


def _function(name: str, function: Callable[..., Any], *, skipped: int = 0, indent: str = "", doc: str = "") -> str:
    params = list(inspect.signature(function).parameters.values())[skipped:]
    listed = ", ".join(_parameter(p) for p in _marked(params))
    found = doc or (inspect.getdoc(function) or "")
    return _with_doc(f"{indent}def {name}({listed}) -> {RESULTS.get(name, '_t.Any')}:", found, indent)


def _with_doc(head: str, doc: str, indent: str) -> str:
    said = " ".join(doc.split("\n\n")[0].split())
    return f'{head}\n{indent}    r"""{said}"""' if said else f"{head} ..."


def _marked(params: list[inspect.Parameter]) -> Iterator[inspect.Parameter | None]:
    """Parameters, with None for the star in front of those that are named."""
    has_star = any(p.kind is p.VAR_POSITIONAL for p in params)
    for p in params:
        if p.kind is p.KEYWORD_ONLY and not has_star:
            yield None
            has_star = True
        yield p


def _parameter(p: inspect.Parameter | None) -> str:
    if p is None:
        return "*"
    star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
    return f"{star}{p.name}: _t.Any{' = ...' if p.default is not p.empty else ''}"


def write() -> None:
    """Writes the stubs."""
    for name, text in stubs().items():
        (FOLDER / f"{name}.pyi").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
