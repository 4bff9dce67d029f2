"""The pages of operators, written from their records: docs/ops, a page for each file of operators, and docs/onnx.md.

python -m tools.docs_ops            writes them
python -m tools.docs_ops --check    says which are not as they would be written
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, get_args, get_origin

import numpy as np

import legato.ops
from legato.arith.expr import Expr as Dim
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import LegatoError
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.attr_types import field_types
from legato.ir.attrs import make_attrs
from legato.ir.op import Op, Sample
from legato.ir.types import TensorType, TupleType, Type, tensor_type
from tools.docs_onnx import onnx_page

__all__ = ["families", "main", "meanings", "pages"]

ROOT = Path(__file__).parents[1]
WRITTEN = "<!-- written by `python -m tools.docs_ops` from the records -->"
# dtypes of the first operand that are tried, in the order in which they are listed
_TRIED = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "bfloat16", "float32", "float64")  # fmt: skip
_FIELD = r"`?[a-z_]\w*`?"
_MEANING = re.compile(rf"(?:^|(?<=[;.]\s)|(?<=\n))({_FIELD}(?:(?:,\s| and ){_FIELD})*):\s")
_OTHER = re.compile(r"\bAs ([A-Z]\w*Attrs)\b")


# ------------------------------------------------------------------------------- records


def families() -> Mapping[str, tuple[ModuleType, Sequence[Op]]]:
    """The files of operators by name, each with its module and its operators in the order of their names."""
    found = {}
    for info in iter_modules(legato.ops.__path__):
        if info.name.startswith("_"):
            continue
        module = import_module(f"legato.ops.{info.name}")
        imported = _imported(module)
        own = {v.name: v for k, v in vars(module).items() if isinstance(v, Op) and k not in imported}
        if own:
            found[info.name] = (module, [own[name] for name in sorted(own)])
    return found


def _imported(module: ModuleType) -> set[str]:
    """The names that a file has from other files."""
    froms = (node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ImportFrom))
    return {alias.asname or alias.name for node in froms for alias in node.names}


@cache
def meanings(record: type) -> Mapping[str, str]:
    """What each attribute of a record means, by its docstring and those that this one names: "`axis`: the channels".

    Of a record that has one attribute, the docstring is its meaning.
    """
    found: dict[str, str] = {}
    known = {f.name for f in fields(record)}
    for other in _related(record):
        text = inspect.cleandoc(other.__doc__ or "")
        alone = fields(other)[0].name if len(fields(other)) == 1 else ""
        for names, meaning in _entries(text) or [([alone], text.rstrip("."))]:
            for name in known.intersection(names):
                found.setdefault(name, meaning)
    return found


def _related(record: type) -> Iterator[type]:
    """A record, those that it is made from, and those that their docstrings mention."""
    seen, left = set[type](), [c for c in record.__mro__ if is_dataclass(c)]
    while left:
        found = left.pop(0)
        if found in seen:
            continue
        seen.add(found)
        yield found
        left += [c for name in _OTHER.findall(found.__doc__ or "") if (c := _records().get(name)) is not None]


@cache
def _records() -> Mapping[str, type]:
    """The attribute records by their names."""
    found = (value for module, _ in families().values() for value in vars(module).values())
    return {v.__name__: v for v in found if isinstance(v, type) and issubclass(v, Attrs)}


def _entries(text: str) -> list[tuple[list[str], str]]:
    parts = _MEANING.split(text)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return [
        (re.findall(r"\w+", names.replace(" and ", " ")), " ".join(text.split()).rstrip(";.,")) for names, text in pairs
    ]


# ------------------------------------------------------------------------------- one operator


def _signature(op: Op) -> str:
    parts = list(op.args)
    if op.attrs is not None:
        parts += [] if op.args and op.args[-1].startswith("*") else ["*"] * bool(op.args)
        parts += [f.name + ("" if _default(f) is MISSING else f"={_shown(_default(f))}") for f in fields(op.attrs)]
    return f"{op.name}({', '.join(parts)})"


def _default(f: Any) -> Any:
    return f.default_factory() if f.default_factory is not MISSING else f.default


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str | dt.DType) else str(value)


_WORDS = {Dim: "dim", type(None): "None", dt.DType: "dtype"}


def _kind(wanted: Any) -> str:
    """An annotation in words."""
    args = get_args(wanted)
    if not args:
        return _WORDS.get(wanted) or str(getattr(wanted, "__name__", wanted))
    if get_origin(wanted) is tuple:
        inner = [_kind(a) for a in args if a is not Ellipsis]
        return f"tuple of {inner[0]}" if Ellipsis in args else f"({', '.join(inner)})"
    kinds = dict.fromkeys(_kind(a) for a in args)
    return " or ".join(sorted(kinds, key=lambda kind: kind == "None"))


def _attributes(op: Op) -> list[str]:
    if op.attrs is None:
        return []
    kinds, means = field_types(op.attrs), meanings(op.attrs)
    lines = ["", "| attribute | holds | default | meaning |", "|---|---|---|---|"]
    for f in fields(op.attrs):
        default = _default(f)
        shown = "required" if default is MISSING else f"`{_shown(default)}`"
        lines.append(f"| `{f.name}` | {_kind(kinds.get(f.name, Any))} | {shown} | {cell(means.get(f.name, ''))} |")
    return lines


def cell(text: str) -> str:
    """A text within a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _type(arg: Any) -> Type:
    """The type of an argument of a sample: an array, a shape and a dtype, or a tuple of such."""
    if isinstance(arg, np.ndarray | np.generic):
        return tensor_type(arg.shape, dt.dtype(arg.dtype))
    if isinstance(arg[-1], str):
        return tensor_type(*arg)
    return TupleType(tuple(map(_type, arg)))


def _typed(op: Op, types: Sequence[Type], sample: Sample) -> tuple[list[Type], Type | None] | None:
    """The types of a call's arguments and of its result; None where it is refused."""
    given: list[Type] = list(types)
    if op.args and op.args[-1].startswith("*"):
        fixed = len(op.args) - 1
        given = [*given[:fixed], TupleType(tuple(given[fixed:]))]
    b = Builder()
    try:
        call = b.call_op(op, [b.var(f"x{n}", t) for n, t in enumerate(given)], make_attrs(op, sample.attrs))
    except (LegatoError, KeyError, TypeError, ValueError):
        return None
    return given, call.ty


def _example(op: Op) -> str:
    """The types of the first sample whose operands have elements."""
    for sample in op.samples:
        types = [_type(arg) for arg in sample.args]
        if all("(0" not in str(t) and ", 0" not in str(t) for t in types) and (made := _typed(op, types, sample)):
            args = ", ".join(str(t) for t in made[0])
            attrs = "".join(f", {k}={_literal(v)}" for k, v in sample.attrs.items() if len(str(v)) < 60)
            return f"`({args}{attrs.removeprefix('' if args else ', ')}) -> {made[1]}`"
    return ""


def _literal(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else _shown(value)


def _dtypes(op: Op) -> list[str]:
    """The dtypes of the first operand that a sample is typed with, where the operands that have its dtype follow it."""
    found = []
    for name in _TRIED:
        for sample in op.samples:
            types = [_type(arg) for arg in sample.args]
            if not types or not isinstance(types[0], TensorType):
                continue
            if _typed(op, [_changed(t, types[0].dtype, dt.dtype(name)) for t in types], sample) is not None:
                found.append(name)
                break
    return found


def _changed(ty: Type, old: DType, new: DType) -> Type:
    return TensorType(ty.shape, new) if isinstance(ty, TensorType) and ty.dtype == old else ty


def _gradient(op: Op) -> str:
    if op.grad is not None:
        return "by a rule of its own"
    if op.expand is not None:
        return "that of the operators that it is made of"
    return "none: what flows back through it is 0, or is refused"


def _compiled(op: Op) -> str:
    if op.compute is not None:
        return "loops of its own"
    if op.expand is not None:
        return "the operators that it is made of"
    return "its reference, on the host"


def _operator(op: Op) -> list[str]:
    lines = [f"## {op.name}", "", "```", _signature(op), "```", "", op.doc.strip(), *_attributes(op), ""]
    if example := _example(op):
        lines.append(f"- for example {example}")
    if op.args and (dtypes := _dtypes(op)):
        shown = "any" if len(dtypes) == len(_TRIED) else ", ".join(dtypes)
        lines.append(f"- dtypes of `{op.args[0].lstrip('*')}`: {shown}")
    return [*lines, f"- compiled to {_compiled(op)}", f"- gradient: {_gradient(op)}", ""]


# ------------------------------------------------------------------------------- pages


def _page(name: str, module: ModuleType, ops: Sequence[Op]) -> str:
    title, _, rest = inspect.cleandoc(module.__doc__ or "").partition("\n\n")
    source = f"[src/legato/ops/{name}.py](../../src/legato/ops/{name}.py)"
    lines = [
        f"# {' '.join(title.split()).rstrip('.')}",
        "",
        WRITTEN,
        "",
        f"Source: {source}; [all operators](README.md).",
    ]
    lines += ["", rest] if rest else []
    return "\n".join([*lines, "", *(line for op in ops for line in _operator(op))]).rstrip() + "\n"


def _index(found: Mapping[str, tuple[ModuleType, Sequence[Op]]]) -> str:
    count = sum(len(ops) for _, ops in found.values())
    intro = (
        f"{count} operators by family, a file each. [One of your own](../operators.md); [those of ONNX](../onnx.md)."
    )
    lines = ["# Operators", "", WRITTEN, "", intro, "", "| family | operators |", "|---|---|"]
    for name, (_, ops) in found.items():
        links = ", ".join(f"[{op.name}]({name}.md#{_anchor(op.name)})" for op in ops)
        lines.append(f"| [{name}]({name}.md) | {links} |")
    return "\n".join(lines) + "\n"


def _anchor(name: str) -> str:
    return name.lower().replace(".", "")


def pages() -> Mapping[Path, str]:
    """Every page that is written, and its text."""
    found, folder = families(), ROOT / "docs" / "ops"
    made = {folder / f"{name}.md": _page(name, module, ops) for name, (module, ops) in found.items()}
    return {**made, folder / "README.md": _index(found), ROOT / "docs" / "onnx.md": onnx_page(WRITTEN)}


def stale(made: Mapping[Path, str]) -> list[Path]:
    """The pages that are not as they would be written, and those that would not be."""
    old = [p for p, text in made.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    return sorted({*old, *(p for p in (ROOT / "docs" / "ops").glob("*.md") if p not in made)})


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the pages, or with --check says which are stale."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs_ops", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page is not current")
    check, made = parser.parse_args(argv).check, pages()
    old = stale(made)
    for path in old:
        print(path.relative_to(ROOT))
        if not check and path in made:
            path.parent.mkdir(exist_ok=True)
            path.write_text(made[path], encoding="utf-8")
        elif not check:
            path.unlink()
    return int(check and bool(old))


if __name__ == "__main__":
    sys.exit(main())
