"""Layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from legato.base.errors import TypeCheckError, UnsupportedError
from legato.relax.frontend.nn import op
from legato.relax.frontend.nn.core import Module, ModuleList, Parameter, Tensor
from legato.relax.frontend.nn.effects import IOEffect, KVCache

__all__ = ["GELU", "Attention", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D", "ConvTranspose2D", "Embedding",
           "GroupNorm", "IOEffect", "Identity", "KVCache", "LayerNorm", "Linear", "RMSNorm", "ReLU", "SiLU",
           "TimestepEmbedding", "Timesteps"]  # fmt: skip


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        """Of any shape."""
        return op.relu(x)


class SiLU(Module):
    """x · sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Of any shape."""
        return op.silu(x)


class GELU(Module):
    """x · Φ(x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Of any shape."""
        return op.gelu(x)


class Identity(Module):
    """x."""

    def forward(self, x: Any) -> Any:
        """Of anything."""
        return x


class Linear(Module):
    """`x·weightᵀ + bias`, over the last axis of `x`."""

    def __init__(
        self, in_features: Any, out_features: Any, bias: bool = True, dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:  # fmt: skip
        self.in_features, self.out_features, self.out_dtype = in_features, out_features, out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = Parameter((out_features,), out_dtype or dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Of (…, in_features): (…, out_features)."""
        found = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        return found if self.bias is None else op.add(found, self.bias)

    def to(self, dtype: str | None = None) -> None:
        """Another dtype of the weight, and of the bias where `out_dtype` does not give it."""
        self.weight.to(dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype)


class Embedding(Module):
    """Rows of a table of `num` rows and `dim` columns."""

    def __init__(self, num: Any, dim: Any, dtype: str | None = None) -> None:
        self.num, self.dim = num, dim
        self.weight = Parameter((num, dim), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Of row numbers (…): (…, dim)."""
        return op.take(self.weight, x, axis=0)


# ---------------------------------------------------------------------- convolutions


class _Conv(Module):
    """Weights of a convolution over `dims` axes."""

    dims: int
    operator: Callable[..., Tensor]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
        dtype: str | None = None,
    ) -> None:  # fmt: skip
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise TypeCheckError(f"{in_channels} and {out_channels} channels in {groups} groups")
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        window = [kernel_size] * self.dims if isinstance(kernel_size, int) else list(kernel_size)
        if len(window) != self.dims:
            raise TypeCheckError(
                f"{type(self).__name__} with a kernel_size of {kernel_size}, wanted {self.dims} extents"
            )
        self.weight = Parameter((*self._channels(), *window), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    def _channels(self) -> tuple[int, int]:
        """The first extents of the weight."""
        return self.out_channels, self.in_channels // self.groups

    def _applied(self, x: Tensor, **more: Any) -> Tensor:
        return type(self).operator(
            x, self.weight, self.bias, stride=self.stride, padding=self.padding, dilation=self.dilation,
            groups=self.groups, **more,
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Of (batch, in_channels, …): (batch, out_channels, …)."""
        return self._applied(x)


class Conv1D(_Conv):
    """A convolution of (batch, channels, width)."""

    dims, operator = 1, staticmethod(op.conv1d)


class _Layout(_Conv):
    """A convolution whose images may have another layout."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
        dtype: str | None = None, data_layout: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype)
        self.data_layout = data_layout or ("NCHW" if self.dims == 2 else "NCDHW")

    def forward(self, x: Tensor) -> Tensor:
        """Of images in `data_layout`, and with as many channels."""
        return self._applied(x, data_layout=self.data_layout)


class Conv2D(_Layout):
    """A convolution of images."""

    dims, operator = 2, staticmethod(op.conv2d)


class Conv3D(_Layout):
    """A convolution of volumes."""

    dims, operator = 3, staticmethod(op.conv3d)


class _ConvTranspose(_Conv):
    """Weights of the transpose of a convolution."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1,
        groups: int = 1, bias: bool = True, dtype: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype)
        self.output_padding = output_padding

    def _channels(self) -> tuple[int, int]:
        return self.in_channels, self.out_channels // self.groups

    def forward(self, x: Tensor) -> Tensor:
        """Of (batch, in_channels, …): (batch, out_channels, …)."""
        return self._applied(x, output_padding=self.output_padding)


class ConvTranspose1D(_ConvTranspose):
    """The transpose of a convolution of (batch, channels, width)."""

    dims, operator = 1, staticmethod(op.conv1d_transpose)


class ConvTranspose2D(_ConvTranspose):
    """The transpose of a convolution of (batch, channels, height, width)."""

    dims, operator = 2, staticmethod(op.conv2d_transpose)


# ---------------------------------------------------------------------- normalisations


class LayerNorm(Module):
    """(x − mean) / √(variance + eps) over the last axes, times weight, plus bias."""

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = 1e-5, elementwise_affine: bool = True,
        dtype: str | None = None,
    ) -> None:  # fmt: skip
        self.normalized_shape, self.eps = normalized_shape, 1e-5 if eps is None else eps
        shape = list(normalized_shape) if isinstance(normalized_shape, list | tuple) else [normalized_shape]
        self.weight = Parameter(shape, dtype) if elementwise_affine else None
        self.bias = Parameter(shape, dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        """Of (…, normalized_shape)."""
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """x / √(mean of x² + epsilon) over the last axes, times weight, plus bias."""

    def __init__(
        self, hidden_size: int, axes: int | Sequence[int], epsilon: float = 1e-5, bias: bool = True,
        dtype: str | None = None,
    ) -> None:  # fmt: skip
        self.epsilon, self.axes = epsilon, axes
        self.weight = Parameter((hidden_size,), dtype)
        self.bias = Parameter((hidden_size,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Of (…, hidden_size)."""
        found = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return found if self.bias is None else op.add(found, self.bias)


class GroupNorm(Module):
    """As a LayerNorm of each group of channels."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: str | None = None
    ) -> None:
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter((num_channels,), dtype) if affine else None
        self.bias = Parameter((num_channels,), dtype) if affine else None

    def forward(self, x: Tensor, channel_axis: int = 1, axes: list[int] | None = None) -> Tensor:
        """Of (batch, num_channels, …)."""
        return op.group_norm(x, self.num_groups, self.weight, self.bias, self.eps, channel_axis, axes)


# ---------------------------------------------------------------------- diffusion models


class Timesteps(Module):
    """Sines and cosines of numbers."""

    def __init__(self, num_channels: int, flip_sin_to_cos: bool = False, downscale_freq_shift: float = 1) -> None:
        self.num_channels, self.flip_sin_to_cos = num_channels, flip_sin_to_cos
        self.downscale_freq_shift = downscale_freq_shift

    def forward(self, x: Tensor) -> Tensor:
        """Of (numbers,): (numbers, num_channels)."""
        return op.get_timestep_embedding(
            x, self.num_channels, flip_sin_to_cos=self.flip_sin_to_cos, downscale_freq_shift=self.downscale_freq_shift
        )


_ACTIVATIONS: Final = {"silu": SiLU, "gelu": GELU, "relu": ReLU}


class TimestepEmbedding(Module):
    """Two linear layers, an activation between them and, if it is told, one behind them."""

    def __init__(
        self, in_channels: int, time_embed_dim: int, act_fn: str = "silu", out_dim: int | None = None,
        post_act_fn: str | None = None, cond_proj_dim: int | None = None,
    ) -> None:  # fmt: skip
        for name in (act_fn, post_act_fn or act_fn):
            if name not in _ACTIVATIONS:
                raise UnsupportedError(f"TimestepEmbedding with activation {name!r}", hint=", ".join(_ACTIVATIONS))
        self.linear_1 = Linear(in_channels, time_embed_dim)
        self.cond_proj = None if cond_proj_dim is None else Linear(cond_proj_dim, in_channels, bias=False)
        self.act = _ACTIVATIONS[act_fn]()
        self.linear_2 = Linear(time_embed_dim, time_embed_dim if out_dim is None else out_dim)
        self.post_act = None if post_act_fn is None else _ACTIVATIONS[post_act_fn]()

    def forward(self, sample: Tensor, condition: Tensor | None = None) -> Tensor:
        """Of (…, in_channels), with a condition of (…, cond_proj_dim) added: (…, out_dim)."""
        if condition is not None:
            if self.cond_proj is None:
                raise TypeCheckError("a condition for a TimestepEmbedding without cond_proj_dim")
            sample = op.add(sample, self.cond_proj(condition))
        found: Tensor = self.linear_2(self.act(self.linear_1(sample)))
        return found if self.post_act is None else self.post_act(found)


class Attention(Module):
    """Attention of several heads, with linear layers to queries, keys, values, and to the result."""

    def __init__(
        self, query_dim: int, cross_attention_dim: int | None = None, heads: int = 8, dim_head: int = 64,
        bias: bool = False, norm_num_groups: int | None = None, out_bias: bool = True, scale_qk: bool = True,
    ) -> None:  # fmt: skip
        if not scale_qk:
            raise UnsupportedError("Attention with scale_qk=False", hint="scale_qk=True")
        self.heads, self.dim_head, inner = heads, dim_head, heads * dim_head
        other = query_dim if cross_attention_dim is None else cross_attention_dim
        self.to_q = Linear(query_dim, inner, bias=bias)
        self.to_k, self.to_v = (Linear(other, inner, bias=bias) for _ in range(2))
        self.group_norm = None if norm_num_groups is None else GroupNorm(norm_num_groups, query_dim)
        self.to_out = ModuleList([Linear(inner, query_dim, bias=out_bias)])

    def forward(
        self, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None, attention_mask: Tensor | None = None,
        **cross_attention_kwargs: Any,
    ) -> Tensor:  # fmt: skip
        """Of (batch, positions, query_dim), looking at these, or at (batch, others, cross_attention_dim)."""
        if cross_attention_kwargs:
            hint = "hidden_states and encoder_hidden_states are what it takes"
            raise UnsupportedError(f"Attention with {', '.join(cross_attention_kwargs)}", hint=hint)
        if self.group_norm is not None:
            hidden_states = self.group_norm(hidden_states, channel_axis=2, axes=[1])
        seen = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        parts = [f(x) for f, x in ((self.to_q, hidden_states), (self.to_k, seen), (self.to_v, seen))]
        q, k, v = (op.reshape(p, [p.shape[0], p.shape[1], self.heads, self.dim_head]) for p in parts)
        found = op.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask)
        flat = op.reshape(found, [found.shape[0], found.shape[1], self.heads * self.dim_head])
        projected: Tensor = self.to_out[0](flat)
        return projected
