"""Networks whose weights come as torch files, and a small one of our own, as torch modules.

The names of the layers are those of the weight files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class MTCNN(nn.Module):
    """One of the three networks of MTCNN (Zhang et al. 2016): convolutions with PReLU and pools, then heads.

    `convs` are (out channels, kernel) and `pools` the kernels of the pools after them, 0 for none; `dense` is the width
    of the hidden layer, or 0 for the fully convolutional first network. Each head gives as many values as `heads` says.
    """

    def __init__(
        self, convs: Sequence[tuple[int, int]], pools: Sequence[int], flat: int, dense: int, heads: Sequence[int]
    ) -> None:
        super().__init__()
        self.steps, channels = [], 3
        for index, ((width, kernel), pool) in enumerate(zip(convs, pools, strict=True), 1):
            self.add_module(f"conv{index}", nn.Conv2d(channels, width, kernel))
            self.add_module(f"prelu{index}", nn.PReLU(width))
            self.steps.append((f"conv{index}", f"prelu{index}", pool))
            channels = width
        last = len(convs) + 1
        self.dense = f"dense{last}" if dense else ""
        if dense:
            self.add_module(f"dense{last}", nn.Linear(flat, dense))
            self.add_module(f"prelu{last}", nn.PReLU(dense))
            self.prelu, last = f"prelu{last}", last + 1
        self.heads = [f"{'dense' if dense else 'conv'}{last}_{index}" for index in range(1, len(heads) + 1)]
        for name, values in zip(self.heads, heads, strict=True):
            self.add_module(name, nn.Linear(dense, values) if dense else nn.Conv2d(channels, values, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Boxes (and landmarks), then the probabilities of (no face, face)."""
        for conv, prelu, pool in self.steps:
            x = self.get_submodule(prelu)(self.get_submodule(conv)(x))
            x = F.max_pool2d(x, pool, 2, ceil_mode=True) if pool else x
        if self.dense:  # the weights were trained on a column-major picture
            x = x.permute(0, 3, 2, 1).flatten(1)
            x = self.get_submodule(self.prelu)(self.get_submodule(self.dense)(x))
        scores, *rest = (self.get_submodule(name)(x) for name in self.heads)
        return (*rest, torch.softmax(scores, 1))


def pnet() -> MTCNN:
    """Proposals, for a picture of any size."""
    return MTCNN([(10, 3), (16, 3), (32, 3)], [2, 0, 0], 0, 0, [2, 4])


def rnet() -> MTCNN:
    """Refinement, for 24 × 24 pixels."""
    return MTCNN([(28, 3), (48, 3), (64, 2)], [3, 3, 0], 576, 128, [2, 4])


def onet() -> MTCNN:
    """Landmarks, for 48 × 48 pixels."""
    return MTCNN([(32, 3), (64, 3), (64, 3), (128, 2)], [3, 3, 2, 0], 1152, 256, [2, 4, 10])


class Crepe(nn.Module):
    """CREPE tiny (Kim et al. 2018): frames of 1024 samples to scores of 360 pitches."""

    def __init__(self) -> None:
        super().__init__()
        widths = (1, 128, 16, 16, 16, 32, 64)
        for index in range(1, 7):
            kernel, stride = (512, 4) if index == 1 else (64, 1)
            self.add_module(f"conv{index}", nn.Conv2d(widths[index - 1], widths[index], (kernel, 1), (stride, 1)))
            self.add_module(f"conv{index}_BN", nn.BatchNorm2d(widths[index], eps=0.0010000000474974513))
        self.classifier = nn.Linear(256, 360)

    def forward(self, frames: Tensor) -> Tensor:
        """Scores of each frame."""
        x = frames[:, None, :, None]
        for index in range(1, 7):
            x = F.pad(x, (0, 0, 254, 254) if index == 1 else (0, 0, 31, 32))
            x = self.get_submodule(f"conv{index}_BN")(F.relu(self.get_submodule(f"conv{index}")(x)))
            x = F.max_pool2d(x, (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).reshape(-1, 256)))


def dqn() -> nn.Module:
    """The deep Q-network of Mnih et al. 2015: four 84 × 84 frames to the values of six actions."""
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6),
    )  # fmt: skip


class Recurrent(nn.Module):
    """One recurrent layer over sequences [step, sequence, width]."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """The state after every step: [step, sequence, hidden]."""
        states: Tensor = self.layer(x)[0]
        return states


class SentenceEncoder(nn.Module):
    """A BERT, the mean of its states over the tokens that are there, at length 1: a sentence's embedding."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Embeddings [sentence, width]."""
        inputs: dict[str, Any] = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
        states = self.bert(input_ids=input_ids, **inputs).last_hidden_state
        there = attention_mask[:, :, None].to(states.dtype)
        mean = (states * there).sum(1) / there.sum(1).clamp(min=1e-9)
        return F.normalize(mean, dim=1)


class Bert(nn.Module):
    """A BERT with plain outputs."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states [sentence, position, width], and the pooled sentences [sentence, width]."""
        inputs: dict[str, Any] = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
        out = self.bert(input_ids=input_ids, **inputs)
        return out.last_hidden_state, out.pooler_output
