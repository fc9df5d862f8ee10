"""Coverage-guided fuzzing of the sieve with atheris: no crash, no hang, no law broken.

    pip install 'toolgraft[fuzz]'
    python tests/fuzz/fuzz_sieve.py -max_total_time=1800 [further libFuzzer options]

Starts from `seeds/`, from the inputs of `tests/cases/sieve.jsonl` and from what earlier runs found (`corpus/`, not kept in the repository). A failing input is written to `crashers/`,
where `test_replay.py` replays it for ever. `python tests/fuzz/fuzz_sieve.py --show FILE` prints the text of an input,
`--least FILE` makes a failing input small.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
CASES = HERE.parent / "cases" / "sieve.jsonl"


def main() -> None:
    """Run libFuzzer until it is told to stop."""
    import atheris

    with atheris.instrument_imports(include=["pipeline.sieve", "pipeline.dialects", "pipeline.text"]):
        import target

    corpus = HERE / "corpus"
    corpus.mkdir(exist_ok=True)
    for line in CASES.read_text(encoding="utf-8").splitlines() if CASES.exists() else ():
        case = json.loads(line)
        (corpus / case["id"]).write_bytes(b"\x01\x07" + case["input"].encode("utf-8", "replace")[:600])
    options = [f"-artifact_prefix={HERE / 'crashers'}/", "-max_len=600", "-timeout=10", "-rss_limit_mb=3000"]
    atheris.Setup([sys.argv[0], *options, *sys.argv[1:], str(corpus), str(HERE / "seeds")], target.check)
    atheris.Fuzz()


def show(path: str) -> None:
    """Print the text an input stands for and the law it breaks."""
    import target

    data = Path(path).read_bytes()
    print(target.options_of(data), target.REASONS[(data[0] >> 3) & 3])
    print(repr(target.text_of(data)))
    target.check(data)
    print("no law is broken")


def least(path: str) -> None:
    """Take stretches away while the same kind of law stays broken; overwrite the file with what is left."""
    import target

    def fault(data: bytes) -> str | None:
        try:
            target.check(data)
        except Exception as exc:
            return f"{type(exc).__name__} {str(exc).split(':')[0]}"
        return None

    data = Path(path).read_bytes()
    kind = fault(data)
    size = len(data)
    while kind and size:
        at = 2
        while at < len(data):
            smaller = data[:at] + data[at + size :]
            if fault(smaller) == kind:
                data = smaller
            else:
                at += size
        size //= 2
    Path(path).write_bytes(data)
    show(path)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("--show", "--least"):
        (show if sys.argv[1] == "--show" else least)(sys.argv[2])
    else:
        main()
