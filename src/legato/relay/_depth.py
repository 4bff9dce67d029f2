"""Room for recursion as deep as a program.

Visitors are written as recursion, because subclasses decide when to go on. Since Python 3.11 a Python function that
calls another takes no room on the C stack, so only Python's own limit is in the way: it is raised to what the depth of
the program needs while a walk runs, and put back afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from legato.base.node import post_order
from legato.ir.expr import Expr

__all__ = ["depth", "room"]

_FRAMES = 12  # Python frames per level of a program: a subclass's method, its helpers, super's, visit
_lock = Lock()
_walks = 0  # that run now, in all threads
_usual = 0  # the limit before the first of them


def depth(root: Expr) -> int:
    """The number of nodes on the longest path down from `root`."""
    found: dict[int, int] = {}
    for node in post_order([root]):
        found[id(node)] = 1 + max((found[id(kid)] for kid in node.children()), default=0)
    return found[id(root)]


@contextmanager
def room(root: Expr) -> Iterator[None]:
    """Recursion over `root` fits while this is open; runaway recursion still ends in a RecursionError."""
    global _walks, _usual
    with _lock:
        if not _walks:
            _usual = sys.getrecursionlimit()
        _walks += 1
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _usual + _FRAMES * depth(root)))
    try:
        yield
    finally:
        with _lock:
            _walks -= 1
            if not _walks:
                sys.setrecursionlimit(_usual)
