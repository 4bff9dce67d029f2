"""The errors that Legato raises, under the name that programs import them by.

    from legato.errors import CompileError, RunError

    LegatoError
    ├── CompileError            the program or model is at fault; `message`, `span`, `details`, `hint`, `others`
    │   ├── ParseError          text that is not in the grammar
    │   ├── TypeCheckError      ill-typed program
    │   ├── VerifyError         ill-formed program, made by hand
    │   ├── ImportModelError    a model file that cannot be read
    │   ├── UnsupportedError    a valid program that Legato cannot compile
    │   └── ScheduleError       a schedule primitive whose precondition does not hold
    ├── RunError                a call with wrong inputs, or a failure while running
    │   ├── PackedError         a packed function that is missing, fails, or gives something else
    │   └── GeneratorError      a code generator that is missing, fails, or whose engine gives something else
    ├── ArtifactError           a damaged, foreign or incompatible artifact file
    ├── PlatformError           an operating system, CPU or toolchain that Legato does not support
    ├── MissingError            a package that is not installed; an ImportError, too
    └── InternalError           a bug of Legato's

    KeyboardInterrupt
    └── InterruptError          Ctrl-C during a call

docs/errors.md says who raises which, and what is in them.
"""

from __future__ import annotations

from legato.base.errors import (
    ArtifactError,
    CompileError,
    GeneratorError,
    ImportModelError,
    InternalError,
    InterruptError,
    LegatoError,
    MissingError,
    PackedError,
    ParseError,
    PlatformError,
    RunError,
    ScheduleError,
    TypeCheckError,
    UnsupportedError,
    VerifyError,
)

__all__ = [
    "ArtifactError",
    "CompileError",
    "GeneratorError",
    "ImportModelError",
    "InternalError",
    "InterruptError",
    "LegatoError",
    "MissingError",
    "PackedError",
    "ParseError",
    "PlatformError",
    "RunError",
    "ScheduleError",
    "TypeCheckError",
    "UnsupportedError",
    "VerifyError",
]
