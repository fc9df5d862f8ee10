"""How CPU time grows with the size of the input.

In: something that makes an input of a size, something that works on it. Out: CPU per character at a larger size over CPU per
character at a smaller one: about 1 when the work is linear, about `times` when it is quadratic.
Promise: CPU time of this process, never wall-clock, the best of several rounds, the two sizes by turns, so that a busy machine
hardly moves the ratio. The only file of `pipeline` that reads a clock; the product never imports it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def cpu_seconds(work: Callable[[], object], rounds: int = 5) -> float:
    """CPU seconds of the fastest round."""
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def growth(make: Callable[[int], str], work: Callable[[str], object], size: int, times: int, rounds: int = 3) -> float:
    """CPU per character at `size * times` over CPU per character at `size`."""
    small, large = make(size), make(size * times)
    best_small = best_large = float("inf")
    gc.freeze()  # else each of the collections before a round goes through all that a long test run has made
    try:
        for _ in range(rounds):
            best_small = min(best_small, cpu_seconds(lambda: work(small), rounds=3))
            best_large = min(best_large, cpu_seconds(lambda: work(large), rounds=1))
    finally:
        gc.unfreeze()
    return (best_large / max(1, len(large))) / (best_small / max(1, len(small))) if best_small else 1.0
