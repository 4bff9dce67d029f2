"""The operators. Each is one record in the file of its family; `table` finds them by looking.

Importing this package gives meaning to arithmetic on expressions (`x + y`) and to operator names on the builder,
and tells `pickle` how modules are written.
"""

from __future__ import annotations

from legato.ops import _pickle
from legato.ops._table import table

__all__ = ["table"]

_pickle.install()
