"""Which operators compute in 16 bits where precision is mixed: always, where their operands are in 16 bits, never."""

from __future__ import annotations

from typing import Final

__all__ = ["ALWAYS", "FOLLOW", "FREE", "NEVER"]

# Sums of products: what 16 bits make faster.
ALWAYS: Final = frozenset({
    "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose",
    "nn.dense", "nn.matmul", "nn.batch_matmul", "matmul",
})  # fmt: skip

# What moves, compares or combines a few elements, and functions whose values are no larger than their arguments.
FOLLOW: Final = frozenset({
    "nn.pad", "nn.batch_flatten", "concatenate", "stack", "split", "squeeze", "transpose", "expand_dims", "reshape",
    "dyn.reshape", "broadcast_to", "dyn.broadcast_to", "strided_slice", "dyn.strided_slice", "take", "gather",
    "gather_nd", "where", "tile", "dyn.tile", "repeat", "reverse", "scatter_elements", "nn.depth_to_space",
    "nn.space_to_depth", "zeros_like", "ones_like", "less", "greater", "less_equal", "greater_equal", "equal",
    "not_equal", "copy", "cast", "add", "subtract", "multiply", "divide", "negative", "abs", "sign", "nn.bias_add",
    "nn.batch_norm", "sqrt", "max", "min", "maximum", "minimum", "argmax", "argmin", "nn.relu", "nn.leaky_relu",
    "nn.prelu", "nn.dropout", "clip", "sigmoid", "tanh", "fast_tanh", "fast_exp", "fast_erf", "nn.elu", "nn.celu",
    "nn.selu", "nn.silu", "nn.gelu", "nn.mish", "nn.softsign", "nn.hard_swish", "nn.hard_sigmoid",
    "nn.thresholded_relu", "shape_of", "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d", "nn.avg_pool1d",
    "nn.avg_pool2d", "nn.avg_pool3d", "nn.global_max_pool2d", "nn.global_avg_pool2d", "nn.adaptive_max_pool1d",
    "nn.adaptive_max_pool2d", "nn.adaptive_max_pool3d", "nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d",
    "nn.adaptive_avg_pool3d", "image.resize2d", "nn.upsampling", "layout_transform",
    "stop_gradient",
})  # fmt: skip

# What may be much larger than its arguments, or sums up much, or counts.
NEVER: Final = frozenset({
    "exp", "power", "log", "log2", "log10", "erf", "rsqrt", "nn.softmax", "nn.fast_softmax", "nn.log_softmax",
    "nn.l2_normalize", "nn.layer_norm", "nn.group_norm", "nn.instance_norm", "nn.rms_norm", "nn.lrn", "nn.softplus",
    "arange", "dyn.arange", "sum", "prod", "mean", "variance", "cumsum", "cumprod", "argwhere", "nn.rnn_scan",
    "nn.cross_entropy", "nn.cross_entropy_with_logits", "nn.nll_loss", "nn.softmax_cross_entropy", "nn.kl_div",
    "nn.mse_loss", "nn.binary_cross_entropy_with_logits", "nn.gru_scan", "nn.linear_scan", "nn.lstm_scan",
    "collapse_sum_to", "linear_recurrence",
})  # fmt: skip

# What is made of nothing, and may be made in 16 bits as well.
FREE: Final = frozenset({
    "zeros", "ones", "full", "zeros_like", "ones_like",
})  # fmt: skip
