"""The command line: `legato VERB …`, one file per verb.

    exit code 0    done; the answer is yes
              1    the answer is no: it cannot be compiled, does not hold, does not agree
              2    wrong usage, or input that cannot be used
              3    a bug in Legato

Every verb takes --json, and prints one object then: "legato" (the version), "verb", "exit", and its own keys, or
"error". Progress is shown on standard error, that of what takes long (compile, verify, bench) also where it is no
terminal, and never with --json; nothing is written but what -o names (compile: MODEL.legato where it is not given) and
the kernel cache.
"""

from __future__ import annotations

from legato.cli._main import VERBS, main

__all__ = ["VERBS", "main"]
