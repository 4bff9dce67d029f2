"""Whatever is refused as unsupported comes with what would work instead."""

from __future__ import annotations

from tests.errors.refusals import refusals

# Where whoever calls gives the hint: the walks of models, which list all nodes that are refused and say at the end that
# converters would help; and a value that no one sees.
WALKED = ("frontend/onnx/", "frontend/torch/")


def test_every_refusal_has_a_hint() -> None:
    found = [r for r in refusals() if not r.file.startswith(WALKED)]
    assert len(found) > 100
    assert [str(r) for r in found if not r.hint] == []
