"""`T`: the names of tensor programs in scripts. `from legato.script import tir as T`

They are defined in `modules.tensor_names`; `tir.pyi`, which `tools/script_stubs.py` writes, tells editors of them.
"""

from legato.script.modules import tensor_names as _names
from legato.script.modules.tensor_names import *  # noqa: F403  # whose `__all__` names them

SCRIPT_NAME = _names.SCRIPT_NAME
__all__ = _names.__all__
