"""A plugin of pytest: the runtime library is the one that LEGATO_SANITIZED names, built with a sanitizer.

`tools/sanitize.py` builds it and runs the tests with it.
"""

from __future__ import annotations

import os
from pathlib import Path

from legato.runtime import binding

binding.LIBRARY = Path(os.environ["LEGATO_SANITIZED"])  # type: ignore[misc]  # before anything has loaded the other
