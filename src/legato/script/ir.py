"""`I`: the names of modules in scripts. `from legato.script import ir as I`

They are defined in `modules.module_names`; `ir.pyi`, which `tools/script_stubs.py` writes, tells editors of them.
"""

from legato.script.modules import module_names as _names
from legato.script.modules.module_names import *  # noqa: F403  # whose `__all__` names them

SCRIPT_NAME = _names.SCRIPT_NAME
__all__ = _names.__all__
