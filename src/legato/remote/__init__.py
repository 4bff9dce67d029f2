"""Programs on another machine, by its ssh alone: what is sent there, how it is asked, and what it answers.

There, Python and NumPy must be; the part of this package that runs programs is sent along. On the command line it is
`--on ssh://HOST` (docs/scaling.md).
"""

from legato.remote.connection import Connection, Reply
from legato.remote.place import Place, place

__all__ = ["Connection", "Place", "Reply", "place"]
