"""Arguments that several verbs have, and what they stand for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from legato.base.errors import CompileError, RunError
from legato.base.files import open_regular

if TYPE_CHECKING:
    import numpy as np

    from legato.cli._answer import Tell
    from legato.driver import CompileOptions
    from legato.ir.module import Module
    from legato.ir.op import Op
    from legato.runtime.executable import Executable

__all__ = ["OF_MODELS", "add_compile", "add_inputs", "add_model", "constants", "custom", "duration", "executable",
           "is_artifact", "loaded", "module", "natural", "operators", "options", "positive", "program", "read_arrays",
           "refuse", "require_use_of_inputs", "shapes"]  # fmt: skip

_LONGEST = 3600  # seconds to measure

SHAPE = (
    "shape of an input, such as x=1,3,h,w: numbers fix dims, names make them symbolic (w:32..960 gives a range), "
    "? leaves one as the model has it; may be given for each input. Or the sizes of a symbolic dim that there shall be "
    "code for, such as n=1,8,1..512"
)


CONSTANT = (
    "the value that an input has for good: an array in a .npy file, or a number; it is no input of the program then; "
    "may be given for each input"
)
OPS = (
    "code to run: operators of your own (the records that it makes) and, in a dict called custom, converters for "
    "operators of the model; may be given several times"
)
OF_MODELS = ("shape", "constant", "target", "precision")  # what only a model can be compiled with


def add_model(parser: argparse.ArgumentParser) -> None:
    """How a model is read."""
    parser.add_argument(
        "--trust", action="store_true", help="MODEL is FILE.py, or FILE.py:NAME: run it to have its model"
    )
    parser.add_argument("--shape", action="append", default=[], type=_shape, metavar="NAME=DIMS", help=SHAPE)
    parser.add_argument("--constant", action="append", default=[], type=_constant, metavar="NAME=FILE", help=CONSTANT)
    parser.add_argument("--ops", action="append", default=[], type=Path, metavar="FILE.py", help=OPS)


def add_compile(parser: argparse.ArgumentParser, *, threads: bool = True) -> None:
    """The arguments of `legato.compile`."""
    add_model(parser)
    parser.add_argument(
        "--target", default="host", help="host (default), x86-64-v2, x86-64-v3 or x86-64-v4: the instruction set"
    )
    parser.add_argument(
        "--precision",
        choices=("default", "exact", "fast", "bfloat16"),
        default="default",
        help="exact: no algorithm that rounds more than a plain sum, and subnormal numbers are kept; fast: also "
        "algorithms with larger errors; bfloat16: matrix products and convolutions of bfloat16",
    )
    if threads:
        parser.add_argument("--threads", type=positive, help="default: what CPU affinity and cgroup quota allow")


def add_inputs(parser: argparse.ArgumentParser, *, fill: str | None) -> None:
    """Where inputs come from; `fill` is the default of --fill."""
    parser.add_argument("-i", "--input", type=Path, help="arrays by name in a .npz file, or the one input in a .npy")
    default = f" (default: {fill})" if fill else ""
    parser.add_argument(
        "--fill",
        choices=("random", "zeros", "ones"),
        default=fill,
        help=f"make inputs up where -i is not given{default}",
    )
    parser.add_argument("--seed", type=natural, default=0, help="of --fill random (default: 0)")
    parser.add_argument(
        "--dim", action="append", default=[], type=_dim, metavar="NAME=N", help="value of a symbolic dim (default: 4)"
    )


def _shape(text: str) -> tuple[str, tuple[int | str | None, ...]]:
    name, equals, dims = text.rpartition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted NAME=DIMS such as x=1,3,h,w")
    parts = [part.strip() for part in dims.split(",")] if dims else []
    return name, tuple(int(p) if p.isascii() and p.isdigit() else None if p == "?" else p for p in parts)


def _constant(text: str) -> tuple[str, float | str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted NAME=FILE such as k=k.npy, or NAME=NUMBER")
    for number in (int, float):
        with suppress(ValueError):
            return name, number(value)
    return name, value


def _dim(text: str) -> tuple[str, int]:
    name, _, value = text.rpartition("=")
    if not name or not (value.isascii() and value.isdigit()):
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted NAME=N such as n=8")
    return name, int(value)


def positive(text: str) -> int:
    """A number from 1 on."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted a positive number")
    return int(text)


def refuse(args: argparse.Namespace, why: str, *names: str) -> None:
    """CompileError, which begins with `why`, if one of these arguments has another value than by default."""
    given = [name for name in names if getattr(args, name, None) != args.parser.get_default(name)]
    if given:
        raise CompileError(f"{why}: {', '.join(_option(name) for name in given)} would have no effect")


def _option(name: str) -> str:
    return {"input": "-i", "output": "-o", "passes": "-p", "model": "MODEL"}.get(name) or f"--{name.replace('_', '-')}"


def require_use_of_inputs(args: argparse.Namespace) -> None:
    """CompileError where inputs come from a file and are to be made up, too, and for a seed where nothing is random."""
    if args.input is not None:
        refuse(args, "inputs come from -i", "fill", "seed", "dim")
    if args.fill != "random":
        refuse(args, "nothing is random", "seed")


def natural(text: str) -> int:
    """A number from 0 on."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted a number from 0 on")
    return int(text)


def duration(text: str) -> float:
    """Seconds: more than none, and an end of them."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= _LONGEST:
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted seconds, up to {_LONGEST}")
    return found


def shapes(args: argparse.Namespace) -> dict[str, tuple[int | str | None, ...]] | None:
    """The shapes of --shape by input; None where none was given."""
    return dict(args.shape) or None


def constants(args: argparse.Namespace) -> dict[str, Any] | None:
    """The values of --constant by input; None where none was given. RunError for a file that holds no single array."""
    found = {name: _array(value) if isinstance(value, str) else value for name, value in args.constant}
    return found or None


def _array(file: str) -> np.ndarray:
    arrays = read_arrays(Path(file))
    if isinstance(arrays, dict):
        raise CompileError(f"{file} holds arrays by name, wanted one", hint="numpy.save makes a .npy file of an array")
    return arrays[0]


def options(args: argparse.Namespace, tell: Tell, keep: Sequence[str] = ()) -> CompileOptions:
    """How the arguments say to compile."""
    from legato.base.precision import precision
    from legato.base.target import target
    from legato.driver import CompileOptions

    threads = getattr(args, "threads", None)
    exactness = precision(args.precision)
    return CompileOptions(
        target(args.target), threads, frozenset(keep), operators(args), progress=tell, precision=exactness
    )


def program(args: argparse.Namespace) -> Any:
    """The model: the path of its file, or what its code made."""
    return getattr(args, "program", args.model)


def operators(args: argparse.Namespace) -> tuple[Op, ...]:
    """The operators that the files of --ops make."""
    return getattr(args, "own_operators", ())


def custom(args: argparse.Namespace) -> Mapping[str, Callable[..., Any]] | None:
    """The converters that the files of --ops make; None where they make none."""
    return getattr(args, "own_converters", None)


def loaded(args: argparse.Namespace, shapes: Mapping[str, Any] | None) -> Module:
    """The model as a module, with these shapes of inputs."""
    from legato.driver import load_model

    return load_model(program(args), shapes=shapes, ops=operators(args), custom=custom(args), constants=constants(args))


def module(args: argparse.Namespace) -> Module:
    """The model as a typed module."""
    from legato.transform.infer_types import InferTypes

    return InferTypes()(loaded(args, shapes(args)))


def is_artifact(path: Path) -> bool:
    """Whether `path` is named as compiled programs are."""
    return path.suffix == ".legato"


def executable(args: argparse.Namespace, tell: Tell, generators: Sequence[Any] = ()) -> Executable:
    """The compiled program in the file, or the model in it compiled, with these code generators."""
    import legato

    if not is_artifact(args.model):
        found = legato.compile(  # of a module of PyTorch it is something else
            program(args),
            shapes=shapes(args),
            constants=constants(args),
            ops=operators(args),
            custom=custom(args),
            target=args.target,
            threads=args.threads,
            progress=tell,
            precision=args.precision,
            generators=generators,
        )
        return cast("Executable", found)
    refuse(args, f"{args.model} is compiled already", *OF_MODELS)
    tell("loading")
    return legato.load(args.model, threads=args.threads, ops=operators(args), generators=generators)


def read_arrays(path: Path) -> dict[str, np.ndarray] | list[np.ndarray]:
    """The arrays of a .npz file by name, or the one in a .npy file; RunError where it is neither."""
    import numpy as np

    from legato.base.codes import restored

    with open_regular(path) as file:
        try:
            found: Any = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return [restored(found)]
        except Exception as error:  # whatever NumPy makes of other bytes
            raise RunError(f"{path} holds no arrays: wanted a .npz or .npy file") from error
        try:
            return {name: restored(found[name]) for name in found.files}
        except Exception as error:  # the same
            raise RunError(f"{path} holds what is no array: {error}") from error
