"""The kernels of a program, for those who measure them: where each begins, its arguments, what it has to do.

A run needs nothing of this. It is kept as one text in a program, and read when somebody asks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from legato.base.dataclass import dataclass
from legato.base.errors import ArtifactError
from legato.runtime.reader import Reader, parse_json
from legato.runtime.size import Size, compile_size, names

__all__ = ["BufferWork", "KernelInfo", "Work", "kernel_from_work", "kernels_from_text", "kernels_to_text"]


@dataclass(frozen=True, slots=True)
class BufferWork:
    """Bytes of one buffer parameter that a kernel reads and writes, each counted once."""

    name: str
    read: Size
    written: Size


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel: its symbol, where its code begins in the image, its parameters in the order of the argument words.

    params: a buffer's work, or the name of a dim; counts and calls: sizes over the dims (see `tir.cost`); operators:
    what it was made of, in words; sites: for each place that launches it, in the order of the program, what that
    computes (a node of the model).
    """

    name: str
    offset: int
    params: tuple[BufferWork | str, ...]
    counts: Mapping[str, Size] = field(default_factory=dict)
    calls: Mapping[str, Size] = field(default_factory=dict)
    operators: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()

    @property
    def dims(self) -> dict[str, int]:
        """The words that hold dims, by the dims' names."""
        return {p: word for word, p in enumerate(self.params) if isinstance(p, str)}

    def work(self, dims: Mapping[str, int]) -> Work:
        """The counts for given values of the dims; what would be negative is 0: loops of such an extent do not run."""
        order = list(dims)
        values = [dims[name] for name in order]

        def value(size: Size) -> int:
            return size if isinstance(size, int) else max(0, compile_size(size, order)(values))

        return Work(
            counts={name: value(size) for name, size in self.counts.items()},
            calls={name: value(size) for name, size in self.calls.items()},
            buffers=tuple(
                (word, p.name, value(p.read), value(p.written))
                for word, p in enumerate(self.params)
                if isinstance(p, BufferWork)
            ),
        )


@dataclass(frozen=True, slots=True)
class Work:
    """What one launch does: counts (0 where none is given), intrinsics, and (word, name, read, written) of buffers."""

    counts: Mapping[str, int]
    calls: Mapping[str, int]
    buffers: tuple[tuple[int, str, int, int], ...]

    def count(self, name: str) -> int:
        """The count called `name`."""
        return self.counts.get(name, 0)

    @property
    def flops(self) -> int:
        """Operations on numbers; an intrinsic counts as one."""
        return self.count("flops") + sum(self.calls.values())

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return sum(read + written for _, _, read, written in self.buffers)


def kernels_to_text(kernels: Iterable[KernelInfo]) -> str:
    """The kernels as one JSON text, short because artifacts hold it."""
    data = [
        {
            "name": k.name,
            "offset": k.offset,
            "params": [p if isinstance(p, str) else [p.name, p.read, p.written] for p in k.params],
            "counts": dict(k.counts),
            "calls": dict(k.calls),
            "operators": k.operators,
            "sites": k.sites,
        }
        for k in kernels
    ]
    return json.dumps(data, separators=(",", ":"))


def kernels_from_text(text: str, code_size: int) -> tuple[KernelInfo, ...]:
    """What `kernels_to_text` wrote, of an image with `code_size` bytes of code; ArtifactError for anything else."""
    return tuple(_kernel(k, code_size) for k in parse_json(text, "kernels").list())


def _kernel(data: Reader, code_size: int) -> KernelInfo:
    found = KernelInfo(
        name=data["name"].text(),
        offset=data["offset"].int(0, code_size - 1),
        params=tuple(_param(p) for p in data["params"].list()),
        counts={name: size.size() for name, size in data["counts"].items()},
        calls={name: size.size() for name, size in data["calls"].items()},
        operators=tuple(o.text() for o in data["operators"].list()),
        sites=tuple(s.text() for s in data["sites"].list()),
    )
    sizes: list[Size] = [*found.counts.values(), *found.calls.values()]
    sizes += [s for p in found.params if isinstance(p, BufferWork) for s in (p.read, p.written)]
    unknown = {n for size in sizes for n in names(size)} - found.dims.keys()
    if unknown:
        raise ArtifactError(f"{data.where}: kernel {found.name!r} has no dim {', '.join(sorted(unknown))}")
    return found


def _param(data: Reader) -> BufferWork | str:
    if isinstance(data.value, str):
        return data.value
    name, read, written = data.list(3)
    return BufferWork(name.text(), read.size(), written.size())


def kernel_from_work(
    name: str, offset: int, work: Mapping[str, Any], operators: Sequence[str] = (), sites: Sequence[str] = ()
) -> KernelInfo:
    """The kernel called `name` whose work is the JSON data `work` of `lower.work`."""
    params = tuple(p if isinstance(p, str) else BufferWork(*p) for p in work["params"])
    return KernelInfo(name, offset, params, work["counts"], work["calls"], tuple(operators), tuple(sites))
