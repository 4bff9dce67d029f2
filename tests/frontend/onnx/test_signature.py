"""Converters by operator: found without importing all of them, and the same ones."""

from __future__ import annotations

import subprocess
import sys

from legato.frontend.onnx.signature import find, table

LOOK_UP = """
import sys
from legato.frontend.onnx.signature import find
print(find("", "Conv", 13).__name__, sum(".onnx.operators." in m for m in sys.modules))
"""


def test_every_converter_is_found() -> None:
    for (domain, operator), versions in table().items():
        assert [since for since, _ in versions] == sorted((since for since, _ in versions), reverse=True)
        assert all(find(domain, operator, since) is converter for since, converter in versions)
        assert find(domain, operator.upper(), versions[-1][0]) is versions[-1][1]
        assert find(domain, operator, versions[-1][0] - 1) is None
    assert find("", "Nonsense", 13) is None
    assert find("nobody.knows", "Conv", 13) is None


def test_a_look_up_imports_little() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK_UP], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["conv", "1"]
