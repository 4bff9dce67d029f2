"""Pictures in files as tensors: image.decode, which Pillow does on the host."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import RunError, UnsupportedError
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._computed import as_dims
from legato.ops._rules import require_dtype, require_rank, tensor
from legato.ops._tensors import Array, require_choice

__all__ = ["DecodeAttrs", "decode", "decode_like", "decode_size"]

# Formats that are read; others that Pillow knows are not, and none of them runs a program of its own.
_FORMATS: Final = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
_CHANNELS: Final = {"RGB": 3, "BGR": 3, "Grayscale": 1}


@dataclass(frozen=True, slots=True)
class DecodeAttrs(Attrs):
    """`pixel_format`: RGB, BGR or Grayscale."""

    pixel_format: str = "RGB"


def _relation(rel: Relation, data: Type, a: DecodeAttrs) -> Type:
    require_choice(rel, "pixel_format", a.pixel_format, _CHANNELS)
    _checked(rel, data)
    return TensorType((rel.fresh("height"), rel.fresh("width"), const(_CHANNELS[a.pixel_format])), dt.uint8)


def _is_byte(d: dt.DType) -> bool:
    return d == dt.uint8


_is_byte.__name__ = "uint8"


def _checked(rel: Relation, data: Type) -> None:
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, 1, what="data")
    require_dtype(rel, ty, _is_byte, "data")


def _size_relation(rel: Relation, data: Type) -> Type:
    _checked(rel, data)
    return TensorType((const(2),), dt.int64)


def _like_relation(rel: Relation, data: Type, like: Type, a: DecodeAttrs) -> Type:
    require_choice(rel, "pixel_format", a.pixel_format, _CHANNELS)
    _checked(rel, data)
    ty = tensor(rel, like, "like")
    require_rank(rel, ty, 3, what="like")
    require_dtype(rel, ty, _is_byte, "like")
    rel.same(ty.shape[2], const(_CHANNELS[a.pixel_format]), "channels")
    return ty


@contextmanager
def _picture(data: Array) -> Iterator[Any]:
    """The picture in a file, by Pillow; RunError where it is none, or one of more elements than pictures have."""
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError("image.decode needs Pillow", hint="pip install pillow") from None
    try:
        with Image.open(io.BytesIO(data.tobytes()), formats=_FORMATS) as found:
            if found.width * found.height > (Image.MAX_IMAGE_PIXELS or math.inf):  # Pillow warns only; filters of
                raise ValueError(f"{found.width} x {found.height} pixels")  # warnings are of all threads
            yield found
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise RunError(f"image.decode: {data.size} bytes that are no picture: {error}") from None


def _size_reference(data: Array) -> Array:
    with _picture(data) as found:
        return np.array([found.height, found.width], np.int64)


def _reference(data: Array, a: DecodeAttrs) -> Array:
    with _picture(data) as picture:
        found = np.asarray(picture.convert("L" if a.pixel_format == "Grayscale" else "RGB"))
    found = found[:, :, None] if a.pixel_format == "Grayscale" else found
    return np.ascontiguousarray(found[:, :, ::-1] if a.pixel_format == "BGR" else found)


def _like_reference(data: Array, like: Array, a: DecodeAttrs) -> Array:
    found = _reference(data, a)
    if found.shape != like.shape:
        raise RunError(f"image.decode: a picture of {found.shape[:2]} elements, wanted {like.shape[:2]}")
    return found


def _expand(b: Builder, data: Expr, a: DecodeAttrs) -> Expr:
    """The host says how large it is, and then decodes it."""
    data = b.let("file", data)
    size = as_dims(b, b.op("image.decode_size")(data), "picture")
    like = b.zeros(shape=(*size, _CHANNELS[a.pixel_format]), dtype=dt.uint8)
    return b.op("image.decode_like")(data, like, pixel_format=a.pixel_format)


def _bitmap(width: int, height: int) -> Array:
    """A picture as a file, with other colours everywhere."""
    row = -(-width * 3 // 4) * 4
    pixels = bytes((7 * n) % 256 for n in range(row * height))
    size = struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54)
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    return np.frombuffer(b"BM" + size + info + pixels, np.uint8)


decode = Op(
    name="image.decode",
    args=("data",),
    attrs=DecodeAttrs,
    type_rel=_relation,
    reference=_reference,
    expand=_expand,
    samples=(
        Sample((_bitmap(3, 2),), exact=True),
        Sample((_bitmap(5, 4),), {"pixel_format": "BGR"}, exact=True),
        Sample((_bitmap(2, 3),), {"pixel_format": "Grayscale"}, exact=True),
    ),
    doc="""[height, width, channels]: the picture in a file (BMP, JPEG, JPEG 2000, PNG, PPM, TIFF or WebP), of uint8.

The host runs it, by Pillow, which has to be installed.""",
)

decode_size = Op(
    name="image.decode_size",
    args=("data",),
    type_rel=_size_relation,
    reference=_size_reference,
    samples=(Sample((_bitmap(3, 2),), exact=True),),
    doc="Height and width of the picture in a file, as image.decode has it.",
)

decode_like = Op(
    name="image.decode_like",
    args=("data", "like"),
    attrs=DecodeAttrs,
    type_rel=_like_relation,
    reference=_like_reference,
    samples=(Sample((_bitmap(3, 2), np.zeros((2, 3, 3), np.uint8)), {"pixel_format": "BGR"}, exact=True),),
    doc="image.decode of a picture that has the extents of `like`.",
)
