"""Files of torch.export (.pt2), checked before PyTorch reads them: its own reader runs code that a file may hold.

Four ways are known: tensors and sample inputs may be pickles, sizes are expressions that SymPy evaluates as Python, the
target of a node may be any function of PyTorch, and the structures of arguments import the modules of their enums and
factories. A file is read only if it has no pickle beyond plain tensors, every expression consists of symbols, numbers
and known functions, every target is an operator, and no structure names a module.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

import torch

from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.torch.limits import MAX_ENTRIES, MAX_JSON

__all__ = ["load_program", "names_module"]

_OWN: Final = re.compile(
    r"archive_format|archive_version|byteorder|\.data/\w+|models/\w+\.json|data/sample_inputs/\w+\.pt"
    r"|data/(weights/weight|constants/tensor)_\d+|data/(weights|constants)/\w+_config\.json|extra/[\w./-]+"
)
_TARGET: Final = re.compile(
    r"torch\.ops\.\w+(\.\w+)+|_operator\.(add|sub|mul|floordiv|truediv|mod|pow|neg|pos|lt|le|gt|ge|eq|ne|and_|or_|getitem)"
    r"|math\.(sqrt|floor|ceil|trunc|log|log2|exp|pow)"
    r"|torch\.sym_(float|int|max|min|not|sqrt|sum|ite|fresh_size)|torch\._sym_sqrt"
)
_MODULES: Final = ("__enum__", "default_factory_module")  # keys of a structure with which PyTorch imports one
_SYMBOL: Final = r"[suzf]\d+"
_NAMES: Final = (
    "FloorDiv|ModularIndexing|PythonMod|Mod|CleanDiv|IntTrueDiv|FloatTrueDiv|ToFloat|TruncToInt|CeilToInt|FloorToInt"
    "|RoundToInt|PowByNatural|FloatPow|Max|Min|Eq|Ne|Lt|Le|Gt|Ge|And|Or|Not|Where|OpaqueUnaryFn_sqrt"
    "|Symbol|Integer|Float|Rational|Add|Mul|Pow|true|false|Equality|Unequality|StrictLessThan|LessThan"
    "|StrictGreaterThan|GreaterThan|precision|positive|nonnegative|integer|real|True|False"
)
_EXPRESSION: Final = re.compile(
    rf"(({_SYMBOL}|'{_SYMBOL}'|'\d+(\.\d*)?(e[+-]?\d+)?'|{_NAMES}|\d+(\.\d*)?(e[+-]?\d+)?)(?!\w)|[-+*/%(),<>=&|~! ])+"
)


def load_program(path: str | os.PathLike[str]) -> torch.export.ExportedProgram:
    """The program in a .pt2 file that is safe to read.

    ImportModelError for what is no such file, UnsupportedError for one that holds what could run code.
    """
    with open(path, "rb") as file:  # one open file: what is checked is what is read
        data = file.read()
    name = os.fspath(path)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check(archive, name)
    except (zipfile.BadZipFile, ValueError, RuntimeError) as error:  # no JSON, nested too deep, encrypted
        raise ImportModelError(f"{name} is no archive of torch.export: {error}") from None
    try:
        return torch.export.load(io.BytesIO(data))
    except Exception as error:
        raise ImportModelError(f"{name}: PyTorch does not read it: {error}") from error


def _check(archive: zipfile.ZipFile, name: str) -> None:
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise ImportModelError(f"{name}: {len(entries)} entries; at most {MAX_ENTRIES} are accepted")
    for entry in entries:
        inner = "/".join(PurePosixPath(entry.filename).parts[1:])
        if entry.compress_type != zipfile.ZIP_STORED:
            raise UnsupportedError(
                f"{name}: the entry {entry.filename} is compressed", hint="torch.export.save does not"
            )
        if not _OWN.fullmatch(inner):
            raise _refused(name, f"the entry {inner!r}")
        if inner.endswith(".json") and entry.file_size <= MAX_JSON:
            _check_json(json.loads(archive.read(entry)), name)
        elif inner.endswith(".json"):
            raise ImportModelError(f"{name}: {inner} has {entry.file_size} bytes; at most {MAX_JSON} are accepted")
        elif inner.startswith("data/sample_inputs/"):
            _check_pickle(archive.read(entry), name)


def _refused(name: str, what: str) -> UnsupportedError:
    hint = "if you trust the file: legato.compile(torch.export.load(path))"
    return UnsupportedError(f"{name}: {what} could run code when PyTorch reads it", hint=hint)


def _check_pickle(data: bytes, name: str) -> None:
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except Exception:
        raise _refused(name, "the sample inputs hold more than tensors, which") from None


def _check_json(tree: Any, name: str) -> None:
    """Refuses expressions, targets and pickles that are not of the known forms."""
    for key, value in _items(tree):
        if key == "expr_str" and not (isinstance(value, str) and _EXPRESSION.fullmatch(value)):
            raise _refused(name, f"the size {value!r:.80}")
        if key in ("target", "as_operator") and _is_function(value) and not _TARGET.fullmatch(value):
            raise _refused(name, f"the operator {value!r:.80}")
        if key in _MODULES:
            raise _refused(name, "a structure with an enum or a factory")
        if key == "use_pickle" and value:
            raise _refused(name, "a tensor that is a pickle")
        if key == "range_constraints" and isinstance(value, dict):
            wrong = next((k for k in value if not re.fullmatch(_SYMBOL, k)), None)
            if wrong is not None:
                raise _refused(name, f"the symbol {wrong!r:.80}")


def names_module(tree: Any) -> bool:
    """Whether PyTorch imports a module that is named in the structure of arguments or results, as JSON, when it reads
    it: those of enums and factories."""
    return any(key in _MODULES for key, _ in _items(tree))


def _is_function(value: Any) -> bool:
    """Whether PyTorch looks up a name; weights have targets, too, which are names in the module."""
    return isinstance(value, str) and value.startswith(("torch", "_operator", "math", "#"))


def _items(tree: Any) -> Iterator[tuple[str, Any]]:
    """The keys and values of all objects in a JSON value, and in JSON that is a string in it; iterative."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield from node.items()
            stack += node.values()
        elif isinstance(node, list):
            stack += node
        elif isinstance(node, str) and node.lstrip()[:1] in ("{", "[", '"'):
            with contextlib.suppress(json.JSONDecodeError):
                stack.append(json.loads(node))
