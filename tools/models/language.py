"""Text encoders: MiniLM sentence embeddings, and BERT-base with random weights."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np

from tools.models.record import Array, Feeds, Model, best_classes, cached

SENTENCES = (
    "A man is eating food.",
    "Someone eats a piece of bread.",
    "The girl is carrying a baby.",
    "A woman holds her infant in her arms.",
    "A monkey is playing drums.",
    "An ape beats on a set of bongos.",
    "The compiler fuses neighbouring operators.",
    "Adjacent kernels are merged by the optimiser.",
)


@cache
def vocabulary() -> dict[str, int]:
    """Word piece → id, of bert-base-uncased."""
    return {piece: index for index, piece in enumerate(cached("minilm_vocab.txt").read_text("utf-8").splitlines())}


def words(text: str) -> list[str]:
    """Lower-case words without accents, each punctuation mark apart."""
    plain = (char for char in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(char) != "Mn")
    return "".join(f" {char} " if unicodedata.category(char)[0] in "PS" else char for char in plain).split()


def pieces(word: str) -> list[str]:
    """The longest known pieces of `word` from left to right (WordPiece); `[UNK]` if some part is unknown."""
    known, found, start = vocabulary(), list[str](), 0
    while start < len(word):
        candidates = (("##" if start else "") + word[start:end] for end in range(len(word), start, -1))
        piece = next((candidate for candidate in candidates if candidate in known), None)
        if piece is None:
            return ["[UNK]"]
        found.append(piece)
        start += len(piece.removeprefix("##") if start else piece)
    return found


def tokens(text: str) -> list[int]:
    """Ids of a sentence between `[CLS]` and `[SEP]`."""
    inner = [piece for word in words(text) for piece in pieces(word)]
    return [vocabulary()[piece] for piece in ("[CLS]", *inner, "[SEP]")]


def batch(sentences: Sequence[str], length: int | None = None) -> Feeds:
    """Inputs of a BERT, int64 [sentence, position], padded to `length` or else to the longest sentence."""
    rows = [tokens(sentence) for sentence in sentences]
    length = length or max(map(len, rows))
    ids = np.zeros((len(rows), length), np.int64)
    mask = np.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, : len(row)], mask[index, : len(row)] = row, 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def nearest(outputs: Sequence[Array]) -> tuple[int, ...]:
    """For each embedding of length 1 the index of the other one that means most nearly the same; () for one alone."""
    similar = outputs[0] @ outputs[0].T
    if len(similar) == 1:
        return ()
    np.fill_diagonal(similar, -np.inf)
    return tuple(int(index) for index in similar.argmax(axis=1))


def pooled_classes(outputs: Sequence[Array]) -> tuple[int, ...]:
    """The strongest feature of each pooled sentence, the second output."""
    return best_classes(outputs[1:])


MINILM, BERT = "sentence embeddings of length 1", "BERT-base: hidden states and the pooled sentence"
MODELS = (
    Model("minilm", MINILM, lambda: (batch(SENTENCES[:1], 32),), nearest, ((),), 18),
    Model(
        "minilm_batch",
        MINILM,
        lambda: (batch(SENTENCES[:1]), batch(SENTENCES[:3]), batch(SENTENCES, 40)),
        nearest,
        ((), (1, 0, 1), (1, 0, 3, 2, 5, 4, 7, 6)),
        18,
        ("batch", "length"),
    ),
    Model("bert_base", BERT, lambda: (batch([" ".join(SENTENCES)], 128),), pooled_classes, (), 18),
    Model(
        "bert_base_batch",
        BERT,
        lambda: (batch([" ".join(SENTENCES)], 128), batch(SENTENCES[:3]), batch(SENTENCES, 48)),
        pooled_classes,
        (),
        18,
        ("batch", "length"),
    ),
)
