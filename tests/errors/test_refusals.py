"""Whatever is refused as unsupported comes with what would work instead."""

from __future__ import annotations

import pytest

from legato.errors import UnsupportedError
from legato.frontend.onnx.report import Unsupported, unsupported_error
from tests.errors.refusals import refusals

# Where whoever calls gives the hint, as the tests below see: the walks of models, which list all nodes that are refused
# and say that converters would help; the walk of TorchScript, which says what to export instead; guards of exported
# programs, which are named in one error with a hint.
WALKED = (
    *(f"frontend/onnx/{name}" for name in (
        "operators/", "activated.py", "axes.py", "containers.py", "control.py", "emitter.py", "importer.py", "scans.py",
        "schema_functions.py", "signature.py", "windows.py",
    )),
    *(f"frontend/torch/{name}" for name in (
        "operators/", "control.py", "dtypes.py", "emitter.py", "guards.py", "script/", "signature.py", "walk.py",
    )),
)  # fmt: skip


def test_every_refusal_has_a_hint() -> None:
    found = [r for r in refusals() if not r.file.startswith(WALKED)]
    assert len(found) > 150
    assert [str(r) for r in found if not r.hint] == []


def test_most_of_the_walks_have_one_of_their_own() -> None:
    """How many of all places leave it to the walk: no more than there were."""
    assert sum(not r.hint for r in refusals()) <= 74


def test_walks_of_onnx_say_what_helps_with_every_node() -> None:
    found = [Unsupported("n", "Frob", domain, 1, "no") for domain in ("", "com.microsoft", "own.domain")]
    for item in found:
        assert f'custom={{"{item.key}": function}}' in str(unsupported_error("m", [item]).hint)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_walks_of_torch_say_what_helps() -> None:
    torch = pytest.importorskip("torch")
    from legato.frontend.torch.script.importer import import_script
    from legato.frontend.torch.script.walk import INSTEAD

    class Sorted(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
            return torch.special.bessel_j0(x)

    with pytest.raises(UnsupportedError) as error:
        import_script(torch.jit.trace(Sorted().eval(), torch.ones(3)), [("x", (3,))])
    assert error.value.hint == INSTEAD
