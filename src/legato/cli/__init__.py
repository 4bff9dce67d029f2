"""The command line: `legato VERB …`, one file per verb.

    exit code 0    done; the answer is yes
              1    the answer is no: it cannot be compiled, does not hold, does not agree
              2    wrong usage, or input that cannot be used
              3    a bug in Legato

Every verb takes --json, and prints one object then: "legato" (the version), "verb", "exit", and its own keys, or
"error". Progress is shown on standard error, that of what takes long (compile, verify, bench) also where it is no
terminal, and never with --json. Nothing is written but what flags name (compile: MODEL.legato where -o names nothing;
verify -o: the inputs beside it, in a .npz file), the kernel cache, and, on the machine of --on, what is sent there.
"""

from __future__ import annotations

from legato.cli._main import VERBS, main

__all__ = ["VERBS", "main"]
