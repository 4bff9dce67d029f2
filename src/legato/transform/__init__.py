"""Passes, one per file: functions from module to module. `table` finds them by looking.

`function_pass` and `module_pass` make passes of functions of one's own; `read_passes` and `show_pass` are their text.
"""

from __future__ import annotations

from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not
from legato.transform._decorators import function_pass, module_pass
from legato.transform._table import table
from legato.transform._text import read_passes, show_pass

__all__ = ["function_pass", "module_pass", "read_passes", "show_pass", "table"]
