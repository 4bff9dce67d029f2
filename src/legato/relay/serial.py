"""Modules as JSON, with everything in them: types, spans, sharing, constants."""

from __future__ import annotations

from legato.ir.json_load import load_json as load
from legato.ir.json_save import save_json as save
from legato.ops import table
from legato.relay.module import IRModule

__all__ = ["load_json", "save_json"]


def save_json(mod: IRModule) -> str:
    """The module as JSON. (Another form than TVM's node graphs, which are read and not written.)"""
    return save(mod.module)


def load_json(json_str: str) -> IRModule:
    """The module that `save_json` wrote, or TVM's (0.10 to 0.19); ParseError or VerifyError for another text."""
    return IRModule(load(json_str, ops=table()))
