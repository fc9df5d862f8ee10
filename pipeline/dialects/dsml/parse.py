"""Read one block of DSML markup or of its canonical spelling (S5, S6).

In: the block's text from its first tag on, in pieces. Out: Done, Rejected or None for more. A block is a wrapper, invokes in it, parameters or one JSON
object in those; where structure is expected, only white space, comments and tags of the block's family may stand, and the first other
character settles the matter. Values are `ValueScan`'s.

An invoke that is bad as a whole (no name, a swallowed parameter) stays text while the others are calls. Something that is no structure rejects the
block at once, unless a good invoke stands before it: then the bad one is skipped to its closer. A block of mixed families is read to its end
and refused there. With the wide tolerance a complete invoke is enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pipeline.dialects.argument_writer import ArgumentWriter
from pipeline.dialects.block import Done, Part, Progress, Rejected, Start
from pipeline.dialects.calls import Fault, Found, Written
from pipeline.dialects.dsml import values
from pipeline.dialects.dsml.buffer import Buffer
from pipeline.dialects.dsml.value_scan import ValueScan
from pipeline.text import json_repair
from pipeline.text.json_scan import JsonScanner
from pipeline.text.letters import INVISIBLE, LESS
from pipeline.text.tag_heads import INVOKE, WRAPPER
from pipeline.text.tags import BAD, COMMENT, COMMENT_END, Tag, read_tag
from pipeline.verdicts import BlockOutcome, Repair

_SPACE = re.compile(rf"[\s{INVISIBLE}]*")
_LESS = re.compile(f"[{LESS}]")
_WRAPPED = frozenset(("input", "parameters", "arguments"))
_NO_SECTION_END: Final = "no section end"
_ROOT: dict[str, object] = {}

_Answer = Done | Rejected | bool


class _Invoke:
    """An invoke that is open."""

    __slots__ = ("at", "fault", "fixed", "found", "has_body", "name", "values")

    def __init__(self, name: str, at: int, found: Found | None, fault: Fault | None) -> None:
        self.name = name
        self.at = at
        self.found = found
        self.fault = fault
        self.values: dict[str, list[object]] = {}
        self.fixed: set[str] = set()
        self.has_body = False


class DsmlParser:
    """Parses one block."""

    __slots__ = (
        "_buffer",
        "_calls",
        "_dsml",
        "_due",
        "_early",
        "_invoke",
        "_json",
        "_keyed",
        "_limit",
        "_missing_wrapper",
        "_mixed",
        "_parameter",
        "_parts",
        "_raw",
        "_repairs",
        "_scan",
        "_size",
        "_skip_at",
        "_solid",
        "_state",
        "_unclosed",
        "_used_wide",
        "_wide",
        "_wrapper",
        "_writer",
        "progress",
    )

    def __init__(self, start: Start) -> None:
        """Begin at the first tag."""
        self.progress: list[Progress] = []
        self._calls = start.calls
        self._wide = start.options.wide
        self._limit = start.options.max_tag_chars
        self._early = start.early
        self._unclosed = start.hint == _NO_SECTION_END
        self._buffer = Buffer()
        self._state: Callable[[], _Answer] = self._structure
        self._size = 0
        self._solid = 0
        self._dsml: bool | None = None
        self._wrapper = False
        self._missing_wrapper = False
        self._mixed = False
        self._used_wide = False
        self._invoke: _Invoke | None = None
        self._parameter: Tag | None = None
        self._scan: ValueScan | None = None
        self._writer: ArgumentWriter | None = None
        self._due: str | None = None
        self._keyed = False
        self._json: JsonScanner | None = None
        self._raw: list[str] = []
        self._parts: list[Part] = []
        self._repairs: set[Repair] = set()
        self._skip_at = 0

    def feed(self, text: str) -> Done | Rejected | None:
        """Take the next piece."""
        self._size += len(text)
        scan = self._scan
        if scan is not None and scan.in_section and self._buffer.empty and "]" not in text:
            self._buffer.skip(text)
            scan.pass_on(text, self._size)
            return None
        self._buffer.add(text)
        return self._run()

    def _run(self) -> Done | Rejected | None:
        while True:
            answer = self._state()
            if answer is False:
                return None
            if answer is not True:
                return answer

    def close(self, *, truncated: bool) -> Done | Rejected:
        """The text ended. A CDATA section that never closed ends at the first proven closer (S5), but not when the model was cut off (S13)."""
        scan = self._scan
        content = scan.reopen() if scan is not None and not truncated and not self._committed() else None
        if scan is not None and content is not None:
            self._repairs.add(Repair.UNCLOSED_CDATA)
            self._unclosed = True
            self._buffer.restart(content + self._buffer.text[self._buffer.at :], scan.section_at)
            answer = self._run()
            if answer is not None:
                return answer
            self._repairs.discard(Repair.UNCLOSED_CDATA)
        if self._wide and self._complete() and self._writer is None:
            self._use_wide(Repair.WRAPPER_CLOSER if self._wrapper else Repair.BARE_INVOKE)
            return self._done(self._parts[-1].end)
        opener_only = self._wrapper and self._invoke is None and not self._parts and self._buffer.empty
        return Rejected(
            end=self._size,
            outcome=BlockOutcome.UNTERMINATED,
            fault="the block ends before it is complete",
            fault_at=self._size,
            mention=self._no_attempt(),
            names=self._names(),
            opener_only=opener_only or self._dsml is None,
        )

    # What the block is so far.

    def _complete(self) -> bool:
        return any(part.call is not None for part in self._parts)

    def _committed(self) -> bool:
        return self._writer is not None or any(part.early for part in self._parts)

    def _names(self) -> tuple[str, ...]:
        return (self._invoke.name,) if self._invoke is not None and self._invoke.name else ()

    def _no_attempt(self) -> bool:
        """A tag alone, or a tag and a bare invoke with nothing in it, is a mention."""
        invoke = self._invoke
        if self._parts or self._scan is not None:
            return False
        return invoke is None or (not invoke.values and not (self._wrapper and invoke.name))

    def _use_wide(self, repair: Repair) -> None:
        self._used_wide = True
        self._repairs.add(repair)

    def _reject(
        self,
        fault: str,
        *,
        end: int | None = None,
        outcome: BlockOutcome = BlockOutcome.MALFORMED,
        mention: bool | None = None,
        at_tag: bool = False,
    ) -> Rejected:
        return Rejected(
            end=self._solid if end is None else end,
            outcome=outcome,
            fault=fault,
            fault_at=self._buffer.place,
            mention=self._no_attempt() if mention is None else mention,
            names=self._names(),
            quotes=at_tag or not self._no_attempt(),
        )

    # States. Each consumes from the buffer and says whether to go on, or gives the answer.

    def _structure(self) -> _Answer:
        buffer = self._buffer
        text = buffer.text
        found = _SPACE.match(text, buffer.at)
        at = buffer.at = found.end() if found else buffer.at
        if at == len(text):
            return False
        char = text[at]
        if char in LESS:
            rest = text[at : at + len(COMMENT)]
            if rest == COMMENT:
                self._state = self._comment
                buffer.at += len(COMMENT)
                return True
            if COMMENT.startswith(rest):
                return False
            tag = read_tag(text, at, self._limit, wide=self._wide)
            if tag is None:
                return False
            if tag == BAD:
                return self._no_structure("something else than a tag of the block")
            return self._take(tag)
        if char == "{" and self._invoke is not None and not self._invoke.values and not self._invoke.has_body:
            self._json = JsonScanner()
            self._raw = []
            self._state = self._body
            return True
        return self._no_structure("text where a tag was expected")

    def _comment(self) -> _Answer:
        buffer = self._buffer
        end = buffer.text.find(COMMENT_END, buffer.at)
        if end < 0:
            buffer.at = max(buffer.at, len(buffer.text) - len(COMMENT_END) + 1)
            return False
        buffer.at = end + len(COMMENT_END)
        self._solid = buffer.place
        self._state = self._structure
        return True

    def _take(self, tag: Tag) -> _Answer:
        """One tag where structure is expected."""
        if self._dsml is None:
            self._dsml = tag.dsml
        elif tag.dsml != self._dsml and not (tag.word == WRAPPER and not tag.closing):
            if self._wide:
                self._use_wide(Repair.MIXED_TAGS)
            else:
                self._mixed = True
        if tag.noisy:
            self._repairs.add(Repair.TAG_NOISE)
        if tag.lost_end:
            self._repairs.add(Repair.TAG_END)
        if tag.word == WRAPPER:
            return self._take_wrapper(tag)
        if tag.word == INVOKE:
            return self._take_invoke(tag)
        if self._invoke is None or tag.closing or self._invoke.has_body:
            return self._no_structure("a parameter tag where none is expected")
        self._consume(tag)
        return self._begin_parameter(tag)

    def _consume(self, tag: Tag) -> None:
        self._buffer.at = tag.end
        self._solid = self._buffer.place

    def _take_wrapper(self, tag: Tag) -> _Answer:
        if not tag.closing:
            if self._solid:
                # A new block begins: what came before it is over (S6).
                if self._wide and self._complete() and self._invoke is None:
                    self._use_wide(Repair.WRAPPER_CLOSER)
                    return self._done(self._parts[-1].end)
                return self._reject("a new block begins before this one is complete")
            if tag.empty:
                self._consume(tag)
                return self._reject("the block is empty", mention=True)
            if tag.misspelt:
                self._use_wide(Repair.MISSING_WRAPPER)
            self._wrapper = True
            self._consume(tag)
            return True
        if self._invoke is not None:
            if not self._wide:
                return self._no_structure("the invoke is not closed")
            self._use_wide(Repair.INVOKE_CLOSER)
            ended = self._end_invoke(self._solid)
            if ended is not None:
                return ended
        self._consume(tag)
        if not self._parts:
            return self._reject("the block holds no invoke", mention=False)
        if tag.misspelt:
            self._use_wide(Repair.WRAPPER_CLOSER)
        if not self._wrapper:
            self._repairs.add(Repair.MISSING_WRAPPER)
        return self._done(self._buffer.place)

    def _take_invoke(self, tag: Tag) -> _Answer:
        if tag.closing:
            if self._invoke is None:
                return self._no_structure("an invoke is closed that was not opened")
            self._consume(tag)
            return self._end_invoke(self._solid) or True
        if self._invoke is not None:
            if not self._wide:
                return self._no_structure("the invoke is not closed")
            self._use_wide(Repair.INVOKE_CLOSER)
            ended = self._end_invoke(self._solid)
            if ended is not None:
                return ended
        at = self._buffer.place
        self._consume(tag)
        name = tag.name or ""
        found = self._calls.find(name)
        fault = found if isinstance(found, Fault) else None
        self._invoke = _Invoke(name, at, None if isinstance(found, Fault) else found, fault)
        if self._may_commit() and isinstance(found, Found) and found.tool is not None:
            self._writer = ArgumentWriter(self.progress, self._calls, found, self._solid)
        if tag.empty:
            return self._end_invoke(self._solid) or True
        return True

    def _may_commit(self) -> bool:
        """Calls are told in order: once one waits for the end of the block, those behind it do. A lost wrapper is proven by its closer only (S6)."""
        return self._early and self._wrapper and not self._mixed and (not self._parts or self._parts[-1].early)

    def _begin_parameter(self, tag: Tag) -> _Answer:
        invoke = self._invoke
        if invoke is None:
            return self._no_structure("a parameter outside of an invoke")
        if not tag.name and invoke.fault is None:
            invoke.fault = Fault(BlockOutcome.MALFORMED, "a parameter has no name")
        self._parameter = tag
        name = tag.name or ""
        invoke.values.setdefault(name, [])
        if tag.string is not None:
            # The attribute beats the schema (S10).
            invoke.fixed.add(name)
        writer = self._writer
        streams = writer is not None and not tag.empty and tag.string is not False and (tag.string or writer.streams(name))
        if writer is not None:
            if self._due != name and not self._write_due():
                return self._reject("the arguments nest too deep")
            streams = self._keyed = streams and self._due is None
            if not tag.name or writer.has(name) or (streams and not writer.key(name, self._solid)):
                return self._reject("a parameter has no name, or stands twice")
        if tag.empty:
            return self._end_parameter("")
        self._scan = ValueScan(
            family=bool(self._dsml),
            wide=self._wide or self._mixed,
            limit=self._limit,
            unclosed=self._unclosed,
            writer=writer if streams else None,
        )
        self._state = self._value
        return True

    def _value(self) -> _Answer:
        scan, tag, invoke = self._scan, self._parameter, self._invoke
        if scan is None or tag is None or invoke is None or not scan.scan(self._buffer):
            return False
        self._scan = None
        self._unclosed = scan.unclosed
        self._solid = self._buffer.place
        self._state = self._structure
        if scan.swallowed and invoke.fault is None:
            invoke.fault = Fault(BlockOutcome.MALFORMED, f"the value of {tag.name!r} is not closed before the next parameter")
        if scan.swallowed and self._writer is not None:
            return self._reject("a value swallowed the next parameter")
        if scan.streamed:
            return True
        found = invoke.found
        schema = self._calls.schema_of(found, tag.name or "") if found is not None else None
        root = found.tool.parameters if found is not None and found.tool is not None else _ROOT
        return self._end_parameter(values.read(scan.segments, string=tag.string, schema=schema, root=root))

    def _end_parameter(self, value: object) -> _Answer:
        invoke, tag = self._invoke, self._parameter
        if invoke is None or tag is None:
            return False
        invoke.values[tag.name or ""].append(value)
        writer = self._writer
        if writer is not None and self._keyed and not writer.value(tag.name or "", value, self._solid, fixed=tag.string is not None):
            return self._reject("the arguments nest too deep")
        if writer is not None and not self._keyed:
            self._due = tag.name
        return True

    def _write_due(self) -> bool:
        """Write the parameter that waited to see whether it repeats (S5); false when it cannot be written."""
        invoke, writer, name = self._invoke, self._writer, self._due
        self._due = None
        if invoke is None or writer is None or name is None:
            return True
        value = _joined(invoke.values[name])
        return writer.key(name, self._solid) and writer.value(name, value, self._solid, fixed=name in invoke.fixed)

    def _body(self) -> _Answer:
        """A JSON object in place of parameters."""
        buffer, scanner, invoke = self._buffer, self._json, self._invoke
        if scanner is None or invoke is None:
            return False
        at = buffer.at
        buffer.at = scanner.feed(buffer.text, at)
        self._raw.append(buffer.text[at : buffer.at])
        if scanner.fault or scanner.stopped:
            return self._no_structure(scanner.fault or "the JSON object is not complete")
        if not scanner.done:
            return False
        invoke.has_body = True
        self._solid = buffer.place
        self._state = self._structure
        try:
            value, repairs = json_repair.read("".join(self._raw))
        except json_repair.UnreadableError as exc:
            value, repairs = None, []
            invoke.fault = invoke.fault or Fault(BlockOutcome.MALFORMED, str(exc))
        self._repairs.update(repairs)
        if isinstance(value, dict):
            if len(value) == 1:
                ((key, inner),) = value.items()
                if key in _WRAPPED and isinstance(inner, dict):
                    value = inner
            invoke.values = {key: [item] for key, item in value.items()}
            if self._writer is not None:
                for key, item in value.items():
                    if not (self._writer.key(key, self._solid) and self._writer.value(key, item, self._solid)):
                        return self._reject("the arguments cannot be read")
        elif self._writer is not None:
            return self._reject("the arguments are no JSON object")
        return True

    def _end_invoke(self, end: int) -> Done | Rejected | None:
        """Turn the open invoke into a part of the block."""
        if not self._write_due():
            return self._reject("the arguments nest too deep")
        invoke, writer = self._invoke, self._writer
        self._invoke = self._writer = None
        if invoke is None:
            return None
        fault = invoke.fault
        made: Written | Fault | None = None
        if fault is None and invoke.found is not None:
            arguments = {key: _joined(found) for key, found in invoke.values.items()}
            repairs: list[Repair] = []
            made = self._calls.make(invoke.found, arguments, repairs, fixed=invoke.fixed)
            if isinstance(made, Fault):
                fault = made
            elif self._wide and self._lacks(invoke.found, arguments):
                # Kept as a part; whether it counts is known when the block is over.
                fault = Fault(BlockOutcome.BAD_ARGUMENTS, "the tool is not declared, or arguments are missing")
                self._parts.append(Part(end, made, fault.outcome, fault.text, (invoke.name,), writer is not None, invoke.at))
                self._finish(writer, end)
                return None
            else:
                self._repairs.update(repairs)
        if isinstance(made, Written):
            self._parts.append(Part(end, made, early=writer is not None))
            self._finish(writer, end)
            return None
        fault = fault or Fault(BlockOutcome.MALFORMED, "the invoke cannot be read")
        if writer is not None:
            return self._reject(fault.text, outcome=fault.outcome)
        self._parts.append(Part(end, None, fault.outcome, fault.text, (invoke.name,) if invoke.name else (), start=invoke.at))
        return None

    @staticmethod
    def _finish(writer: ArgumentWriter | None, end: int) -> None:
        if writer is not None:
            writer.finish(end)

    def _lacks(self, found: Found, arguments: dict[str, object]) -> bool:
        return found.tool is None or bool(self._calls.missing(found, arguments))

    def _no_structure(self, fault: str) -> _Answer:
        """What stands here is no structure of the block."""
        if self._wide and self._invoke is None and self._complete():
            self._use_wide(Repair.BARE_INVOKE if not self._wrapper else Repair.WRAPPER_CLOSER)
            return self._done(self._parts[-1].end)
        if self._invoke is not None and self._wrapper and self._complete() and self._writer is None:
            self._invoke.fault = self._invoke.fault or Fault(BlockOutcome.MALFORMED, fault)
            self._scan = None
            self._state = self._skip
            return True
        buffer = self._buffer
        # A tag of another kind right behind the wrapper's is no mention of the wrapper in a sentence.
        return self._reject(fault, at_tag=self._wrapper and buffer.text[buffer.at] in LESS)

    def _skip(self) -> _Answer:
        """Look for the closer of a bad invoke."""
        buffer = self._buffer
        text = buffer.text
        while True:
            found = _LESS.search(text, buffer.at)
            if found is None:
                buffer.at = len(text)
                return False
            buffer.at = found.start()
            tag = read_tag(text, buffer.at, self._limit, wide=False)
            if tag is None:
                return False
            if tag != BAD and tag.closing and tag.dsml == self._dsml:
                if tag.word == INVOKE:
                    self._consume(tag)
                    self._state = self._skipped
                    return True
                if tag.word == WRAPPER:
                    self._end_invoke(buffer.place)
                    self._state = self._structure
                    return True
            buffer.at += 1

    def _skipped(self) -> _Answer:
        """Behind a closer of an invoke: structure proves it."""
        buffer = self._buffer
        text = buffer.text
        found = _SPACE.match(text, buffer.at)
        at = buffer.at = found.end() if found else buffer.at
        if at == len(text):
            return False
        self._state = self._skip
        if text[at] in LESS:
            tag = read_tag(text, at, self._limit, wide=False)
            if tag is None:
                self._state = self._skipped
                return False
            if (
                tag != BAD
                and tag.dsml == self._dsml
                and ((tag.word == INVOKE and not tag.closing) or (tag.word == WRAPPER and tag.closing))
            ):
                self._end_invoke(self._solid)
                self._state = self._structure
        return True

    # The end.

    def _done(self, end: int) -> Done | Rejected:
        parts: list[Part] = []
        for part in self._parts:
            call = part.call
            if call is not None and part.outcome is not BlockOutcome.PARSED and self._used_wide:
                call = None
            outcome = BlockOutcome.PARSED if call is not None else part.outcome
            if call is not None:
                parts.append(Part(part.end, call, outcome, early=part.early))
            else:
                parts.append(Part(part.end, None, outcome, part.fault, part.names, part.early, part.start))
        if self._mixed:
            return Rejected(end, BlockOutcome.MALFORMED, "DSML and canonical tags are mixed", end)
        good = any(part.call is not None for part in parts)
        if not good or any(part.early and part.call is None for part in parts):
            first = next(part for part in parts if part.call is None)
            return Rejected(end, first.outcome, first.fault, end, names=first.names)
        last = parts[-1]
        if last.call is not None and not last.early:
            parts[-1] = Part(end, last.call)
        return Done(
            end=end,
            parts=tuple(parts),
            repairs=tuple(json_repair.in_order(self._repairs)),
            hint=_NO_SECTION_END if self._unclosed else None,
        )


def _joined(found: list[object]) -> object:
    """A parameter's value: a repeated parameter becomes an array (S5)."""
    return found[0] if len(found) == 1 else found
