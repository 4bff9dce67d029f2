"""The standard library in Relay's text: lists, options, trees and the functions over them.

    module = parse(text)              a text may use List, Cons, @map, … without defining them
    library("nat")                    the whole of one file: "prelude", "nat", "gradient", "core"
    link(module)                      a module with what it uses of the prelude, and what that needs

A file is read when it is first asked for, once in a process, so a function of the library is the same object in all
modules that use it.
"""

from __future__ import annotations

from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not
from legato.prelude.library import LIBRARIES, library, link
from legato.prelude.text import mentioned, parse

__all__ = ["LIBRARIES", "library", "link", "mentioned", "parse"]
