"""What the original's operator functions were called with, where a record does not say it.

A function's parameters are the arguments of its operator's record, then its attributes with their defaults. Only where
the original's differ in order, names or defaults do they stand here, as Python writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["RENAMED", "RESULTS", "SIGNATURES"]

_CONV = "groups=1, channels=None, kernel_size=None"
_POOL = "out_layout='', ceil_mode=False"
_RESIZE = (
    "method='linear', coordinate_transformation_mode='half_pixel', rounding_method='', cubic_alpha=-0.5,"
    " cubic_exclude=0, extrapolation_value=0.0, out_dtype=None"
)
_FROM = "input_scale, input_zero_point"
_BOTH = "input_zero_point, kernel_zero_point, input_scale, kernel_scale"


def _transposed(ones: str, zeros: str, data: str, kernel: str) -> str:
    return (
        f"data, weight, strides={ones}, padding={zeros}, dilation={ones}, {_CONV}, data_layout='{data}',"
        f" kernel_layout='{kernel}', out_layout='', output_padding={zeros}, out_dtype=''"
    )


SIGNATURES: Final[Mapping[str, str]] = {
    "arange": "start, stop=None, step=None, dtype='float32'",
    "argmax": "data, axis=None, keepdims=False, exclude=False, select_last_index=False",
    "argmin": "data, axis=None, keepdims=False, exclude=False, select_last_index=False",
    "broadcast_to": "data, shape",
    "clip": "a, a_min, a_max",
    "concatenate": "data, axis",
    "einsum": "data, equation",
    "full": "data, shape=(), dtype=''",
    "gather": "data, axis, indices",
    "image.resize1d": f"data, size, roi=None, layout='NCW', {_RESIZE}",
    "image.resize2d": f"data, size, roi=None, layout='NCHW', {_RESIZE}",
    "image.resize3d": f"data, size, roi=None, layout='NCDHW', {_RESIZE}",
    "nn.adaptive_avg_pool1d": "data, output_size=None, layout='NCW', out_layout=''",
    "nn.adaptive_avg_pool2d": "data, output_size=None, layout='NCHW', out_layout=''",
    "nn.adaptive_avg_pool3d": "data, output_size=None, layout='NCDHW', out_layout=''",
    "nn.adaptive_max_pool1d": "data, output_size=None, layout='NCW', out_layout=''",
    "nn.adaptive_max_pool2d": "data, output_size=None, layout='NCHW', out_layout=''",
    "nn.adaptive_max_pool3d": "data, output_size=None, layout='NCDHW', out_layout=''",
    "nn.avg_pool1d": f"data, pool_size=(1,), strides=(1,), dilation=(1,), padding=(0,), layout='NCW', {_POOL},"
    " count_include_pad=False",
    "nn.avg_pool2d": f"data, pool_size=(1, 1), strides=(1, 1), dilation=(1, 1), padding=(0, 0), layout='NCHW', {_POOL},"
    " count_include_pad=False",
    "nn.avg_pool3d": "data, pool_size=(1, 1, 1), strides=(1, 1, 1), dilation=(1, 1, 1), padding=(0, 0, 0),"
    f" layout='NCDHW', {_POOL}, count_include_pad=False",
    "nn.avg_pool2d_grad": f"out_grad, data, pool_size=(1, 1), strides=(1, 1), padding=(0, 0), layout='NCHW', {_POOL},"
    " count_include_pad=True",
    "nn.contrib_dense_pack": "data, weight, weight_layout='NC', units=None, out_dtype=''",
    "nn.conv1d": f"data, weight, strides=1, padding=0, dilation=1, {_CONV},"
    " data_layout='NCW', kernel_layout='OIW', out_layout='', out_dtype=''",
    "nn.conv1d_transpose": _transposed("(1,)", "(0,)", "NCW", "IOW"),
    "nn.conv2d_transpose": _transposed("(1, 1)", "(0, 0)", "NCHW", "IOHW"),
    "nn.conv3d_transpose": _transposed("(1, 1, 1)", "(0, 0, 0)", "NCDHW", "IODHW"),
    "nn.group_norm": "data, gamma, beta, num_groups, axis=1, epsilon=1e-05, center=True, scale=True",
    "nn.l2_normalize": "data, eps, axis=None",
    "nn.leaky_relu": "data, alpha",
    "nn.lrn": "data, size=5, axis=1, bias=2, alpha=1e-05, beta=0.75",
    "nn.max_pool1d": f"data, pool_size=(1,), strides=(1,), dilation=(1,), padding=(0,), layout='NCW', {_POOL}",
    "nn.max_pool2d": f"data, pool_size=(1, 1), strides=(1, 1), dilation=(1, 1), padding=(0, 0), layout='NCHW', {_POOL}",
    "nn.max_pool3d": "data, pool_size=(1, 1, 1), strides=(1, 1, 1), dilation=(1, 1, 1), padding=(0, 0, 0),"
    f" layout='NCDHW', {_POOL}",
    "nn.max_pool2d_grad": f"out_grad, data, pool_size=(1, 1), strides=(1, 1), padding=(0, 0), layout='NCHW', {_POOL}",
    "nn.pad": "data, pad_width, pad_value=0, pad_mode='constant'",
    "nn.space_to_batch_nd": "data, block_shape, paddings, pad_value=0",
    "nn.upsampling": "data, scale_h=1, scale_w=1, layout='NCHW', method='nearest_neighbor', align_corners=False",
    "nn.upsampling3d": "data, scale_d=1, scale_h=1, scale_w=1, layout='NCDHW', method='nearest_neighbor',"
    " coordinate_transformation_mode='half_pixel'",
    "one_hot": "indices, on_value, off_value, depth, axis, dtype",
    "ones": "shape, dtype",
    "qnn.avg_pool2d": f"data, {_FROM}, output_scale, output_zero_point, pool_size, strides=(1, 1), padding=(0, 0),"
    " dilation=(1, 1), ceil_mode=False, count_include_pad=True, layout='NHWC', out_layout=''",
    "qnn.concatenate": "data, input_scales, input_zero_points, output_scale, output_zero_point, axis",
    "qnn.contrib_dense_pack": f"data, weight, {_BOTH}, kernel_layout='NC', units=None, out_dtype='int32'",
    "qnn.conv2d": f"data, kernel, {_BOTH}, kernel_size=None, channels=None, strides=(1, 1), padding=(0, 0),"
    " dilation=(1, 1), groups=1, data_layout='NCHW', kernel_layout='OIHW', out_layout='', out_dtype='int32'",
    "qnn.conv2d_transpose": f"data, weight, {_BOTH}, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1,"
    " channels=None, kernel_size=None, data_layout='NCHW', kernel_layout='IOHW', out_layout='', output_padding=(0, 0),"
    " out_dtype='int32'",
    "qnn.dense": f"data, weight, {_BOTH}, units=None, out_dtype='int32'",
    "qnn.dequantize": f"data, {_FROM}, axis=-1, out_dtype='float32', block_size=0",
    "qnn.leaky_relu": f"x, alpha, {_FROM}, output_scale, output_zero_point",
    "qnn.quantize": "data, output_scale, output_zero_point, axis=-1, out_dtype='int8', block_size=0",
    "sort": "data, axis=-1, is_ascend=1",
    "sparse_to_dense": "sparse_indices, output_shape, sparse_values, default_value=0",
    "stack": "data, axis",
    "strided_slice": "data, begin, end, strides=None, axes=None, slice_mode='end'",
    "take": "data, indices, axis=None, batch_dims=0, mode='clip'",
    "topk": "data, k=1, axis=-1, ret_type='both', is_ascend=False, dtype='int32'",
    "unique": "data, is_sorted=True, return_counts=False",
    "zeros": "shape, dtype",
}

# Parameters that the record calls otherwise: (operator, parameter) -> argument or attribute.
RENAMED: Final[Mapping[tuple[str, str], str]] = {
    ("clip", "a"): "data",
    ("full", "data"): "fill_value",
    ("qnn.contrib_dense_pack", "kernel_layout"): "weight_layout",
    ("qnn.conv2d", "kernel"): "weight",
    ("qnn.leaky_relu", "input_scale"): "scale",
    ("qnn.leaky_relu", "input_zero_point"): "zero_point",
    ("unique", "is_sorted"): "sorted",
}

# Operators that give tuples, of a size that does not depend on their attributes.
RESULTS: Final[Mapping[str, int]] = {
    "dft": 2,
    "nn.batch_norm": 3,
    "random.dropout": 2,
    "random.multinomial": 2,
    "random.normal": 2,
    "random.threefry_generate": 2,
    "random.threefry_split": 2,
    "random.uniform": 2,
    "rdft": 2,
    "sparse_fill_empty_rows": 3,
    "sparse_reshape": 2,
    "vision.multibox_transform_loc": 2,
    "vision.regular_non_max_suppression": 4,
}
