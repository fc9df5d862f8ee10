"""A kit that any dialect can run on itself, with pytest.

In: a dialect, by subclassing `DialectConformance` in a test module. Out: one test for each promise a dialect makes to the sieve.
Promise: no knowledge of any concrete dialect; needs pytest to collect it and hypothesis to feed it, nothing else (that is why it
is imported by tests only: the product itself never needs hypothesis).

    from pipeline.testing.conformance import DialectConformance

    class TestMyDialect(DialectConformance):
        dialect = MyDialect()

What can be set on the class: `dialect` (required), `tools` (declared tools; default none, so every name is forwarded as it
stands), `fragments` (half markers and look-alikes that a model might write), `examples` (how many inputs each law is tried
on), `arguments` and `name` (functions of a `Dice`, for a format that cannot carry every JSON value or every name).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.dialects.dialect import Dialect
from pipeline.dialects.options import ParserOptions
from pipeline.events import Event
from pipeline.sieve.sieve import Sieve
from pipeline.testing import grammar, inputs, laws, strategies
from pipeline.testing.dice import Dice
from pipeline.testing.growth import growth
from pipeline.turn import Call, Tool
from pipeline.verdicts import FinishReason

_SIZE = 6 << 10
_TIMES = 8
_MOST = 3.0
_PROSE = strategies.built(grammar.plain_prose, 12)
_Case = TypeVar("_Case")
_REASONS = (FinishReason.STOP, FinishReason.LENGTH, None)


class DialectConformance:
    """Subclass it as `Test...` and set `dialect`. Every test states one promise."""

    dialect: ClassVar[Dialect]
    tools: ClassVar[tuple[Tool, ...]] = ()
    fragments: ClassVar[Sequence[str]] = ()
    examples: ClassVar[int] = 200
    arguments = staticmethod(grammar.arguments)
    name = staticmethod(grammar.name)

    def sieve(self) -> Sieve:
        """A fresh sieve that knows this dialect alone."""
        return Sieve([self.dialect], ParserOptions(tools=self.tools))

    def test_it_has_a_name_and_markers(self) -> None:
        """A dialect is named in configuration, and says which literal keywords echo escaping must break (C10)."""
        assert self.dialect.name.isidentifier()
        assert self.dialect.markers
        assert all(marker.strip() for marker in self.dialect.markers)

    def test_it_describes_itself_with_the_example_given(self) -> None:
        """The contract's text shows the example as a block that the sieve reads back."""
        example = grammar.call("find_berth", {"ship": "Gull 7", "deep": True})
        text = self.dialect.describe([Tool(name="find_berth")], example)
        assert self.dialect.render_calls([example]) in text
        assert "find_berth" not in self.dialect.describe([], None), "an undeclared name must not be shown as callable"

    def test_what_it_writes_is_read_back(self) -> None:
        """Rendering, then parsing, is the identity for any JSON arguments (C4)."""

        @self._law(self._calls())
        def law(calls: list[Call]) -> None:
            events = laws.run(self.sieve(), [self.dialect.render_calls(calls)])
            assert laws.told(events).calls == _meant(calls)

        law()

    def test_nothing_of_a_call_becomes_text(self) -> None:
        """Between plain sentences a block leaves no trace in the text, and takes nothing of it along, at any cut (S2, S12)."""

        @self._law(st.tuples(_PROSE, self._calls(), _PROSE, strategies.cuts()))
        def law(case: tuple[str, list[Call], str, list[int]]) -> None:
            before, calls, after, cuts = case
            between = ("\n\n" if before else "", "\n\n" if after else "")
            text = before + between[0] + self.dialect.render_calls(calls) + between[1] + after
            for parts in ([text], list(text), laws.split_at(text, cuts)):
                events = laws.run(self.sieve(), parts)
                told = laws.told(events)
                assert told.calls == _meant(calls)
                assert "".join(told.text.split()) == "".join((before + after).split())

        law()

    def test_cuts_change_nothing(self) -> None:
        """Whole, character by character and in any pieces: the same events after joining."""

        @self._law(st.tuples(self._text(), strategies.cuts(), st.sampled_from(_REASONS)))
        def law(case: tuple[str, list[int], FinishReason | None]) -> None:
            text, cuts, reason = case
            whole = laws.run(self.sieve(), [text], reason)
            laws.check_same(text, whole, laws.run(self.sieve(), list(text), reason), "whole against characters")
            laws.check_same(text, whole, laws.run(self.sieve(), laws.split_at(text, cuts), reason), f"whole against {cuts}")

        law()

    def test_spans_cut_the_input_and_close_flushes(self) -> None:
        """Nothing lost, nothing twice, nothing kept after the end, no exception on any text."""

        @self._law(st.tuples(self._text(), st.sampled_from(_REASONS)))
        def law(case: tuple[str, FinishReason | None]) -> None:
            text, reason = case
            laws.check_run(text, laws.run(self.sieve(), list(text), reason))

        law()

    def test_a_truncated_block_is_no_call(self) -> None:
        """Cut off anywhere, a block yields only calls that were complete (S13)."""

        @self._law(st.tuples(self._calls(), st.floats(0, 1), st.sampled_from((FinishReason.LENGTH, None))))
        def law(case: tuple[list[Call], float, FinishReason | None]) -> None:
            calls, share, reason = case
            text = self.dialect.render_calls(calls)
            text = text[: int(len(text) * share)]
            got = laws.told(laws.run(self.sieve(), [text], reason)).calls
            assert got == _meant(calls)[: len(got)]

        law()

    def test_time_grows_with_the_input(self) -> None:
        """Eight times the text costs about eight times the CPU time, for long values, many calls and half-open blocks (S14)."""
        whole = self.dialect.render_calls([grammar.call("a", {"b": "c"})])
        shapes: dict[str, Callable[[int], str]] = {
            "prose": inputs.noisy_prose,
            "one long call": lambda size: inputs.long_call(self.dialect, size),
            "one long call, open": lambda size: inputs.long_call(self.dialect, size)[:size],
            "small calls": lambda size: inputs.small_calls(self.dialect, size),
            **{f"marker {marker!r}": inputs.repeated(marker) for marker in self.dialect.markers},
            **{f"{at} characters of a block": inputs.repeated(whole[:at]) for at in range(1, len(whole), max(1, len(whole) // 8))},
        }
        for shape, make in shapes.items():
            grown = growth(make, self._consume, _SIZE, _TIMES, rounds=1)
            if grown > _MOST:
                grown = growth(make, self._consume, _SIZE, _TIMES)
            assert grown <= _MOST, f"{shape}: {grown:.1f} times the CPU per character at {_TIMES} times the size"

    def _consume(self, text: str) -> list[Event]:
        return laws.run(self.sieve(), laws.pieces(text, 20))

    def _calls(self) -> st.SearchStrategy[list[Call]]:
        return strategies.built(lambda dice: [grammar.call(self.name(dice), self.arguments(dice)) for _ in range(1 + dice.below(3))])

    def _text(self) -> st.SearchStrategy[str]:
        return strategies.built(lambda dice: grammar.hostile_text(dice, [self.dialect], self.fragments, [self._write]))

    def _write(self, dice: Dice) -> str:
        return self.dialect.render_calls([grammar.call(self.name(dice), self.arguments(dice))])

    def _law(self, strategy: st.SearchStrategy[_Case]) -> Callable[[Callable[[_Case], None]], Callable[[], None]]:
        profile = settings(
            max_examples=self.examples, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
        )

        def decorate(law: Callable[[_Case], None]) -> Callable[[], None]:
            run: Callable[[], None] = profile(given(strategy)(law))
            return run

        return decorate


def _meant(calls: Sequence[Call]) -> tuple[tuple[str, str], ...]:
    return tuple((call.name, laws.canonical(call.arguments.text())) for call in calls)
