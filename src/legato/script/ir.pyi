# Written by tools/script_stubs.py: change the module, then run that again.
# fmt: off
# ruff: noqa
import typing as _t

def ir_module(cls: _t.Any = ..., *, check_well_formed: _t.Any = ..., s_tir: _t.Any = ...) -> _t.Any:
    r"""`@I.ir_module` above a class: the module of its functions, which is checked in any case."""
def module_attrs(attrs: _t.Any) -> _t.Any:
    r"""Attributes of the module."""
def module_constants(arrays: _t.Any) -> _t.Any:
    r"""The arrays of the module's host functions, by their names: `{"w": R.const([1.0, 2.0], "float32")}`."""
