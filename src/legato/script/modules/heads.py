"""What a module's class has beside functions: data types, attributes, arrays of host functions."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.ir.expr import Constant
from legato.script.modules.data_types import data_types
from legato.script.modules.graph import GraphReader
from legato.script.modules.names import DataType
from legato.script.modules.types import DataTypeForm

__all__ = ["Heads", "ModuleAttributes", "ModuleConstants", "is_definition", "read_heads"]


@dataclass(frozen=True, slots=True)
class ModuleAttributes:
    """`I.module_attrs({…})`."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModuleConstants:
    """`I.module_constants({…})`."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Heads:
    """Data types by their names in the script, attributes, and arrays by name."""

    types: Mapping[str, DataType] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)


def is_definition(s: ast.stmt) -> bool:
    """`List = R.data_type(…)`."""
    is_one = isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name)
    return is_one and isinstance(s.value, ast.Call)  # type: ignore[attr-defined]  # of an Assign


def read_heads(reader: GraphReader, stmts: Sequence[ast.stmt], functions: Sequence[str]) -> Heads:
    """What the statements of a class define; `functions` are names that are taken."""
    forms: dict[str, DataTypeForm] = {}
    attrs: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    for s in stmts:
        assert isinstance(s, ast.Expr | ast.Assign)
        found = reader.value(s.value)
        target = s.targets[0] if isinstance(s, ast.Assign) else None
        with reader.at(s):
            if isinstance(found, DataTypeForm) and isinstance(target, ast.Name):
                if target.id in (*functions, *forms):
                    raise TypeCheckError(f"two things are called {target.id}")
                forms[target.id] = found
            elif isinstance(found, ModuleAttributes) and target is None:
                attrs |= found.values
            elif isinstance(found, ModuleConstants) and target is None:
                constants |= {name: _array(reader, value) for name, value in found.values.items()}
            else:
                hint = "List = R.data_type({…}), I.module_attrs({…})"
                raise UnsupportedError("a module has functions, data types and attributes", hint=hint)
    if not forms:
        return Heads({}, attrs, constants)
    with reader.at(next(s for s in stmts if isinstance(s, ast.Assign))):
        return Heads(data_types(forms), attrs, constants)


def _array(reader: GraphReader, value: Any) -> Any:
    made = reader.expr(value)
    if not isinstance(made, Constant):
        raise TypeCheckError(f"{reader.described(value)} is no array", hint="R.const(…)")
    return made.data
