"""LLVM IR text to machine code. The only user of llvmlite beside the tests."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import binding as llvm

from legato.base.errors import InternalError
from legato.base.forks import forkable_lock
from legato.base.target import Target
from legato.codegen.level import level_of

__all__ = ["assembly", "compile_object"]

_in_llvm = forkable_lock()  # LLVM works in one thread at a time; a fork waits until it has done what it is at


@cache
def _machine(cpu: str, features: str, triple: str, level: int) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small"
    )
    machine.set_asm_verbosity(False)
    return machine


def _target_machine(target: Target, ir_text: str, level: int | None) -> Any:
    features = ",".join("+" + f for f in target.features)
    return _machine(target.cpu, features, target.triple, level_of(ir_text) if level is None else level)


def _module(ir_text: str, machine: Any, *, passes: bool) -> Any:
    try:
        module = llvm.parse_assembly(ir_text)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM rejects the generated code: {error}") from error
    if passes:
        options = llvm.create_pipeline_tuning_options(speed_level=1)
        builder = llvm.create_pass_builder(machine, options)
        manager = builder.getModulePassManager()
        manager.run(module, builder)
    return module


def compile_object(ir_text: str, target: Target, *, level: int | None = None, passes: bool = False) -> bytes:
    """The ELF object of a module's text: position independent, code generation at `level` (None: as the text says).

    `passes` runs LLVM's O1 pipeline on the IR first; hand-tiled kernels are faster, and compile faster, without.
    InternalError if LLVM rejects the text.
    """
    with _in_llvm:
        machine = _target_machine(target, ir_text, level)
        return bytes(machine.emit_object(_module(ir_text, machine, passes=passes)))


def assembly(ir_text: str, target: Target, *, level: int | None = None, passes: bool = False) -> str:
    """The assembly of a module's text, as `compile_object` would encode it."""
    with _in_llvm:
        machine = _target_machine(target, ir_text, level)
        return str(machine.emit_assembly(_module(ir_text, machine, passes=passes)))
