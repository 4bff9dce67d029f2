"""`VirtualMachineProfiler`: a virtual machine that says what each kernel of a call takes."""

from __future__ import annotations

from typing import Any

from legato.runtime.profiling import Report, profiled, require_no_collectors
from legato.runtime.vm import VirtualMachine

__all__ = ["VirtualMachineProfiler"]


class VirtualMachineProfiler(VirtualMachine):
    """A VirtualMachine with `profile`."""

    def profile(self, *args: Any, func_name: str = "main", collectors: object = None, **kwargs: Any) -> Report:
        """What the kernels of a function take on these arguments, or on those that were set."""
        require_no_collectors(collectors)
        function = self._function(func_name)
        given = function.ordered(args, kwargs) if args or kwargs else self._set(func_name)
        return profiled(function.entry, dict(zip(function.names, given, strict=True)))
