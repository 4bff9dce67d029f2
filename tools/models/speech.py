"""Where somebody speaks in a recording: silero-vad, a recurrent detector that hears 32 ms at a time.

It is tried on a voice that is synthesised here (vowels: pulses of a glottis through three resonances each) and, where
`make models` could fetch them, on people who name the loudspeakers of a room (clips of the Debian package alsa-utils).
"""

from __future__ import annotations

import wave
from collections.abc import Iterator, Sequence

import numpy as np

from tools.models.record import Array, Feeds, Model, cache

RATE, CHUNK, BEFORE = 16000, 512, 64  # samples: of a second, new ones, those before that the network sees again
VOWELS = {
    "a": ((730, 80), (1090, 90), (2440, 120)),  # Hz and bandwidth of the resonances
    "i": ((270, 60), (2290, 100), (3010, 120)),
    "o": ((570, 70), (840, 80), (2410, 120)),
}
RECORDED = ("Front_Center", "Rear_Right")


def vowel(name: str, hertz: float, seconds: float) -> Array:
    """A vowel, spoken with a falling pitch: float64 [seconds · RATE]."""
    time = np.arange(round(seconds * RATE)) / RATE
    pitch = hertz * (1 + 0.08 * np.sin(6 * np.pi * time) - 0.15 * time / seconds)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    pulses = sum((np.cos(k * phase) / k for k in range(1, int(3500 / hertz))), np.zeros_like(phase))
    spectrum, frequencies = np.fft.rfft(pulses), np.fft.rfftfreq(len(time), 1 / RATE)
    for center, width in VOWELS[name]:
        pole = np.exp(-np.pi * width / RATE + 2j * np.pi * center / RATE)
        turn = np.exp(-2j * np.pi * frequencies / RATE)
        spectrum = spectrum / ((1 - pole * turn) * (1 - pole.conjugate() * turn))
    sound = np.fft.irfft(spectrum, len(time))
    ends = np.minimum(1, np.minimum(time / 0.03, (seconds - time) / 0.05))
    return np.asarray(0.4 * sound / np.abs(sound).max() * ends)


def voice() -> Array:
    """Half a second of faint noise, two words, half a second of noise: float32."""
    gap, rest = np.zeros(RATE // 25), np.zeros(RATE // 2)
    first = [vowel("a", 120, 0.25), gap, vowel("i", 130, 0.2), vowel("o", 115, 0.3)]
    sound = np.concatenate([rest, *first, gap, vowel("a", 125, 0.3), rest])
    return np.asarray(sound + 0.001 * np.random.default_rng(1).standard_normal(len(sound)), np.float32)


def noise() -> Array:
    """A second of loud noise: float32."""
    return np.asarray(0.1 * np.random.default_rng(2).standard_normal(RATE), np.float32)


def recording(name: str) -> Array:
    """A clip that is in the cache, with 16,000 samples a second: float32. FileNotFoundError if it was not fetched."""
    with wave.open(str(cache() / "speech" / f"{name}.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (3 * RATE, 1, 2)
        sound = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768
    taps = np.arange(-72, 73) / 3
    return np.asarray(np.convolve(sound, np.sinc(taps) / 3 * np.hamming(len(taps)), "same")[::3], np.float32)


def windows(sound: Array, rate: int = RATE) -> Iterator[Array]:
    """What the network sees at each step: float32 [576] (or 288 for 8,000 samples a second), of which 512 are new."""
    new, old = CHUNK * rate // RATE, BEFORE * rate // RATE
    padded = np.pad(sound, (old, -len(sound) % new))
    for begin in range(0, len(padded) - old, new):
        yield padded[begin : begin + old + new]


def spoken(outputs: Sequence[Array]) -> tuple[bool, ...]:
    """For each row or step, whether somebody speaks."""
    return tuple(bool(p > 0.5) for p in np.ravel(outputs[0]))


def steps(count: int) -> Feeds:
    """`count` windows around the first word."""
    first = 14
    rows = np.stack(list(windows(voice()))[first : first + count])
    return {"input": rows, "h": np.zeros((1, 1, 128), np.float32), "c": np.zeros((1, 1, 128), np.float32)}


def rows(count: int) -> Feeds:
    """`count` windows, each of a voice of its own."""
    found = list(windows(voice()))
    picked = np.stack([found[n] for n in (22, 5, 30)][:count])
    return {"input": picked, "sr": np.array(RATE), "state": np.zeros((2, count, 128), np.float32)}


HEARD = (False, False) + (True,) * 14
MODELS = (
    Model(
        "silero_vad_sequence",
        "speech in a recording",
        lambda: (steps(16), steps(5)),
        spoken,
        (HEARD, HEARD[:5]),
        16,
        ("steps",),
    ),
    Model(
        "silero_vad_op18",
        "speech in 32 ms",
        lambda: (rows(1), rows(3)),
        spoken,
        ((True,), (True, False, True)),
        18,
        ("batch", "samples"),
    ),
)
