"""Notes and pitches in synthesised sound: basic-pitch and CREPE."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tools.models.record import Array, Feeds, Model

NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
A4 = 69  # the MIDI number of 440 Hz


def frequency(midi: int) -> float:
    """Hz of a note, in equal temperament."""
    return float(440 * 2 ** ((midi - A4) / 12))


def tone(hertz: float, seconds: float, rate: int) -> Array:
    """A plucked tone: six harmonics that fade."""
    time = np.arange(round(seconds * rate)) / rate
    harmonics = sum(np.sin(2 * np.pi * hertz * k * time) / k**1.5 for k in range(1, 7))
    return np.asarray(harmonics * np.exp(-1.2 * time), np.float64)


# ------------------------------------------------------------------------------------------------ basic-pitch

WINDOW, RATE, LOWEST = 43844, 22050, 21
CHORDS = ((60, 64, 67), (57, 60, 64), (62, 65, 69))


def chord(notes: Sequence[int]) -> Array:
    """The notes one after the other, a third of a window each: float32 [WINDOW]."""
    step = WINDOW // len(notes) + 1
    sound = np.concatenate([tone(frequency(note), step / RATE, RATE) for note in notes])[:WINDOW]
    return np.asarray(0.3 * sound / np.abs(sound).max(), np.float32)


def windows(count: int) -> Feeds:
    """`count` windows of sound."""
    rows = [chord(CHORDS[row % len(CHORDS)]) for row in range(count)]
    return {"serving_default_input_2:0": np.stack(rows)[:, :, None]}


def notes(outputs: Sequence[Array]) -> tuple[tuple[int, ...], ...]:
    """MIDI numbers of the notes that sound for a seventh of each window or longer.

    The second output is the probability of [window, frame, key of a piano]; half is the threshold.
    """
    sounding = (outputs[1] > 0.5).mean(axis=1) > 1 / 7
    return tuple(tuple(int(key) + LOWEST for key in np.flatnonzero(row)) for row in sounding)


# ------------------------------------------------------------------------------------------------------ CREPE

FRAME, FRAME_RATE = 1024, 16000
PLAYED = (57, 64, 69, 81, 60, 62, 65, 72)
CENTS = 1997.3794084376191 + 20 * np.arange(360)  # of each bin above 10 Hz, as CREPE's authors define them


def frames(count: int) -> Feeds:
    """`count` frames of 64 ms, each of one tone, with mean 0 and variance 1."""
    rows = [tone(frequency(PLAYED[row % len(PLAYED)]), FRAME / FRAME_RATE, FRAME_RATE) for row in range(count)]
    return {"frames": np.stack([(row - row.mean()) / row.std() for row in rows]).astype(np.float32)}


def hertz(outputs: Sequence[Array]) -> Array:
    """The pitch of each frame: the mean of the nine bins around the strongest one, weighted by their scores."""
    scores = np.asarray(outputs[0], np.float64)
    near = np.abs(np.arange(360) - scores.argmax(axis=1)[:, None]) <= 4
    cents = (scores * near * CENTS).sum(axis=1) / (scores * near).sum(axis=1)
    return np.asarray(10 * 2 ** (cents / 1200))


def names(outputs: Sequence[Array]) -> tuple[str, ...]:
    """The nearest note of each frame, like `A4`."""
    midi = [round(A4 + 12 * np.log2(value / 440)) for value in hertz(outputs)]
    return tuple(f"{NAMES[note % 12]}{note // 12 - 1}" for note in midi)


# -------------------------------------------------------------------------------------------- recurrent layers

STEPS, BINS = 64, 256


def spectra(notes: Sequence[int]) -> Feeds:
    """Spectra of successive pieces of sound, in decibels, with mean 0 and variance 1: [STEPS, 1, BINS]."""
    hop = (WINDOW - 2 * BINS) // STEPS
    sound = chord(notes)
    pieces = np.stack([sound[hop * step : hop * step + 2 * BINS] for step in range(STEPS)]) * np.hanning(2 * BINS)
    levels = np.log10(np.abs(np.fft.rfft(pieces, axis=1))[:, :BINS] + 1e-5)
    return {"x": ((levels - levels.mean()) / levels.std()).astype(np.float32)[:, None]}


def strongest(outputs: Sequence[Array]) -> int:
    """The unit with the highest state after the last step."""
    return int(outputs[0][-1, 0].argmax())


HEARD = ("A3", "E4", "A4", "A5", "C4", "D4", "F4", "C5")
CREPE = "pitch of a voice or an instrument, 360 bins"
MODELS = (
    Model(
        "basic_pitch",
        "notes of a piano in sound",
        lambda: tuple(windows(count) for count in (1, 3)),
        notes,
        (CHORDS[:1], CHORDS),
        15,
        ("batch",),
    ),
    Model("crepe", CREPE, lambda: (frames(1),), names, (HEARD[:1],), 17),
    Model(
        "crepe_batch",
        CREPE,
        lambda: tuple(frames(count) for count in (1, 3, 8)),
        names,
        (HEARD[:1], HEARD[:3], HEARD),
        17,
        ("batch",),
    ),
    Model("lstm", "one LSTM layer, 64 steps, random weights", lambda: (spectra(CHORDS[0]),), strongest, opset=17),
    Model("gru", "one GRU layer, 64 steps, random weights", lambda: (spectra(CHORDS[0]),), strongest, opset=17),
)
