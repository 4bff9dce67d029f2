"""Passes, one per file: functions from module to module. `table` finds them by looking.

`function_pass` and `module_pass` make passes of functions of one's own.
"""

from __future__ import annotations

from legato.transform._decorators import function_pass, module_pass
from legato.transform._table import table

__all__ = ["function_pass", "module_pass", "table"]
