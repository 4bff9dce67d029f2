"""The environment that `make test-ray` runs in: `python -m tools.ray_environment FOLDER`.

Ray brings packages by the dozen, some in versions that the development environment has newer (protobuf): it has a
folder of its own, which sees that environment's packages and has its own before them.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

__all__ = ["main"]

ROOT = Path(__file__).parents[1]


def main(folder: Path) -> None:
    """Makes the environment in `folder`."""
    venv.create(folder)
    python = folder / "bin/python"
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    own = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    packages = sysconfig.get_paths()["purelib"]
    (Path(own) / "development.pth").write_text(f"import site; site.addsitedir({packages!r})\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--editable", f"{ROOT}[ray]"], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
