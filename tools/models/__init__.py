"""The models that tests, benchmarks and the demo use: files, real inputs, and what the outputs mean.

`python -m tools.models` makes the files. A `Model` says where its file is, gives inputs and decodes outputs:

    from tools.models import get

    model = get("ppocr_rec")
    feeds = model.cases()[0]                       # {"x": float32[1, 3, 48, 540]}
    outputs = session.run(None, feeds)             # whoever runs it
    assert model.decode(outputs) == model.expected[0]
"""

from __future__ import annotations

from tools.models import faces, filetype, language, ocr, sound, speech, vision
from tools.models.record import Array, Feeds, Model, cache

MODELS: tuple[Model, ...] = (
    *ocr.MODELS,
    *filetype.MODELS,
    *sound.MODELS,
    *speech.MODELS,
    *language.MODELS,
    *faces.MODELS,
    *vision.MODELS,
)


def get(name: str) -> Model:
    """The model of that name; KeyError with the names there are."""
    found = {model.name: model for model in MODELS}
    if name not in found:
        raise KeyError(f"no model {name!r}; there are {', '.join(found)}")
    return found[name]


__all__ = ["MODELS", "Array", "Feeds", "Model", "cache", "get"]
