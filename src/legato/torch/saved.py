"""A compiled module in one file: a zip archive of its program, of how it is called, and of its state.

The state is read by `torch.load(weights_only=True)`, and no structure names a module that PyTorch would import; the
program is native code, as in every artifact.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

from legato.base.errors import ArtifactError, LegatoError
from legato.base.files import open_regular, replace_file
from legato.frontend.torch.archive import names_module
from legato.frontend.torch.exported import Argument, Interface, Result
from legato.frontend.torch.limits import MAX_JSON
from legato.runtime.executable import Executable

__all__ = ["Contents", "read", "write"]

Contents = tuple[Executable, Interface, dict[str, torch.Tensor]]
_PROGRAM: Final = "program.legato"
_INTERFACE: Final = "interface.json"
_STATE: Final = "state.pt"
_PLAIN: Final = (type(None), bool, int, float, str)


def write(path: Path, executable: Executable, interface: Interface, state: Mapping[str, torch.Tensor]) -> None:
    """Writes a file that `read` reads; it appears complete or not at all. ArtifactError if not."""
    told = json.dumps(_interface_to_json(interface))
    tensors = io.BytesIO()
    torch.save(dict(state), tensors)

    def write_file(temporary: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="legato-") as folder, zipfile.ZipFile(temporary, "w") as archive:
            executable.save(Path(folder, _PROGRAM))
            archive.write(Path(folder, _PROGRAM), _PROGRAM)
            archive.writestr(_INTERFACE, told)
            archive.writestr(_STATE, tensors.getvalue())

    try:
        replace_file(path, write_file)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from error


def read(path: Path, load_program: Callable[[str], Executable]) -> Contents:
    """What `write` wrote; `load_program` reads the artifact in it. ArtifactError for anything else."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive, tempfile.TemporaryDirectory() as folder:
            _require_bounded(archive, path)
            executable = load_program(archive.extract(_PROGRAM, folder))
            interface = _interface_from_json(json.loads(archive.read(_INTERFACE)))
            state = torch.load(io.BytesIO(archive.read(_STATE)), weights_only=True)
    except (LegatoError, MemoryError):
        raise
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from error
    except NotImplementedError as error:  # of PyTorch's pytrees
        raise ArtifactError(f"{path}: {error} (import the package that declares it first)") from error
    except Exception as error:  # whatever a file that somebody else wrote makes of these readers
        raise ArtifactError(f"{path} is no file of CompiledModule.save: {error}") from error
    return executable, interface, state


def _require_bounded(archive: zipfile.ZipFile, path: Path) -> None:
    """ArtifactError for entries that are larger than they look, or than any description is."""
    for name in (_PROGRAM, _INTERFACE, _STATE):
        if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
            raise ArtifactError(f"{path}: {name} is compressed, which CompiledModule.save does not")
    size = archive.getinfo(_INTERFACE).file_size
    if size > MAX_JSON:
        raise ArtifactError(f"{path}: {_INTERFACE} has {size} bytes; at most {MAX_JSON} are accepted")


def _require_no_module(specs: Any) -> None:
    if names_module(specs):
        raise ArtifactError("an enum, or a factory of a dict, in the structure of the module's arguments or results, "
                            "whose module no file may name")  # fmt: skip


def _interface_to_json(interface: Interface) -> dict[str, Any]:
    for value in (*interface.fixed.values(), *(result.value for result in interface.results)):
        if not isinstance(value, _PLAIN):
            raise ArtifactError(f"the module takes or gives a constant {value!r}, which no file can have")
    try:
        specs = [pytree.treespec_dumps(spec) for spec in (interface.in_spec, interface.out_spec)]
    except (NotImplementedError, TypeError) as error:
        raise ArtifactError(f"the structure of the module's arguments or results: {error}") from error
    _require_no_module(specs)
    return {
        "arguments": [asdict(argument) for argument in interface.arguments],
        "results": [asdict(result) for result in interface.results],
        "specs": specs,
        "fixed": list(interface.fixed.items()),
    }


def _interface_from_json(told: Mapping[str, Any]) -> Interface:
    _require_no_module(told["specs"])
    in_spec, out_spec = (pytree.treespec_loads(spec) for spec in told["specs"])
    arguments = tuple(Argument(**argument) for argument in told["arguments"])
    results = tuple(Result(**result) for result in told["results"])
    return Interface(arguments, results, in_spec, out_spec, {int(place): value for place, value in told["fixed"]})
