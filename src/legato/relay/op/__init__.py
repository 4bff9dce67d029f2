"""The operators: `relay.op.add`, `relay.op.nn.conv2d`, `relay.op.get("nn.conv2d")`. They are relay's own names too.

Parameters and defaults are the original's. Functions are made from the operators' records when first asked for.
"""

from __future__ import annotations

from legato.relay.op import (
    _functions,
    algorithm,
    annotation,
    contrib,
    dyn,
    image,
    nn,
    op,
    random,
    reduce,
    signal,
    tensor,
    transform,
    vision,
)
from legato.relay.op.device import device_copy
from legato.relay.op.like import (
    broadcast_to_like,
    cast_like,
    collapse_sum_like,
    reshape_like,
    slice_like,
)
from legato.relay.op.made import matrix_set_diag, reverse_reshape, strided_set, trilu
from legato.relay.op.op import (
    Op,
    get,
    register_alter_op_layout,
    register_convert_op_layout,
    register_infer_correct_layout,
    register_legalize,
    register_mixed_precision_conversion,
)
from legato.relay.op.reduce import logsumexp, mean_std, mean_variance, std, variance
from legato.relay.op.signal import stft

__all__ = [
    "Op",
    "algorithm",
    "annotation",
    "broadcast_to_like",
    "cast_like",
    "collapse_sum_like",
    "contrib",
    "device_copy",
    "dyn",
    "get",
    "image",
    "logsumexp",
    "matrix_set_diag",
    "mean_std",
    "mean_variance",
    "nn",
    "op",
    "random",
    "reduce",
    "register_alter_op_layout",
    "register_convert_op_layout",
    "register_infer_correct_layout",
    "register_legalize",
    "register_mixed_precision_conversion",
    "reshape_like",
    "reverse_reshape",
    "signal",
    "slice_like",
    "std",
    "stft",
    "strided_set",
    "tensor",
    "transform",
    "trilu",
    "variance",
    "vision",
]  # fmt: skip

__getattr__, __dir__ = _functions.namespace("", globals())
