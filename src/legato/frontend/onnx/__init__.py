"""ONNX models → Legato modules: operator sets 1 to the newest of the installed `onnx` package.

    mod = from_onnx("model.onnx")                                       one function, @main
    mod = from_onnx("model.onnx", shapes={"x": (1, 3, "h", "w:32..960")})
    mod = from_onnx("model.onnx", constants={"rate": 16000})
    mod = from_onnx(model_proto, custom={"my.domain::Twice": twice})
    report = check("model.onnx")                                        what it is, and what of it cannot be compiled

`shapes` says what the dims of inputs are: a number fixes one, a text names it (equal names are equal dims; a range may
follow: "w:32..960"), None leaves it as the file has it. `constants` gives inputs their values for good: they are no
parameters then, and branches that depend on them alone are decided. `custom` gives converters of operators, Legato's
own or new:

    def twice(b: Emitter, x: Expr, *, scale: float = 2.0) -> Expr:      keyword-only parameters are the attributes
        return b.multiply(x, scale)

If, Loop and Scan become If and functions that call themselves last (`control`, `scans`, `loops`; `frames` are their
`bodies`). A loop of few rounds is unrolled where its types change from round to round. A sequence of known length is a
tuple, one of any length the prelude's List, whose elements are in `cells` where their shapes differ; an optional value
is its Option (`containers`). `shapes` may list the shapes of a sequence's elements, which makes its length known.

How a model becomes a module: `reader` parses the file; `graph` orders and checks its nodes; `importer` walks them and
asks `signature` for the converter of each, which lies in a file of `operators`; converters write with `emitter`, whose
`dims` turns the tensors in which exporters compute shapes into dims (`ratio`: those that go through floats). `inputs`
types the inputs, `tensors`, `sparse` and `external` read weights. Of the `onnx` package only the message classes are
used: none of its code sees the model, but for a node of an operator that Legato has no converter for and that the
standard defines by others (`schema_functions`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

    from legato.frontend.onnx.importer import Custom
    from legato.frontend.onnx.inputs import Constants, Shapes
    from legato.frontend.onnx.report import Report
    from legato.ir.module import Module

__all__ = ["check", "from_onnx"]


def from_onnx(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    shapes: Shapes | None = None,
    custom: Custom | None = None,
    constants: Constants | None = None,
) -> Module:
    """The module of an ONNX model: a path, a file's content, or a message. Its function is @main.

    Initializers become constants, external data is read from files beside the model (only where a path is given). The
    function's attribute `output_names` has the names of the outputs. What a ZipMap makes is the matrix that its maps
    are of: `output_keys` has the keys of its columns by the name of the output. Raises ImportModelError for a file that
    cannot be read, UnsupportedError with every node that cannot be compiled, TypeCheckError for an ill-typed model.
    """
    from legato.frontend.onnx.importer import Importer  # onnx is imported on use
    from legato.frontend.onnx.reader import read

    return Importer(read(model), shapes, custom, constants).module()


def check(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    shapes: Shapes | None = None,
    custom: Custom | None = None,
    constants: Constants | None = None,
) -> Report:
    """What a model is, and everything of it that cannot be compiled; ImportModelError only where it cannot be read,
    UnsupportedError where its operator set is newer than those that are."""
    from legato.frontend.onnx.importer import Importer
    from legato.frontend.onnx.reader import read

    return Importer(read(model), shapes, custom, constants).report()
