"""Arguments of another kind than a name of the facade takes are one typed error, which says what is wanted."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError, TypeCheckError
from legato.relay import transform
from legato.relay.data_dep_optimization import bsr_conv2d, bsr_dense, simplify_fc_transpose

X, W, F = relay.var("x", shape=(4, 8)), relay.var("w", shape=(16, 8)), relay.var("f", shape=(3, 3, 3, 4))
PRODUCT = relay.Function([X, W], relay.nn.dense(X, W))
IMAGE = relay.var("i", shape=(1, 8, 8, 3))
CONVOLUTION = relay.Function(
    [IMAGE, F], relay.nn.conv2d(IMAGE, F, data_layout="NHWC", kernel_layout="HWIO", padding=(1, 1))
)
ONES = np.ones((16, 8), "float32")


def change(func: Any, mod: Any, context: Any) -> Any:
    return func


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (partial(transform.ChangeBatch, [X], 3), "the data of ChangeBatch: got .*, wanted {variable: dim}"),
        (partial(transform.ChangeBatch, {"x": 0}, 3), "the data of ChangeBatch: got 'x', wanted variables"),
        (partial(transform.ChangeBatch, {X: "a"}, 3), "the dim of %x: got 'a', wanted an integer"),
        (partial(transform.ChangeBatch, {X: 0}, 2.5), "batch_size: got 2.5, wanted an integer"),
        (partial(transform.ConvertLayout, ["nn.conv2d"]), "desired_layouts: got .*, wanted {"),
        (partial(transform.ConvertLayout, {"nn.conv2d": 3}), "the layouts of nn.conv2d: got 3"),
        (partial(transform.ConvertLayout, {"nn.conv2d": "NHWC"}), "the layouts of nn.conv2d: got 'NHWC'"),
        (partial(transform.ConvertLayout, {3: ["NHWC"]}), "desired_layouts: got 3, wanted names of operators"),
        (partial(transform.DenseToSparse, ["w"], [3]), "the shape of w: got 3, wanted a list of numbers"),
        (partial(transform.DenseToSparse, "w", [[3, 4, 5, 6, 7]]), "weight_name: got 'w', wanted a list of names"),
        (partial(transform.DenseToSparse, ["w"], []), "weight_shape: got .*, wanted 1 shapes"),
        (partial(transform.DenseToSparse, ["w"], [["a"] * 5]), "the shape of w: got 'a', wanted an integer"),
        (partial(transform.Conv2dToSparse, ["w"], [3], "NHWC", 3), "the shape of w: got 3"),
        (partial(transform.Conv2dToSparse2, "NHWC", 3, 5, 0.5), "the size of blocks: got 5"),
        (partial(transform.Conv2dToSparse2, "NHWC", 3, (1, "1"), 0.5), "the size of blocks: got '1'"),
        (partial(transform.Conv2dToSparse2, "NHWC", "3", (1, 1), 0.5), "option kernel-size .*: got '3'"),
        (partial(transform.Conv2dToSparse2, "NHWC", 3, (1, 1), (0.5,)), "option sparsity .*: got .*, wanted a number"),
        (partial(transform.SimplifyFCTranspose, "w"), "target_weights: got 'w', wanted a list"),
        (partial(transform.PassContext, "3"), "opt_level: got '3', wanted an integer"),
        (
            partial(transform.PassContext, disabled_pass="FoldConstant"),
            "disabled_pass: got 'FoldConstant', wanted a list",
        ),
        (partial(transform.PassContext, instruments=3), "instruments: got 3, wanted a list"),
        (partial(transform.PassContext, config=["a"]), "config: got .*, wanted values by name"),
        (partial(transform.Sequential, 3), "the passes of a sequence: got 3"),
        (partial(transform.function_pass, 3, opt_level=1), "a pass: got 3, wanted a function, or a class"),
        (partial(transform.module_pass, partial(change), opt_level=1), "has no name"),
        (partial(transform.function_pass, change, opt_level="a"), "opt_level: got 'a', wanted an integer"),
        (partial(transform.function_pass, change, opt_level=1, required=3), "required: got 3, wanted a list"),
        (partial(transform.function_pass, change, opt_level=1, name=3), "name: got 3, wanted the name of a pass"),
    ],
)
def test_passes_of_wrong_arguments(made: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        made()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (partial(bsr_dense.convert, PRODUCT, {"w": ONES[0]}, (1, 1), 0.5), r"parameter 'w' is float32\[8\], wanted"),
        (partial(bsr_dense.convert, PRODUCT, {"w": ONES}, 3, 0.5), "the size of blocks: got 3"),
        (partial(bsr_dense.convert, PRODUCT, {"w": ONES}, (1, 1), "a"), "sparsity_threshold: got 'a'"),
        (partial(bsr_dense.convert, PRODUCT, 3, (1, 1), 0.5), "params: got 3, wanted arrays by name"),
        (partial(bsr_dense.convert, 3, {"w": ONES}, (1, 1), 0.5), "the program: got 3"),
        (partial(bsr_conv2d.convert, CONVOLUTION, {"f": ONES}, (1, 1), 0.5, "NHWC", 3), "parameter 'f' is float32"),
        (partial(simplify_fc_transpose.convert, PRODUCT, 3), "params: got 3, wanted arrays by name"),
    ],
)
def test_changes_of_wrong_parameters(made: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        made()


def test_a_partial_function_is_a_pass() -> None:
    made = transform.function_pass(partial(change), opt_level=1, name="Change")
    assert made(relay.IRModule.from_expr(PRODUCT)).functions.keys()


CALLED = """
#[version = "0.0.5"]
def @product(%x: Tensor[(4, 8), float32], %w: Tensor[(8, 8), float32]) { nn.dense(%x, %w) }
def @turned(%x: Tensor[(4, 8), float32], %w: Tensor[(8, 8), float32]) { nn.dense(%x, transpose(%w, axes=[1, 0])) }
def @main(%x: Tensor[(4, 8), float32], %w: Tensor[(8, 8), float32]) { @turned(@product(%x, %w), %w) }
"""


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (transform.DenseToSparse(["w"], [[3, 1, 1, 3, 9]]), "DenseToSparse gives @product"),
        (transform.SimplifyFCTranspose(["w"]), "SimplifyFCTranspose gives @turned"),
    ],
)
def test_functions_that_the_program_calls_keep_their_parameters(made: Any, name: str) -> None:
    with pytest.raises(CompileError, match=f"{name} other parameters, and it is called by @main") as error:
        made(relay.parse(CALLED))
    assert not isinstance(error.value, TypeCheckError)
    assert "Inline" in str(error.value)


def test_what_the_hint_says_helps() -> None:
    mod = relay.parse(CALLED)
    for name in ("product", "turned"):
        mod[name] = mod[name].with_attr("Inline", 1)
    inlined = transform.Sequential([transform.Inline(), transform.ToGraphNormalForm()])(mod)
    made = transform.DenseToSparse(["w"], [[3, 1, 1, 3, 9]])(inlined)["main"]
    assert relay.analysis.list_op_freqs(made)["nn.sparse_dense"] == 1
