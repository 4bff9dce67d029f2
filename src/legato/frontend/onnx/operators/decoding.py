"""Pictures in files."""

from __future__ import annotations

from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr


def image_decoder(b: Emitter, encoded_stream: Expr, *, pixel_format: str = "RGB") -> Expr:
    """Decoded on the host by Pillow, which has to be installed where the model runs."""
    return b.let("picture", b.image.decode(encoded_stream, pixel_format=pixel_format))
