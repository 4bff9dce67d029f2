"""The machine code of a lowered program: found in the kernel cache, or made and kept there.

The cache has three kinds of entries: what a group is lowered to, with the objects of its kernels (`lower.reuse`); the
objects of all host functions of a program; the object of an LLVM module, by its text. The first two are found before
anything is lowered or emitted, under keys that name the compiler's own sources. The function of a kernel's object has
one name for all; the image is linked with the names that the program gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO

from legato.base.dataclass import dataclass
from legato.base.sources import sources_digest
from legato.base.target import Target
from legato.codegen.cache import KernelCache
from legato.codegen.level import toolchain
from legato.codegen.wire import read_fields, write_fields
from legato.ir.op import Op
from legato.lower.functions import LoweredModule
from legato.lower.hosts.program import HostProgram
from legato.lower.reuse import Fresh, Shelf
from legato.lower.stored import StoredGroup, encode
from legato.tir.equal import program_key

__all__ = ["KERNEL", "Assembler", "Emitted", "Objects", "llvm_modules"]

KERNEL = "kernel"  # the name of the function in the object of a kernel
Tell = Callable[[str], None]  # progress: how far it is


@dataclass(frozen=True, slots=True)
class Emitted:
    """LLVM modules to be compiled, each made when it is drawn: one for each of the `kernels`, then those of the host
    functions, unless their objects were `found`."""

    kernels: tuple[str, ...]
    texts: Iterator[str]
    found: list[bytes] | None
    key: bytes | None


@dataclass(frozen=True, slots=True)
class Objects:
    """ELF objects of a program: kernels by name, in their order, and host functions; how many had to be made."""

    kernels: dict[str, bytes]
    hosts: list[bytes]
    compiled: int


@dataclass(frozen=True, slots=True)
class Assembler:
    """Makes the code of programs for `target`; `compiler` tells compilers apart (None: this one cannot be named)."""

    target: Target
    cache: KernelCache
    compiler: str | None
    build: str = ""

    @staticmethod
    def default(target: Target, build: str = "") -> Assembler:
        """With the cache that the configuration names; `build` tells kinds of code apart."""
        cache = KernelCache.default()
        return Assembler(target, cache, _compiler(build) if cache.limit else None, build)

    def shelf(self, operators: Mapping[str, Op]) -> Shelf | None:
        """Where groups of `operators`, which are the package's, are found; None if nothing can be."""
        return None if self.compiler is None else Shelf(self.cache.get, self.compiler, operators)

    def emit(self, program: HostProgram, offsets: Mapping[str, int]) -> Emitted:
        """What has to be compiled of `program`; `offsets` places the constants."""
        key = None if self.compiler is None else _host_key(self.compiler, self.target, program, offsets)
        found = None if key is None else _unpacked(self.cache.get(key))
        texts = self._texts(program, offsets, with_hosts=found is None)
        return Emitted(tuple(program.kernels), texts, found, key)

    def _texts(self, program: HostProgram, offsets: Mapping[str, int], *, with_hosts: bool) -> Iterator[str]:
        from legato.codegen.emit import emit_module  # only for what was never compiled

        for kernel in program.kernels.values():
            yield emit_module([replace(kernel, name=KERNEL)], self.target, {})
        if with_hosts:
            yield from _host_modules(program, self.target, offsets)

    def compile(
        self, emitted: Emitted, lowered: LoweredModule, program: HostProgram, tell: Tell | None = None
    ) -> Objects:
        """The objects of `program`. What was made of it and `lowered` is kept for other processes. tell: hears how many
        modules of how many are compiled."""
        expected = len(emitted.kernels) + (emitted.found is None)
        made, compiled = self._made(emitted.texts, expected, tell) if expected else ([], 0)
        code = {name: found.code for name, found in program.found.items()}
        code |= zip(emitted.kernels, made, strict=False)
        hosts = made[len(emitted.kernels) :] if emitted.found is None else emitted.found
        if (
            (lowered.groups.fresh or emitted.found is None)
            and self.compiler is not None
            and self.compiler == _compiler(self.build)
        ):
            self._keep(
                emitted, lowered.groups.fresh, code, {**lowered.names, **program.device_copies, **program.copies}, hosts
            )
        return Objects({name: code[name] for name in program.facts}, hosts, compiled)

    def _made(self, texts: Iterable[str], expected: int, tell: Tell | None) -> tuple[list[bytes], int]:
        from legato.codegen.build import build_objects  # only for what was never compiled

        told = None if tell is None else lambda done, count: tell(f"{done} of {count} modules compiled")
        return build_objects(texts, expected, self.target, cache=self.cache, progress=told)

    def _keep(
        self,
        emitted: Emitted,
        found: Sequence[Fresh],
        code: Mapping[str, bytes],
        names: Mapping[str, str],
        hosts: Sequence[bytes],
    ) -> None:
        """Puts all that is new into the cache; `names` of kernels by their digests; those without were dropped."""
        for fresh in found:
            value = fresh.value
            if isinstance(value, StoredGroup):
                if any(k.digest not in names for k in value.kernels):
                    continue
                value = encode(value, [code[names[k.digest]] for k in value.kernels])
            self.cache.put(fresh.key, value)
        if emitted.found is None and emitted.key is not None:
            self.cache.put(emitted.key, _packed(hosts))


def _compiler(build: str = "") -> str | None:
    """What tells this compiler from others: its sources, the library that generates code, and the kind of code; None
    where that is not known."""
    sources, library = sources_digest(), toolchain()
    return None if sources is None or library is None else " ".join(filter(None, (sources, library, build)))


def _host_key(compiler: str, target: Target, program: HostProgram, offsets: Mapping[str, int]) -> bytes:
    functions = "\n".join(f"{name}\n{program_key(f)}" for name, f in program.functions.items())
    launches = {name: int(facts.launch) for name, facts in program.facts.items()}
    return f"hosts\n{compiler}\n{target}\n{dict(offsets)}\n{launches}\n{functions}".encode()


def _packed(objects: Sequence[bytes]) -> bytes:
    """Objects as one entry of the cache."""
    stream = BytesIO()
    write_fields(stream, *objects)
    return stream.getvalue()


def _unpacked(data: bytes | None) -> list[bytes] | None:
    """The objects that were packed as `data`."""
    if data is None:
        return None
    stream, found = BytesIO(data), list[bytes]()
    while (fields := read_fields(stream, 1)) is not None:
        found += fields
    return found


def _host_modules(program: HostProgram, target: Target, offsets: Mapping[str, int]) -> list[str]:
    from legato.codegen.emit import emit_hosts  # only for what was never compiled

    launches = {name: facts.launch for name, facts in program.facts.items()}
    return emit_hosts(list(program.functions.values()), target, offsets, launches)


def llvm_modules(program: HostProgram, target: Target, offsets: Mapping[str, int]) -> list[str]:
    """One LLVM module per kernel, and those of the host functions; `offsets` places the constants."""
    from legato.codegen.emit import emit_module  # only for what was never compiled

    kernels = [emit_module([k], target, {}) for k in program.kernels.values()]
    return [*kernels, *_host_modules(program, target, offsets)]
