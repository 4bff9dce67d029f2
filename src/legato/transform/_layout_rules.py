"""How operators take operands that are held in other layouts, and how their results are held then, as data.

A rule is told how operands are held, and says what it wants and what comes out; `Found.args` of None want an operand as
the program has it. No rule, or one that finds nothing, is a barrier: its operands are as the program has them.

    elementwise           holds its result as its operand
    broadcasting          brings all operands into the layout of the first that has all dims, and another layout than in
                          the program; smaller operands get dims in front
    axes                  follows them: concatenation, splits, slices, padding, reductions, norms
    layouts (attributes)  says the other layout
    transposes            only name dims otherwise
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from legato.arith.assume import surely_equal
from legato.arith.expr import Const, Expr, const
from legato.base.dataclass import dataclass
from legato.ir.expr import Call
from legato.ir.layout import Layout, divided, layout
from legato.ir.op import Fusion, Op
from legato.ir.types import Dim, TensorType

__all__ = ["Found", "Placing", "Rule", "Site", "fits", "rule_of"]

_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Placing:
    """A tensor that has layout `old` in the program is held in layout `new` of the same axes."""

    old: Layout
    new: Layout

    @property
    def is_plain(self) -> bool:
        """Whether it is held as in the program."""
        return self.old == self.new

    @property
    def plain(self) -> Placing:
        """As in the program."""
        return Placing(self.old, self.old)

    @property
    def key(self) -> tuple[Layout, Layout]:
        """What is the same whatever axes are called."""
        names = dict(zip(self.old.letters, _ALPHABET, strict=False))
        return self.old.renamed(names), self.new.renamed(names)

    def is_seen_as(self, other: Layout) -> bool:
        """Whether `other` is the layout in the program, up to the names of axes."""
        return self.key[0] == Placing(other, other).key[0]

    def seen_as(self, other: Layout) -> Placing:
        """The same with the axes' names of `other`, which is the layout in the program."""
        names = dict(zip(self.old.letters, other.letters, strict=True))
        return Placing(other, self.new.renamed(names))

    def without(self, letters: Iterable[str]) -> Placing:
        """That of a tensor without some of the axes."""
        gone = set(letters)
        return Placing(*(Layout(tuple(d for d in side.dims if d[0] not in gone)) for side in (self.old, self.new)))

    def with_ones(self, letters: Iterable[str]) -> Placing:
        """That of a tensor in which some of the axes have extent 1: so have their blocks."""
        ones = set(letters)
        return Placing(*(
            Layout(tuple((name, 1 if size and name in ones else size) for name, size in side.dims))
            for side in (self.old, self.new)
        ))  # fmt: skip

    def whole(self, axis: int) -> int | None:
        """The dim as which dim `axis` is held; None where one of them is in blocks."""
        letter = self.old.dims[axis][0]
        there = self.new.places(letter)
        return there[0] if len(there) == len(self.old.places(letter)) == 1 else None

    def wholes(self, axes: Iterable[int]) -> tuple[int, ...] | None:
        """`whole` of several dims."""
        found = tuple(n for n in map(self.whole, axes) if n is not None)
        return found if len(found) == len(tuple(axes)) else None


@dataclass(frozen=True, slots=True)
class Site:
    """A call: as it is in the program (`call`), or as what stands for it, which may have other layouts as attributes;
    how its operands (a tuple's fields one by one) are held, and their types in the program."""

    call: Call
    op: Op
    attrs: Any
    args: tuple[Placing | None, ...]
    types: tuple[TensorType, ...]

    @property
    def first(self) -> Placing | None:
        """How the first operand is held."""
        return self.args[0] if self.args else None

    @property
    def is_changed(self) -> bool:
        """Whether something else stands for the call."""
        return self.op is not self.call.op or self.attrs != self.call.attrs


@dataclass(frozen=True, slots=True)
class Found:
    """The attributes, what is wanted of operands, how results are held. alias: the result is the first operand, held as
    this says."""

    attrs: Any
    args: tuple[Placing | None, ...]
    out: tuple[Placing | None, ...]
    alias: Placing | None = None


Rule = Callable[[Site], Found | None]


def fits(placing: Placing, shape: Sequence[Dim]) -> bool:
    """Whether blocks surely divide the axes of a tensor of `shape`, and it is cut as the program's layout says."""
    extents = placing.old.extents(shape)
    pairs = zip(shape, placing.old.dims, strict=True)
    is_cut = all(not size or surely_equal(d, const(size)) for d, (_, size) in pairs)
    return is_cut and all(divided(extents[name], placing.new.block(name)) is not None for name in extents)


def rule_of(op: Op, more: Mapping[str, Rule]) -> Rule | None:
    """The rule of an operator; `more` has some of its own."""
    found = more.get(op.name) or RULES.get(op.name)
    if found is not None or not isinstance(op.fusion, Fusion):
        return found
    if op.fusion is Fusion.ELEMWISE and len(op.args) == 1:
        return _elementwise
    return _broadcast if op.fusion in (Fusion.BROADCAST, Fusion.ELEMWISE) and op.attrs is None else None


# ------------------------------------------------------------------ element by element


def _elementwise(s: Site) -> Found | None:
    if s.first is None:
        return None
    fields = getattr(s.call.ty, "fields", (s.call.ty,))
    return Found(s.attrs, s.args, (s.first,) * len(fields))


def _broadcast(s: Site) -> Found | None:
    out = s.call.ty
    if not isinstance(out, TensorType):
        return None
    held = next((p for p in s.args if p is not None and len(p.old.dims) == out.rank), None)
    if held is None:
        return None
    args = [_beside(held, ty, out) for ty in s.types]
    if any(a is None and ty.rank for a, ty in zip(args, s.types, strict=True)):
        return None
    return Found(s.attrs, tuple(args), (held,))


def _beside(held: Placing, ty: TensorType, out: TensorType) -> Placing | None:
    """How an operand is to be held beside one of `held`; None where it has no dims, or no layout fits."""
    if ty.rank == 0:
        return None
    shape = (const(1),) * (out.rank - ty.rank) + tuple(ty.shape)
    ones = []
    for letter in held.old.letters:
        places = held.old.places(letter)
        if len(places) == len(held.new.places(letter)) == 1:
            continue
        if all(_is(shape[n], 1) for n in places):
            ones.append(letter)
        elif not all(shape[n] is out.shape[n] or surely_equal(shape[n], out.shape[n]) for n in places):
            return None
    return held.with_ones(ones)


def _is(d: Expr, value: int) -> bool:
    return isinstance(d, Const) and d.value == value


# ------------------------------------------------------------------ layouts as attributes


def _windows(s: Site) -> Found | None:
    """Convolutions: of the layouts that what stands for them says."""
    if not s.is_changed:
        return None
    old, new = s.call.attrs, s.attrs
    data = Placing(layout(old.data_layout), layout(new.data_layout))
    weight = Placing(layout(old.kernel_layout), layout(new.kernel_layout))
    out = Placing(layout(old.out_layout or old.data_layout), layout(new.out_layout or new.data_layout))
    return Found(new, (data, weight), (out,))


def _dense(s: Site) -> Found | None:
    """Matrix products: of the weight's layout that what stands for them says."""
    if not s.is_changed:
        return None
    weight = Placing(*(layout(getattr(a, "weight_layout", "NC")) for a in (s.call.attrs, s.attrs)))
    return Found(s.attrs, (None, weight), (None,))


def _images(s: Site) -> Found | None:
    """Poolings, resizes and their like: of the layout that what stands for them says, or that of their data."""
    old = layout(s.call.attrs.layout)
    given = getattr(s.call.attrs, "out_layout", "")
    if s.is_changed:
        new, after = layout(s.attrs.layout), getattr(s.attrs, "out_layout", "")
        out = Placing(layout(given) if given else old, layout(after) if after else new)
        return Found(s.attrs, (Placing(old, new),), (out,))
    if s.first is None or not s.first.is_seen_as(old):
        return None
    data = s.first.seen_as(old)
    out = data
    attrs = replace(s.attrs, layout=str(data.new))
    if given and layout(given) != old:
        out = Placing(layout(given), layout(given))
    elif given:
        attrs = replace(attrs, out_layout=str(data.new))
    return Found(attrs, (data,), (out,))


# ------------------------------------------------------------------ axes as attributes


def _along(s: Site) -> Found | None:
    """Operators of an axis, or several: what else they take lies along it."""
    held = s.first
    if held is None:
        return None
    given = s.attrs.axis
    axes = (given,) if isinstance(given, int) else tuple(given)
    found = held.wholes([a % len(held.old.dims) for a in axes])
    if found is None or (len(found) > 1 and list(found) != sorted(found)):
        return None
    attrs = replace(s.attrs, axis=found[0] if isinstance(given, int) else found)
    more = len(getattr(s.call.ty, "fields", (s.call.ty,))) - 1
    return Found(attrs, (held, *(None for _ in s.args[1:])), (held, *(None,) * more))


def _normalise(s: Site) -> Found | None:
    """Norms of each image: the batch is dim 0, whatever the axis is."""
    return None if s.first is None or s.first.whole(0) != 0 else _along(s)


def _reduce(s: Site) -> Found | None:
    held = s.first
    if held is None:
        return None
    rank, given = len(held.old.dims), s.attrs.axis
    listed = tuple(range(rank)) if given is None else (given,) if isinstance(given, int) else given
    axes = {a % rank for a in listed}
    if getattr(s.attrs, "exclude", False):
        axes = set(range(rank)) - axes
    letters = {held.old.dims[a][0] for a in axes}
    if any(not axes.issuperset(held.old.places(letter)) for letter in letters):
        return None
    new = tuple(n for n, (letter, _) in enumerate(held.new.dims) if letter in letters)
    attrs = replace(s.attrs, axis=new, exclude=False)
    out = held.with_ones(letters) if s.attrs.keepdims else held.without(letters)
    return Found(attrs, (held,), (out,))


def _position(s: Site) -> Found | None:
    """Where the largest or smallest element is: along one axis."""
    held = s.first
    if held is None or not isinstance(axis := s.attrs.axis, int) or s.attrs.exclude:
        return None
    found = held.whole(axis % len(held.old.dims))
    if found is None:
        return None
    letter = held.old.dims[axis % len(held.old.dims)][0]
    out = held.with_ones(letter) if s.attrs.keepdims else held.without(letter)
    return Found(replace(s.attrs, axis=found), (held,), (out,))


def _concatenate(s: Site) -> Found | None:
    held = next((p for p in s.args if p is not None), None)
    if held is None:
        return None
    letter, size = held.old.dims[s.attrs.axis % len(held.old.dims)]
    if size:
        return None
    attrs = replace(s.attrs, axis=held.new.places(letter)[0])
    return Found(attrs, (held,) * len(s.args), (held,))


def _split(s: Site) -> Found | None:
    held = s.first
    if held is None:
        return None
    letter, size = held.old.dims[s.attrs.axis % len(held.old.dims)]
    parts = s.attrs.indices_or_sections
    if size or (not isinstance(parts, int) and held.whole(s.attrs.axis % len(held.old.dims)) is None):
        return None
    attrs = replace(s.attrs, axis=held.new.places(letter)[0])
    return Found(attrs, (held,), (held,) * len(getattr(s.call.ty, "fields", ())))


def _slice(s: Site) -> Found | None:
    if s.first is None:
        return None
    rank = len(s.first.old.dims)
    axes = tuple(range(len(s.attrs.begin))) if s.attrs.axes is None else s.attrs.axes
    found = s.first.wholes([a % rank for a in axes])
    return None if found is None else Found(replace(s.attrs, axes=found), (s.first,), (s.first,))


def _pad(s: Site) -> Found | None:
    held, widths = s.first, s.attrs.pad_width
    if held is None:
        return None
    wide = [n for n, pair in enumerate(widths) if not all(w == 0 or (isinstance(w, Expr) and _is(w, 0)) for w in pair)]
    found = held.wholes(wide)
    if found is None:
        return None
    there = {new: widths[old] for old, new in zip(wide, found, strict=True)}
    width = tuple(there.get(n, (0, 0)) for n in range(len(held.new.dims)))
    return Found(replace(s.attrs, pad_width=width), (held, None), (held,))


def _squeeze(s: Site) -> Found | None:
    held = s.first
    if held is None:
        return None
    shape, given = s.types[0].shape, s.attrs.axis
    if given is None:
        given = tuple(n for n, d in enumerate(shape) if _is(d, 1))
    axes = {a % len(shape) for a in ((given,) if isinstance(given, int) else given)}
    letters = {held.old.dims[a][0] for a in axes}
    if any(not axes.issuperset(held.old.places(letter)) for letter in letters):
        return None
    new = tuple(n for n, (letter, _) in enumerate(held.new.dims) if letter in letters)
    return Found(replace(s.attrs, axis=new), (held,), (held.without(letters),))


def _expand(s: Site) -> Found | None:
    """New dims stay in front of the dim that they are in front of, or last."""
    held, count = s.first, s.attrs.num_newaxis
    if held is None:
        return None
    rank = len(held.old.dims)
    at = s.attrs.axis if s.attrs.axis >= 0 else s.attrs.axis + rank + 1
    unused = [letter for letter in _ALPHABET if letter not in held.old.letters][:count]
    if (at < rank and held.old.dims[at][1]) or len(unused) < count:
        return None
    there = len(held.new.dims) if at >= rank else held.new.places(held.old.dims[at][0])[0]
    added = tuple((letter, 0) for letter in unused)
    out = Placing(_inserted(held.old, at, added), _inserted(held.new, there, added))
    return Found(replace(s.attrs, axis=there), (held,), (out,))


def _inserted(side: Layout, at: int, dims: tuple[tuple[str, int], ...]) -> Layout:
    return Layout((*side.dims[:at], *dims, *side.dims[at:]))


# ------------------------------------------------------------------ other names for dims


def _transpose(s: Site) -> Found | None:
    """The result is the operand, whose dims are named in another order."""
    rank = s.types[0].rank
    if rank > len(_ALPHABET):
        return None
    names = Layout(tuple((letter, 0) for letter in _ALPHABET[:rank]))
    held = s.first or Placing(names, names)
    axes = tuple(range(rank))[::-1] if not s.attrs.axes else [a % rank for a in s.attrs.axes]
    out = Layout(tuple(held.old.dims[a] for a in axes))
    if any(_blocks(out, letter) != _blocks(held.old, letter) for letter in out.letters):
        return None
    return Found(s.attrs, (held,), (), Placing(out, held.new))


def _blocks(side: Layout, letter: str) -> list[int]:
    return [side.dims[n][1] for n in side.places(letter)]


def _relabelled(s: Site) -> Found | None:
    """layout_transform: the result is the operand, which has the other layout in the program."""
    source, target = layout(s.attrs.src_layout), layout(s.attrs.dst_layout)
    held = s.first or Placing(source, source)
    if not held.is_seen_as(source) or not fits(Placing(source, target), s.types[0].shape):
        return None
    return Found(s.attrs, (held,), (), Placing(target, held.seen_as(source).new))


_POOLS: Final = tuple(f"{kind}_pool{n}d" for kind in ("max", "avg", "adaptive_max", "adaptive_avg") for n in (1, 2, 3))
_CONVOLUTIONS: Final = tuple(f"nn.conv{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_transpose"))
RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys((*_CONVOLUTIONS, "nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc"), _windows),
    **dict.fromkeys(("nn.dense", "nn.contrib_dense_pack"), _dense),
    **{f"nn.{name}": _images for name in (*_POOLS, "global_max_pool2d", "global_avg_pool2d")},
    **dict.fromkeys(
        ("nn.upsampling", "nn.upsampling3d", "nn.depth_to_space", "nn.space_to_depth", "image.resize1d",
         "image.resize2d", "image.resize3d"), _images),
    **dict.fromkeys(
        ("nn.bias_add", "nn.prelu", "nn.batch_norm", "nn.softmax", "nn.log_softmax", "nn.lrn", "nn.l2_normalize",
         "nn.layer_norm", "reverse", "repeat"), _along),
    **dict.fromkeys(("nn.group_norm", "nn.instance_norm"), _normalise),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "all", "any"), _reduce),
    "argmax": _position,
    "argmin": _position,
    "concatenate": _concatenate,
    "split": _split,
    "strided_slice": _slice,
    "nn.pad": _pad,
    "squeeze": _squeeze,
    "expand_dims": _expand,
    "transpose": _transpose,
    "layout_transform": _relabelled,
}  # fmt: skip
