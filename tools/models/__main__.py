"""Makes the model files: `python -m tools.models [--group demo]`. What is there already is left alone."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from tools.models import MODELS
from tools.models.record import cache
from tools.models.sources import PACKAGES, write

# How the exported files are made; a new number makes everybody's again.
EXPORT = "torch==2.13.0 revision 2"
NETS = (  # those of one line are made in one process
    ("resnet18", "resnet50", "mobilenet_v2", "vgg16", "dqn", "pnet", "rnet", "onet", "crepe"),
    ("minilm", "bert_base"),
    (
        "mobilenet_v3_large", "efficientnet_b0", "densenet121", "inception_v3", "squeezenet1_1", "shufflenet_v2_x1_0",
        "convnext_tiny", "vit_b_16", "lstm", "gru",
    ),
)  # fmt: skip
SPLIT = ("vgg16", "bert_base")
GROUPS = {"demo": (("ppocr", "images"), ()), "all": (tuple(PACKAGES), NETS)}


def net_files(name: str) -> list[str]:
    """The files that exporting `name` makes."""
    graphs = [model.name for model in MODELS if model.name in (name, f"{name}_batch")]
    return [*(f"{graph}.onnx" for graph in graphs), *([f"{name}.weights"] if name in SPLIT else [])]


class Manifest:
    """Which recipe made each file of the cache, in `manifest.json`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "manifest.json"
        self.made: dict[str, dict[str, object]] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def current(self, files: list[str], recipe: str) -> bool:
        """Whether all files are there, whole, and made by `recipe`."""
        return all(
            (self.folder / name).exists()
            and self.made.get(name) == {"recipe": recipe, "bytes": (self.folder / name).stat().st_size}
            for name in files
        )

    def note(self, files: list[str], recipe: str) -> None:
        """Write down that `recipe` made the files."""
        for name in files:
            self.made[name] = {"recipe": recipe, "bytes": (self.folder / name).stat().st_size}
        write(self.path, json.dumps(self.made, indent=1, sort_keys=True).encode())


def main() -> int:
    """Make what is missing, with a line about each package and each network."""
    parser = argparse.ArgumentParser(prog="python -m tools.models", description=__doc__)
    parser.add_argument("--group", choices=GROUPS, default="all", help="demo: only what `make demo` reads")
    packages, nets = GROUPS[parser.parse_args().group]
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    manifest = Manifest(folder)
    begin = time.perf_counter()
    for name in packages:
        package = PACKAGES[name]
        files = [*package.files, *package.also]
        if manifest.current(files, package.requirement):
            continue
        start = time.perf_counter()
        print(f"{package.requirement} …", flush=True)
        package.produce(folder)
        manifest.note(files, package.requirement)
        print(f"  {len(files)} files in {time.perf_counter() - start:.1f} s", flush=True)
    for together in nets:
        missing = [name for name in together if not manifest.current(net_files(name), EXPORT)]
        if missing:
            print(f"exporting {', '.join(missing)} from torch …", flush=True)
            subprocess.run([sys.executable, "-m", "tools.models.export", str(folder), *missing], check=True)
        for name in missing:
            manifest.note(net_files(name), EXPORT)
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"models: {folder}, {total / 1e6:,.0f} MB, ready in {time.perf_counter() - begin:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
