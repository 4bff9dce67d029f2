"""Models that ONNX Runtime has quantised decide as ONNX Runtime lets them. More of them: `make quantised`."""

from __future__ import annotations

import pytest

from tests.frontend.onnx.quantized import FORMS, compared
from tools.models import get

pytestmark = pytest.mark.models
CASES = [*(("lstm", form) for form in FORMS), ("dqn", "qdq"), ("dqn", "qoperator"), ("rnet", "dynamic")]


@pytest.mark.parametrize(("name", "form"), CASES)
def test_decisions(name: str, form: str) -> None:
    found = compared(get(name), form)
    assert found.host_operators == 0
    assert found.decisions == 1
    assert found.error < 0.03
