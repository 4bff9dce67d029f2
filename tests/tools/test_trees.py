"""Two trees' machine code: what a function is called makes no difference, what it does makes one."""

from __future__ import annotations

from tools.bench.trees import functions

CODE = """\t.file\t"module"
.LCPI0_0:
\t.long\t0x3f800000
\t.type\t{f},@function
{f}:
\tvmovss\t.LCPI0_0(%rip), %xmm{r}
\tjmp\t.LBB0_1
.LBB0_1:
\tcallq\t{g}
.Lfunc_end0:
\t.size\t{f}, .Lfunc_end0-{f}
\t.type\t{g},@function
{g}:
\tretq
\t.size\t{g}, .Lfunc_end1-{g}
"""


def test_names_and_labels_make_no_difference() -> None:
    first = functions(CODE.format(f="pad_0", g="relu_1", r=0))
    renamed = functions(CODE.replace("LBB0_1", "LBB7_2").format(f="f.pad_0", g="f.relu_1", r=0))
    assert list(first) == ["pad_0", "relu_1"]
    assert list(first.values()) == list(renamed.values())


def test_other_code_constants_and_callees_do() -> None:
    first = functions(CODE.format(f="pad_0", g="relu_1", r=0))["pad_0"]
    assert functions(CODE.format(f="pad_0", g="relu_1", r=1))["pad_0"] != first
    assert functions(CODE.replace("0x3f8", "0x400").format(f="pad_0", g="relu_1", r=0))["pad_0"] != first
    assert functions(CODE.replace("callq\t{g}", "callq\t{f}").format(f="pad_0", g="relu_1", r=0))["pad_0"] != first
