"""Find the end of a parameter's value while it arrives (S5), and cut it into plain text and CDATA sections.

In: the parser's buffer, from behind the parameter's opener. Out: the segments, with the buffer standing at the tag that proves the end.
Promise: a decision waits until the text proves it, nothing is scanned again; what is undecided is kept in pieces.

The rules. In plain text a parameter closer of the block's family ends the value if structure follows it: another parameter, or the invoke's
closer. In a CDATA section a `]]>` ends the section if, behind white space, there follows such a closer (a), another CDATA opener, and the
sections join (b), or text without a further `]]>` before such a closer (c). Until (c) is decided the text is `pending`: the next `]]>`
makes all of it content of the section, a proven closer makes it mixed text behind the section. A section that stands directly in a nested element is
closed by that element's closer in the same way.

States: PLAIN, SECTION, BEHIND (a `]]>`), MIXED (pending text), PROOF (behind a parameter closer), ELEMENT (behind an element closer),
OPEN (a section of which we know that it never closes: it ends at the first proven closer).
"""

from __future__ import annotations

import re
from enum import IntEnum

from pipeline.dialects.argument_writer import ArgumentWriter
from pipeline.dialects.dsml.buffer import Buffer
from pipeline.dialects.dsml.swallowed import signs
from pipeline.dialects.dsml.values import Segment, text_of
from pipeline.text.letters import LESS
from pipeline.text.tag_heads import INVOKE, PARAMETER, WRAPPER
from pipeline.text.tags import BAD, COMMENT, SECTION, SECTION_END, Tag, may_be_section, read_tag

_LESS = re.compile(f"[{LESS}]")
_SPACE = re.compile(r"\s*")
_END_OR_LESS = re.compile(rf"\]\][>＞]|[{LESS}]")
_COMMENT = re.compile(r"<!--[^<\]]*?-->")
_OPEN_COMMENT = re.compile(r"<!--[^<\]]*\Z")
_ELEMENT_BEFORE = re.compile(r"<([A-Za-z_][\w.\-:]{0,64})(?:\s[^<>]{0,128})?>\s*\Z")


class _In(IntEnum):
    PLAIN = 0
    SECTION = 1
    BEHIND = 2
    MIXED = 3
    PROOF = 4
    ELEMENT = 5
    OPEN = 6


class ValueScan:
    """One value."""

    __slots__ = (
        "_back",
        "_candidate",
        "_element",
        "_family",
        "_joined",
        "_limit",
        "_mixed_swallow",
        "_pending",
        "_plain",
        "_section",
        "_section_ends",
        "_state",
        "_unclosed",
        "_wide",
        "_writer",
        "section_at",
        "segments",
        "streamed",
        "swallowed",
    )

    def __init__(self, *, family: bool, wide: bool, limit: int, unclosed: bool, writer: ArgumentWriter | None) -> None:
        """`family`: DSML? `wide`: tags of any family count. `unclosed`: no section closes any more. `writer`: pass a lone section on as it comes."""
        self.segments: list[Segment] = []
        self.swallowed = False
        self.streamed = False
        self.section_at = 0
        self._family = family
        self._wide = wide
        self._limit = limit
        self._unclosed = unclosed
        self._writer = writer
        self._state = self._back = _In.PLAIN
        self._plain: list[str] = []
        self._section: list[str] = []
        self._joined: list[str] = []
        self._section_ends = False
        self._pending: list[str] = []
        self._candidate: list[str] = []
        self._mixed_swallow = False
        self._element = ""

    @property
    def in_section(self) -> bool:
        """Inside a section, with nothing undecided."""
        return self._state is _In.SECTION

    def pass_on(self, text: str, end: int) -> None:
        """Take a piece without any `]` in a section."""
        self._section.append(text)
        if self.streamed and self._writer is not None:
            self._writer.text(text, end)

    def reopen(self) -> str | None:
        """The text ended in a section that never closed: give its content back to be read as OPEN; None when it is another state."""
        if self._state is not _In.SECTION or self._section_ends or self.streamed:
            return None
        content = "".join([*self._joined, *self._section])
        self._joined = []
        self._section = []
        self._state = _In.OPEN
        self._unclosed = True
        return content

    @property
    def unclosed(self) -> bool:
        """The value ends in, or is, a section without an end."""
        return self._unclosed

    def scan(self, buffer: Buffer) -> bool:
        """Go on; true when the end is proven, false when more text is needed."""
        while buffer.at < len(buffer.text):
            state = self._state
            if state is _In.PLAIN:
                moved = self._scan_plain(buffer, self._plain)
            elif state is _In.OPEN:
                moved = self._scan_plain(buffer, self._section)
            elif state is _In.SECTION:
                moved = self._scan_section(buffer)
            elif state is _In.BEHIND:
                moved = self._scan_behind(buffer)
            elif state is _In.MIXED:
                moved = self._scan_mixed(buffer)
            elif state is _In.ELEMENT:
                moved = self._scan_element(buffer)
            else:
                proven = self._prove(buffer)
                if proven:
                    self._end(buffer)
                    return True
                moved = proven is False
            if not moved:
                return False
        return False

    def _begin_proof(self, buffer: Buffer, closer: Tag) -> None:
        self._candidate = [buffer.text[buffer.at : closer.end]]
        buffer.at = closer.end
        self._back = self._state
        self._state = _In.PROOF

    def _own(self, tag: Tag) -> bool:
        return self._wide or tag.dsml == self._family

    def _scan_plain(self, buffer: Buffer, into: list[str]) -> bool:
        """Plain text, or the raw text of a section that never closes."""
        text, at = buffer.text, buffer.at
        found = _LESS.search(text, at)
        if found is None:
            into.append(text[at:])
            buffer.at = len(text)
            return False
        place = found.start()
        if place > at:
            into.append(text[at:place])
            buffer.at = place
        if self._state is _In.PLAIN:
            section = SECTION.match(text, place)
            if section is not None:
                buffer.at = section.end()
                self._open_section(buffer)
                return True
            if may_be_section(text, place):
                return False
        tag = read_tag(text, place, self._limit, wide=False)
        if tag is None:
            return False
        if tag != BAD and tag.word == PARAMETER and self._own(tag):
            if tag.closing:
                self._begin_proof(buffer, tag)
                return True
            self.swallowed = True
        into.append(text[place])
        buffer.at = place + 1
        return True

    def _open_section(self, buffer: Buffer) -> None:
        before = "".join(self._plain)
        self._plain = []
        if before or not self.segments:
            self.segments.append((False, before))
        element = _ELEMENT_BEFORE.search(before[-256:])
        self._element = element[1] if element else ""
        self._section = []
        self.section_at = buffer.place
        self._section_ends = False
        self._state = _In.OPEN if self._unclosed else _In.SECTION
        if self._writer is not None and not self._unclosed and len(self.segments) == 1 and not before.strip():
            self.streamed = True
            self._writer.begin_text(buffer.place)

    def _add(self, content: str, end: int) -> None:
        if content:
            self._section.append(content)
            if self.streamed and self._writer is not None:
                self._writer.text(content, end)

    def _scan_section(self, buffer: Buffer) -> bool:
        text, at = buffer.text, buffer.at
        found = SECTION_END.search(text, at)
        if found is None:
            buffer.at = _before_brackets(text, at)
            self._add(text[at : buffer.at], buffer.place)
            return False
        buffer.at = found.start()
        self._add(text[at : buffer.at], buffer.place)
        self._begin_pending(buffer, found[0])
        return True

    def _begin_pending(self, buffer: Buffer, end: str) -> None:
        buffer.at += len(end)
        self._section_ends = True
        self._pending = [end]
        self._mixed_swallow = False
        self._state = _In.BEHIND

    def _scan_behind(self, buffer: Buffer) -> bool:
        text, at = buffer.text, buffer.at
        found = _SPACE.match(text, at)
        end = found.end() if found else at
        if end > at:
            self._pending.append(text[at:end])
            buffer.at = end
            return end < len(text)
        if text[at] in LESS:
            section = SECTION.match(text, at)
            if section is not None:
                buffer.at = section.end()
                self._pending.clear()
                self._joined.append("".join(self._section))
                self._section = []
                self._state = _In.SECTION
                return True
            if may_be_section(text, at):
                return False
        self._state = _In.MIXED
        return True

    def _scan_mixed(self, buffer: Buffer) -> bool:
        text, at = buffer.text, buffer.at
        found = _END_OR_LESS.search(text, at)
        if found is None:
            buffer.at = _before_brackets(text, at)
            if buffer.at > at:
                self._pending.append(text[at : buffer.at])
            return False
        place = found.start()
        if place > at:
            self._pending.append(text[at:place])
            buffer.at = place
        if found[0][0] == "]":
            self._add("".join(self._pending), buffer.place)
            self._begin_pending(buffer, found[0])
            return True
        if self._element:
            closer = self._element_closer(text, place)
            if closer is None:
                return False
            if closer:
                self._candidate = [closer]
                buffer.at = place + len(closer)
                self._state = _In.ELEMENT
                return True
        tag = read_tag(text, place, self._limit, wide=False)
        if tag is None:
            return False
        if tag != BAD and tag.word == PARAMETER and self._own(tag):
            if tag.closing:
                self._begin_proof(buffer, tag)
                return True
            self._mixed_swallow = True
        self._pending.append(text[place])
        buffer.at = place + 1
        return True

    def _element_closer(self, text: str, at: int) -> str | None:
        """The closer of the element around the section, empty for anything else, None when more text is needed."""
        closer = f"</{self._element}"
        head = text[at : at + len(closer)]
        if head != closer:
            return None if len(text) - at < len(closer) and closer.startswith(head) else ""
        end = at + len(closer)
        stop = min(len(text), at + self._limit)
        while end < stop and text[end] in " \t":
            end += 1
        if end == len(text):
            return None
        return text[at : end + 1] if text[end] == ">" else ""

    def _scan_element(self, buffer: Buffer) -> bool:
        """Behind an element's closer: another tag proves it."""
        text, at = buffer.text, buffer.at
        found = _SPACE.match(text, at)
        end = found.end() if found else at
        if end > at:
            self._candidate.append(text[at:end])
            buffer.at = end
            return end < len(text)
        if text[at] != "<":
            self._pending += self._candidate
            self._state = _In.MIXED
            return True
        self._close_section()
        self._plain = [*self._pending[1:], *self._candidate]
        self._state = _In.PLAIN
        return True

    def _prove(self, buffer: Buffer) -> bool | None:
        """Behind a parameter closer: true when structure follows, false when anything else does, None when more text is needed."""
        text = buffer.text
        while True:
            found = _SPACE.match(text, buffer.at)
            end = found.end() if found else buffer.at
            if end > buffer.at:
                self._candidate.append(text[buffer.at : end])
                buffer.at = end
            if end == len(text):
                return None
            comment = _COMMENT.match(text, end, end + self._limit)
            if comment is None:
                break
            self._candidate.append(comment[0])
            buffer.at = comment.end()
        if text[end] in LESS:
            rest = text[end : end + self._limit]
            if len(rest) < self._limit and (COMMENT.startswith(rest) or _OPEN_COMMENT.match(rest)):
                return None
            tag = read_tag(text, end, self._limit, wide=self._wide)
            if tag is None:
                return None
            if tag != BAD and self._own(tag) and self._is_structure(tag):
                return True
        (self._pending if self._back is _In.MIXED else self._section if self._back is _In.OPEN else self._plain).extend(self._candidate)
        self._candidate = []
        self._state = self._back
        return False

    def _is_structure(self, tag: Tag) -> bool:
        if tag.word == PARAMETER:
            return not tag.closing
        if tag.word == INVOKE:
            return tag.closing or self._wide
        return self._wide and tag.word == WRAPPER and tag.closing

    def _close_section(self) -> None:
        sections = [*self._joined, "".join(self._section)]
        self.swallowed = self.swallowed or any(next(signs(section, dsml=self._family), None) is not None for section in sections)
        self.segments.append((True, "".join(sections)))
        self._joined = []
        self._section = []

    def _end(self, buffer: Buffer) -> None:
        """The closer is proven: what is pending is text behind the section."""
        if self._back is _In.MIXED:
            rest = "".join(self._pending[1:])
            self._close_section()
            self.swallowed = self.swallowed or self._mixed_swallow
            if self.streamed and self._writer is not None:
                tail = text_of([(True, ""), (False, rest)])
                if tail:
                    self._writer.text(tail, buffer.place)
                self._writer.end_text(buffer.place)
            if rest:
                self.segments.append((False, rest))
        elif self._back is _In.OPEN:
            self.segments.append((True, "".join(self._section)))
        else:
            self.segments.append((False, "".join(self._plain)))


def _before_brackets(text: str, at: int) -> int:
    """The end of the text, less the brackets at its end that may begin the end of a section."""
    end = len(text)
    while end > at and len(text) - end < 2 and text[end - 1] == "]":
        end -= 1
    return end
