"""Architectures of torchvision, timm and transformers as they are defined there, in small, with seeded weights.

An entry says how to make the module, what inputs it takes, which of their dims are symbolic, and at which sizes it is
run. Packages are imported on use: whoever lacks one leaves its entries out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["ARCHITECTURES", "Architecture"]

Sizes = Mapping[str, int]
IMAGES: Final = ({"batch": 1, "height": 64, "width": 64}, {"batch": 2, "height": 96, "width": 64},
                 {"batch": 1, "height": 64, "width": 160})  # fmt: skip
BATCHES: Final = ({"batch": 1}, {"batch": 2}, {"batch": 5})
TEXTS: Final = ({"batch": 1, "length": 8}, {"batch": 2, "length": 17}, {"batch": 3, "length": 1})
SOUNDS: Final = ({"batch": 1, "length": 400}, {"batch": 2, "length": 731}, {"batch": 1, "length": 1600})
SMALL: Final = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
                "vocab_size": 100, "max_position_embeddings": 64}  # fmt: skip


@dataclass(frozen=True)
class Architecture:
    """make: the module; inputs: dtype and shape of each by name, names in a shape being symbolic; sizes: of these, the
    first those of the export."""

    make: Callable[[], Any]
    inputs: Mapping[str, tuple[str, tuple[int | str, ...]]]
    sizes: Sequence[Sizes]


def _made(package: str, name: str, options: Mapping[str, Any]) -> Callable[[], Any]:
    """What makes a module as the zoo does; PyTorch is imported on use."""

    def make() -> Any:
        from tools.zoo.build import made

        return made(package, name, options)

    return make


def _vision(name: str, sizes: Sequence[Sizes] = IMAGES, side: int | None = None, **options: Any) -> Architecture:
    return Architecture(_made("torchvision", name, options), {"x": _image(side)}, sizes)


def _image(side: int | None) -> tuple[str, tuple[int | str, ...]]:
    return "float32", ("batch", 3, "height", "width") if side is None else ("batch", 3, side, side)


def _timm(name: str, sizes: Sequence[Sizes] = IMAGES, side: int | None = None, **options: Any) -> Architecture:
    return Architecture(_made("timm", name, options), {"x": _image(side)}, sizes)


def _text(model: str, *, mask: bool = True, **options: Any) -> Architecture:
    inputs: dict[str, tuple[str, tuple[int | str, ...]]] = {"input_ids": ("int64", ("batch", "length"))}
    if mask:
        inputs["attention_mask"] = ("int64", ("batch", "length"))
    small = {
        name: value for name, value in SMALL.items() if name != "num_hidden_layers" or "block_sizes" not in options
    }
    return Architecture(_made("transformers", model, {**small, **options}), inputs, TEXTS)


def _other(model: str, shape: tuple[int | str, ...], sizes: Sequence[Sizes], **options: Any) -> Architecture:
    name = "input_values" if len(shape) == 2 else "pixel_values" if len(shape) == 4 else "input_features"
    return Architecture(_made("transformers", model, options), {name: ("float32", shape)}, sizes)


PIXELS: Final = ("batch", 3, "height", "width")
ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    # torchvision
    "alexnet": _vision("alexnet", BATCHES, 224),
    "resnet18": _vision("resnet18"),
    "vgg11": _vision("vgg11", BATCHES, 224),
    "mobilenet_v2": _vision("mobilenet_v2"),
    "mobilenet_v3_small": _vision("mobilenet_v3_small"),
    "shufflenet_v2": _vision("shufflenet_v2_x0_5"),
    "squeezenet": _vision("squeezenet1_1"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "regnet_y": _vision("regnet_y_400mf"),
    "mnasnet": _vision("mnasnet0_5"),
    "densenet121": _vision("densenet121"),
    "googlenet": _vision("googlenet", aux_logits=False, init_weights=False),
    "convnext_tiny": _vision("convnext_tiny"),
    "vit_b_32": _vision("vit_b_32", BATCHES, 224),
    "swin_t": _vision("swin_t"),
    "swin_v2_t": _vision("swin_v2_t"),
    "deeplabv3": _vision("deeplabv3_mobilenet_v3_large", weights_backbone=None),
    "lraspp": _vision("lraspp_mobilenet_v3_large", weights_backbone=None),
    # timm
    "convnextv2": _timm("convnextv2_atto"),
    "mobilenetv4": _timm("mobilenetv4_conv_small"),
    "efficientvit": _timm("efficientvit_b0"),
    "ghostnet": _timm("ghostnet_050"),
    "mobilevit": _timm("mobilevit_xxs"),
    "mobilevitv2": _timm("mobilevitv2_050"),
    "edgenext": _timm("edgenext_xx_small"),
    "fastvit": _timm("fastvit_t8"),
    "lcnet": _timm("lcnet_035"),
    "repvgg": _timm("repvgg_a0"),
    "rexnet": _timm("rexnet_100"),
    "poolformer": _timm("poolformer_s12"),
    "pvt_v2": _timm("pvt_v2_b0"),
    "hrnet": _timm("hrnet_w18_small"),
    "dla": _timm("dla34"),
    "vovnet": _timm("ese_vovnet19b_dw"),
    "levit": _timm("levit_128s", BATCHES, 224),
    "deit": _timm("deit_tiny_patch16_224", BATCHES, 224),
    "xcit": _timm("xcit_nano_12_p16_224", BATCHES, 224),
    "mixer": _timm("mixer_s32_224", BATCHES, 224),
    "gmlp": _timm("gmlp_ti16_224", BATCHES, 224),
    "cait": _timm("cait_xxs24_224", BATCHES, 224),
    # transformers
    "bert": _text("BertModel"),
    "roberta": _text("RobertaModel", max_position_embeddings=80),
    "distilbert": _text("DistilBertModel", dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    "albert": _text("AlbertModel", embedding_size=16),
    "electra": _text("ElectraModel", embedding_size=16),
    "deberta_v2": _text("DebertaV2Model", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "mobilebert": _text("MobileBertModel", embedding_size=16, intra_bottleneck_size=16,
                        true_hidden_size=16),
    "mpnet": _text("MPNetModel"),
    "convbert": _text("ConvBertModel", embedding_size=16),
    "squeezebert": _text("SqueezeBertModel", embedding_size=32),
    "fnet": _text("FNetModel", mask=False),
    "funnel": _text("FunnelBaseModel", d_model=32, n_head=4, d_head=8, d_inner=64,
                    block_sizes=[1, 1, 1]),
    "gpt2": _text("GPT2Model", n_embd=32, n_layer=2, n_head=4),
    "gpt_neo": _text("GPTNeoModel", num_layers=2, num_heads=4,
                     attention_types=[[["global", "local"], 1]], window_size=4),
    "opt": _text("OPTModel", ffn_dim=64, word_embed_proj_dim=32),
    "bloom": _text("BloomModel", n_layer=2, n_head=4),
    "llama": _text("LlamaModel", num_key_value_heads=2),
    "mistral": _text("MistralModel", num_key_value_heads=2, sliding_window=4),
    "qwen2": _text("Qwen2Model", num_key_value_heads=2),
    "gemma": _text("GemmaModel", num_key_value_heads=2, head_dim=8),
    "phi": _text("PhiModel"),
    "t5_encoder": _text("T5EncoderModel", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4),
    "segformer": _other("SegformerModel", PIXELS, IMAGES, hidden_sizes=[8, 16, 24, 32],
                        depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 4]),
    "swin": _other("SwinModel", PIXELS, IMAGES, image_size=64, embed_dim=16, depths=[1, 2],
                   num_heads=[2, 4], window_size=4),
    "dinov2": _other("Dinov2Model", PIXELS, ({"batch": 1, "height": 56, "width": 56},
                     {"batch": 2, "height": 84, "width": 56}, {"batch": 1, "height": 56, "width": 140}),
                     image_size=56, hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
    "wav2vec2": _other("Wav2Vec2Model", ("batch", "length"), SOUNDS, hidden_size=32,
                       num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, conv_dim=[16, 16, 16],
                       conv_stride=[5, 2, 2], conv_kernel=[10, 3, 3], num_conv_pos_embeddings=16,
                       num_conv_pos_embedding_groups=4),
    "hubert": _other("HubertModel", ("batch", "length"), SOUNDS, hidden_size=32,
                     num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, conv_dim=[16, 16, 16],
                     conv_stride=[5, 2, 2], conv_kernel=[10, 3, 3], num_conv_pos_embeddings=16,
                     num_conv_pos_embedding_groups=4),
}  # fmt: skip
