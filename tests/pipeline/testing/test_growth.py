"""The measure of growth tells linear work from quadratic work."""

from __future__ import annotations

from pipeline.testing.growth import growth
from pipeline.testing.inputs import HOSTILE, noisy_prose, prose, repeated


def test_linear_and_quadratic_work_are_told_apart():
    def quadratic(text):
        seen = ""
        for at in range(0, len(text), 4):
            seen = text[:at]
            seen.count("\x00")
        return seen

    assert growth(repeated("abc"), lambda text: [ord(ch) for ch in text], 1 << 15, 8) < 2
    assert growth(repeated("abc"), quadratic, 1 << 12, 8) > 3


def test_inputs_are_the_same_every_time_and_of_the_size_asked_for():
    for make in (prose, noisy_prose, *HOSTILE.values()):
        assert make(5000) == make(5000)
        assert 4000 <= len(make(5000)) <= 5000
