"""How many of the names that scripts for TVM's Relay used are here, by namespace, and which are not.

python tests/relay/api.py        prints both

api.tsv has the names that Relay's own tests used (v0.18) under the namespaces that this package has, most used first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

NAMES = tuple(Path(__file__).with_name("api.tsv").read_text().split())
# Where a namespace of TVM's is.
PLACES = {
    "relay": "legato.relay",
    "ir": "legato.relay.ir",
    "tir": "legato.relay.tir",
    "transform": "legato.relay.transform",
}


def resolve(name: str) -> Any:
    """What `tvm.…` is here; AttributeError, with a reason where there is one."""
    first, *rest = name.removeprefix("tvm.").split(".")
    found: Any = import_module(PLACES[first]) if first in PLACES else getattr(import_module("legato"), first)
    for part in rest:
        try:
            found = getattr(found, part)
        except AttributeError:
            where = getattr(found, "__name__", "")
            try:
                found = import_module(f"{where}.{part}")
            except ModuleNotFoundError:
                pass
            else:
                continue
            raise
    return found


def namespace(name: str) -> str:
    """What a name is counted under."""
    parts = name.removeprefix("tvm.").split(".")
    return ".".join(parts[: 2 if parts[0] == "relay" and parts[2:] else 1])


def found_and_missing(names: Iterable[str] = NAMES) -> Mapping[str, tuple[list[str], dict[str, str]]]:
    """For each namespace, the names that are here, and those that are not with what is said of them."""
    table: dict[str, tuple[list[str], dict[str, str]]] = {}
    for name in names:
        here, missing = table.setdefault(namespace(name), ([], {}))
        try:
            resolve(name)
            here.append(name)
        except AttributeError as error:
            missing[name] = str(error)
    return table


if __name__ == "__main__":
    for key, (here, missing) in sorted(found_and_missing().items()):
        print(f"{len(here):4} of {len(here) + len(missing):4}  {key}")
        for name, why in missing.items():
            print(f"               {name}: {why}")
