"""What writing costs: CPU per text delta, per protocol, through the whole encoding stage.

    python tests/bench/encode.py             microseconds per text delta, one event a write and twenty
    python tests/bench/encode.py --calls     microseconds per whole call

Reads nothing, needs nothing. Figures are CPU seconds of one core, the best of some rounds. A machine is described by the time that CPython
takes for `sum(range(10**7))`: 0.125 s is the reference, and `scaled` is the cost as it would be there.

What must hold, on the reference machine, one event a write: 1.5 us per text delta in every protocol, 3 us with a stop sequence. The exit
status is 1 when a row falls short.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pipeline.events import CallDone, Event, TextDelta
from pipeline.settings import Settings
from pipeline.stages.re_encode import ReEncode
from pipeline.testing.growth import cpu_seconds
from pipeline.turn import Emulation, Turn
from pipeline.verdicts import Api

REFERENCE_S = 0.125
EVENTS = 20_000
TURNS = {
    "plain": ({}, 1.5),
    "emulated": ({"emulation": Emulation("json_action", ())}, 1.5),
    "one call only": ({"emulation": Emulation("json_action", ()), "parallel_calls": False}, 2.0),
    "stop sequence": ({"emulation": Emulation("json_action", ()), "stop": ("\n\nHuman:",)}, 3.0),
}
TEXTS = {"ascii": "some twenty chars ok", "chinese": "二十个字的中文文本用来测量编码的速度快慢", "escapes": 'a "quoted"\n\tline \\ x'}


def cost(turn: Turn, groups: Sequence[Sequence[Event]], events: int) -> float:
    """CPU microseconds per event."""

    def run() -> None:
        encoder = ReEncode(Settings()).encode(turn, lambda *_, **__: None)
        for group in groups:
            encoder.feed(group)

    return cpu_seconds(run, 7) / events * 1e6


def main() -> int:
    """Print the rows; 1 when one falls short."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", action="store_true")
    options = parser.parse_args()
    machine = cpu_seconds(lambda: sum(range(10**7)), 5)
    print(f"machine {machine:.3f} s, reference {REFERENCE_S} s")
    if options.calls:
        calls = [[CallDone(at, "look", '{"port":"Vigo","note":"some more text"}')] for at in range(2_000)]
        for api in Api:
            print(f"{api.value:22}{cost(Turn(api=api, model='m', stream=True), calls, len(calls)):8.2f} us per call")
        return 0
    met = True
    print(f"{'':54}{'us, 1 a write':>15}{'scaled':>8}{'wanted':>8}{'us, 20 a write':>16}")
    for api in Api:
        for kind, (fields, wanted) in TURNS.items():
            for name, text in TEXTS.items():
                if name != "ascii" and kind != "plain":
                    continue
                event = TextDelta(text)
                turn = Turn(api=api, model="some/model", stream=True, include_usage=True, **fields)
                one = cost(turn, [[event]] * EVENTS, EVENTS)
                twenty = cost(turn, [[event] * 20] * (EVENTS // 20), EVENTS)
                scaled = one * REFERENCE_S / machine
                met = met and scaled <= wanted
                print(f"{api.value:22}{kind:16}{name:16}{one:15.2f}{scaled:8.2f}{wanted:8.1f}{twenty:16.2f}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
