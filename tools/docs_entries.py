"""Docstrings as the site shows them: what is said of each argument becomes a list.

    target:  the machine, "host" …
             on a second line
    shapes:  …

is how the sources have it; Markdown would make one paragraph of it.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

__all__ = ["as_list"]

_ENTRY: Final = re.compile(r"^(?P<names>\*{0,2}[a-z_]\w*(?:, \*{0,2}[a-z_]\w*)*):\s+(?=\S)")


def as_list(text: str) -> str:
    """A docstring whose entries (`name: what it means`, further lines indented) are items of a list."""
    lines: list[str] = []
    inside = False  # an entry
    for line in inspect.cleandoc(text).split("\n"):
        entry = _ENTRY.match(line)
        if entry:
            lines += [] if inside else [""]
            names = ", ".join(f"`{name}`" for name in entry["names"].split(", "))
            lines.append(f"- {names}: {line[entry.end() :]}")
        elif inside and line.startswith("  "):
            lines.append(f"  {line.strip()}")
        else:
            lines += ["", line] if inside and line else [line]
        inside = bool(entry) or (inside and line.startswith("  "))
    return "\n".join(lines).strip("\n")


if not TYPE_CHECKING:
    try:
        import griffe
    except ImportError:  # only the site's environment has it
        pass
    else:

        class Entries(griffe.Extension):
            """Applies `as_list` to every docstring that griffe reads."""

            def on_object(self, *, obj: Any, **_: Any) -> None:
                """Called for each object of the package."""
                if not obj.is_alias and obj.docstring:
                    obj.docstring.value = as_list(obj.docstring.value)
