#!/usr/bin/env python3
"""In the place of ssh: takes its options, and has the shell of this machine run the command, as sshd does.

A folder stands for the machine: `$FAKE_MACHINE`, the home of whoever is there; `said` in it is what its shell prints
first, and `log` is what was called.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

machine = Path(os.environ["FAKE_MACHINE"])
arguments = sys.argv[1:]
options: list[str] = []
while arguments[0] != "--":
    word = arguments.pop(0)
    options.append(word)
    if word in ("-o", "-p", "-l"):
        options.append(arguments.pop(0))
_, host, command = arguments
with (machine / "log").open("a") as log:
    log.write(json.dumps({"options": options, "host": host, "command": command}) + "\n")
if host == "nowhere":
    print("ssh: Could not resolve hostname nowhere: Name or service not known", file=sys.stderr)
    sys.exit(255)
if host == "locked":
    print("Warning: something else\nroot@locked: Permission denied (publickey).", file=sys.stderr)
    sys.exit(255)
said = machine / "said"
if said.exists():
    sys.stdout.write(said.read_text())
    sys.stdout.flush()
environment = {name: value for name, value in os.environ.items() if not name.startswith(("LEGATO", "PYTHON", "XDG"))}
environment |= {"HOME": str(machine), "PATH": f"{machine / 'bin'}{os.pathsep}{os.environ['FAKE_PATH']}"}
os.chdir(machine)
shell = os.environ.get("FAKE_SHELL", "/bin/sh")
os.execve(shell, [shell, "-c", command], environment)
