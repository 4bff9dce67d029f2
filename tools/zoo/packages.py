"""Where torchvision and timm are imported from: a folder of their own, `.zoo`, which nothing else sees.

`python -m tools.zoo.packages` fills it with what the extra `zoo` of pyproject.toml pins. They are installed without
what they depend on, and not beside PyTorch: torchvision's C library wants a build for CUDA, and while it is installed
without one, importing transformers fails.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

__all__ = ["FOLDER", "declare_operators", "ready"]

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".zoo"
EXTRA: Final = "zoo"


@cache
def declare_operators() -> Any:
    """Declares the operators that importing torchvision refers to, and that its C library lacks: they are never called.

    What is returned holds them; they live as long as it does.
    """
    import torch

    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for operator in ("nms", "qnms"):
        schema = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        library.define(schema)  # type: ignore[no-untyped-call]
    return library


@cache
def ready() -> None:
    """Lets torchvision and timm be imported; FileNotFoundError, with what to do, where they are not there."""
    if not FOLDER.exists():
        raise FileNotFoundError(f"{FOLDER} is not there: `python -m tools.zoo.packages` fills it")
    declare_operators()
    sys.path.append(str(FOLDER))


def pins() -> list[str]:
    """What is installed there."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    return list(extras[EXTRA])


def main() -> None:
    """Install them."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(FOLDER)]
    subprocess.run([*command, *pins()], check=True)


if __name__ == "__main__":
    main()
