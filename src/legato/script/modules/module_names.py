"""`I`: the names of modules in scripts. `from legato.script import ir as I`

@I.ir_module
class Module:
    @T.prim_func
    def kernel(…): …

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        cls = Module
        return R.call_tir(cls.kernel, (x,), out_sinfo=R.Tensor(("n",), "float32"))
"""

from __future__ import annotations

from typing import Any, Final

from legato.ir.module import Module
from legato.script.modules.heads import ModuleAttributes, ModuleConstants
from legato.script.modules.module import ir_module as _ir_module

SCRIPT_NAME: Final = "I"
__all__ = ["ir_module", "module_attrs", "module_constants"]


def ir_module(cls: Any = None, *, check_well_formed: bool = True, s_tir: bool = True) -> Module | Any:
    """`@I.ir_module` above a class: the module of its functions, which is checked in any case."""
    return _ir_module if cls is None else _ir_module(cls)


def module_attrs(attrs: Any) -> ModuleAttributes:
    """Attributes of the module."""
    return ModuleAttributes(dict(attrs))


def module_constants(arrays: Any) -> ModuleConstants:
    """The arrays of the module's host functions, by their names: `{"w": R.const([1.0, 2.0], "float32")}`."""
    return ModuleConstants(dict(arrays))
