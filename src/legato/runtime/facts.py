"""What a compiled program says of itself, which it need not be able to run for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from legato.base.errors import RunError
from legato.base.precision import Precision
from legato.runtime.bodies import ranges
from legato.runtime.datatypes import ConstructorInfo, ObjectInfo
from legato.runtime.parts import Parts
from legato.runtime.program import FunctionInfo, Program, TensorInfo
from legato.runtime.signature import Signature
from legato.runtime.size import Bytes

if TYPE_CHECKING:
    from legato.runtime.kernels import KernelInfo

__all__ = ["Contents", "Facts", "entry_point"]


def entry_point(program: Program, function: str) -> FunctionInfo:
    """The function of that name; RunError where there is none."""
    if function not in program.functions:
        raise RunError(f"the program has no function {function!r}; it has {', '.join(program.functions)}")
    return program.functions[function]


class Facts:
    """The properties that an executable has of its parts."""

    __slots__ = ()

    program: Program
    function: str
    _parts: Parts
    _signature: Signature
    _bodies: Sequence[Facts]

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, dtype and shape (sizes over named dims, and what values these may have) of each input; of extents, the
        sizes that they are."""
        told = ranges(self._signature.info, [body._signature.info for body in self._bodies])
        return tuple(replace(t, where=where) for t, where in zip(self._signature.info.inputs, told, strict=True))

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, dtype and shape of each output that is a tensor, in order; a dim that no input has is one that the
        program computes."""
        return tuple(leaf for leaf in self.results if isinstance(leaf, TensorInfo))

    @property
    def results(self) -> tuple[TensorInfo | ObjectInfo, ...]:
        """What a call gives, in order: `outputs`, and values of data types."""
        return tuple(self._signature.returned[n] for n in self._signature.info.order)

    @property
    def deferred(self) -> dict[str, str]:
        """The outputs that may be written while a call can still fail, with what it may fail for: an array that `run`
        is given for one is written when the call has succeeded, from memory of its own."""
        return {self._signature.returned[d.output].name: d.why for d in self._signature.info.deferred}

    @property
    def in_place(self) -> dict[str, str]:
        """The inputs that hold an output in the end if they are donated, each with that output."""
        info = self._signature.info
        return {info.inputs[n].name: info.outputs[output].name for n, output in info.in_place}

    @property
    def arguments(self) -> tuple[TensorInfo | ObjectInfo, ...]:
        """What a call takes, in order: `inputs`, and values of data types."""
        return replace(self._signature.info, inputs=self.inputs).arguments

    @property
    def constructors(self) -> dict[str, ConstructorInfo]:
        """The constructors of the data types that inputs and outputs have, by name: they make values."""
        return {c.name: c for ty in self._signature.info.types for c in ty.constructors}

    @property
    def peak_memory(self) -> Bytes:
        """Bytes of workspace that one call needs, as a formula in the dims; weights, outputs and objects are not in it.
        Its text begins with the bytes where every dim is 1, or what its range begins at.

        Where `stats["recursive"]` is 1, each further level of a function that calls itself adds its frame.
        """
        info = self._signature.info
        least = {dim.name: 1 if dim.holds(1) else dim.lo for dim in info.dims}
        return Bytes(info.workspace, least)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the constant segment."""
        return int(self._parts.segment.size)

    @property
    def stats(self) -> Mapping[str, object]:
        """What the compiler noted: kernels, operators run by their reference, times."""
        return MappingProxyType(dict(self.program.stats))

    @property
    def target(self) -> str:
        """The instruction set that the code is for."""
        return self.program.target

    @property
    def precision(self) -> Precision:
        """What it was compiled with: how much its results may differ from those of the program's own dtypes."""
        return Precision(self.program.precision)

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """The kernels of the program: their names, and what each has to do as formulas in its dims."""
        from legato.runtime.kernels import kernels_from_text  # only where it is asked for

        return kernels_from_text(self.program.kernels, self._parts.code_size)

    def module_after(self, stage: str) -> str:
        """The program's text after pass `stage`; RunError unless compile was asked to keep it."""
        if stage not in self.program.stages:
            kept = ", ".join(self.program.stages) or "none"
            raise RunError(f"the program after {stage!r} was not kept; kept: {kept}")
        return self.program.stages[stage]


class Contents(Facts):
    """What is in a file, to be looked at: it may be for another machine, and need what is not given here."""

    __slots__ = ("_bodies", "_parts", "_signature", "function", "program")

    def __init__(self, parts: Parts, function: str = "main") -> None:
        self.program, self.function = parts.program, function
        self._parts = parts
        info = entry_point(parts.program, function)
        self._signature = Signature(info)
        self._bodies = tuple(Contents(parts, name) for name in info.bodies)
