"""`R`: the names of graph functions in scripts. `from legato.script import relax as R`

They are defined in `modules.graph_names`; `relax.pyi`, which `tools/script_stubs.py` writes, tells editors of them.
"""

from legato.script.modules import graph_names as _names
from legato.script.modules.graph_names import *  # noqa: F403  # whose `__all__` names them

SCRIPT_NAME = _names.SCRIPT_NAME
__all__ = _names.__all__
