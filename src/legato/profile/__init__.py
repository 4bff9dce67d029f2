"""Where the time of a program goes: each kernel's, against what this machine can do.

`profile(exe, inputs)` runs an executable with another table of services (see `runtime.recorder`), so code that is not
profiled is not slower by anything, and compiled files can be profiled as they are. What a kernel has to do comes from
its loops (`tir.cost`), as formulas that artifacts hold; what the machine can do is measured (`machine`).
"""

from __future__ import annotations

from legato.profile.report import Bound, Cause, Event, KernelProfile, Profile
from legato.profile.run import profile

__all__ = ["Bound", "Cause", "Event", "KernelProfile", "Profile", "profile"]
