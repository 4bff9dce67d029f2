"""Where another machine is: `ssh://[USER@]HOST[:PORT][/PYTHON]`."""

from __future__ import annotations

import re
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.errors import RunError

__all__ = ["Place", "place"]

# Nothing of this means anything to a shell, and none of it can be taken for an option of ssh.
_URL: Final = re.compile(
    r"ssh://(?:(?P<user>[A-Za-z_][A-Za-z0-9._-]*)@)?"
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<python>/[A-Za-z0-9._+/-]*)?",
    re.ASCII,
)
_PORTS: Final = range(1, 1 << 16)
_OPTIONS: Final = (  # never a question that nobody answers, no wait without an end, nothing but this connection
    "BatchMode=yes", "ConnectTimeout=20", "ServerAliveInterval=15", "ServerAliveCountMax=4", "ClearAllForwardings=yes",
    "ForwardAgent=no", "ForwardX11=no", "Tunnel=no",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """A machine that ssh reaches, its Python included. `host` may be an alias of ~/.ssh/config."""

    host: str
    user: str | None = None
    port: int | None = None
    python: str = "python3"

    def command(self, remote: str) -> list[str]:
        """How to have that machine's shell run `remote`."""
        options = [word for option in _OPTIONS for word in ("-o", option)]
        options += ["-p", str(self.port)] if self.port is not None else []
        options += ["-l", self.user] if self.user is not None else []
        return ["ssh", "-T", *options, "--", self.host, remote]

    def __str__(self) -> str:
        return self.host if self.user is None else f"{self.user}@{self.host}"


def place(text: str) -> Place:
    """The place that a URL names; RunError for text that is none."""
    found = _URL.fullmatch(text)
    port = int(found["port"]) if found is not None and found["port"] else None
    if found is None or (port is not None and port not in _PORTS):
        raise RunError(
            f"got {text!r}, wanted ssh://HOST, ssh://USER@HOST:PORT, or with the Python to use there, "
            "ssh://HOST/opt/venv/bin/python3"
        )
    python = found["python"] or "/"
    return Place(found["host"].strip("[]"), found["user"], port, "python3" if python == "/" else python)
