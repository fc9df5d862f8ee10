"""The notation of phrase data, and the machine that it is compiled into.

A pattern is a row of elements, read over the normalised words of one sentence:

    word            that word; `werkzeug*` any word that begins so, `*ly` any word that ends so
    NAME            a class of the file: one of its alternatives
    {a b|c|NAME}    one of these
    X?              X or nothing
    ~n              up to n words, none of them a clause break; ~~n may cross clause breaks
    ,  $            a clause break; the end of a clause or sentence
    ^  ^^           a clause begins here; the sentence begins here (first element only)
    @tool  @topic   the name of an offered tool; a word that the names of an offered tool or of its arguments have too
    @file           a file name: a dot inside and letters behind it

An alternative may itself be a row of elements. Rows of words alone, optional ones among them, become entries of one word tree, up to
MAX_SPELLED an alternative; all others are multiplied out into patterns of their own. All patterns of a language become one bit-parallel
machine: a state is a bit, a word takes every active state a step further at once. There is no backtracking: the work for
a word depends on the data alone, never on the text before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import product

from pipeline.refusals.words import ASK, COMMA, END

MAX_ROWS = 20_000
MAX_SPELLED = 4_000
_REMEMBERED = 8_192
"""Words whose places in the tree are remembered: the common words of a language are most of what is read."""
_CLASS_NAME = re.compile(r"[A-Z][A-Z0-9_]*\Z")
_GAP = re.compile(r"(~~?)(\d+)\Z")
_TOOL = "@tool"
_TOPIC = "@topic"
_FILE = "@file"
_FILE_NAME = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[a-z]{1,5}\Z")

Fold = Callable[[str], list[str]]


class NotationError(ValueError):
    """Phrase data that cannot be read; the message names the pattern and what is wrong with it."""


Rows = frozenset[tuple[str, ...]]
"""Alternatives that are plain rows of words."""
Element = tuple[str, Rows]
"""What it is (words, optional, gap, any, or an anchor's sign) and, for the first two, which words."""
Row = tuple[Element, ...]
_NONE: Rows = frozenset()


class Notation:
    """Turns pattern text into rows, with the classes of one language."""

    def __init__(self, classes: Mapping[str, Sequence[str]], fold: Fold) -> None:
        """`classes` name -> alternatives in this notation, `fold` normalises literal words."""
        self._classes = classes
        self._fold = fold
        self._resolved: dict[str, list[Row]] = {}
        self._open: list[str] = []

    def rows(self, pattern: str) -> list[Row]:
        """Every row that the pattern stands for. Raises NotationError."""
        choices = [self._element(token, pattern) for token in _split(pattern)]
        count = 1
        for choice in choices:
            count *= len(choice)
        if count > MAX_ROWS:
            raise NotationError(f"{pattern!r}: {count} rows, at the most {MAX_ROWS}")
        return [tuple(element for part in parts for element in part) for parts in product(*choices)]

    def _element(self, token: str, pattern: str) -> list[Row]:
        if token.endswith("?") and len(token) > 1:
            inner = self._element(token[:-1], pattern)
            if len(inner) == 1 and len(inner[0]) == 1 and inner[0][0][0] == "words":
                return [(("optional", inner[0][0][1]),)]
            return [*inner, ()]
        gap = _GAP.match(token)
        if gap:
            return [tuple(("any" if gap[1] == "~~" else "gap", _NONE) for _ in range(int(gap[2])))]
        if token in ("^", "^^", "$", ",", _TOOL, _TOPIC, _FILE):
            return [((token, _NONE),)]
        if token.startswith("{"):
            return self._alternatives(token[1:-1].split("|") if "{" not in token[1:] else _split_bars(token[1:-1]))
        if _CLASS_NAME.match(token):
            if token not in self._resolved:
                if token not in self._classes:
                    raise NotationError(f"{pattern!r}: unknown class {token}")
                if token in self._open:
                    raise NotationError(f"class {token} contains itself")
                self._open.append(token)
                self._resolved[token] = self._alternatives(self._classes[token])
                self._open.pop()
            return self._resolved[token]
        words = tuple(self._literal(token, pattern))
        return [(("words", frozenset({words})),)]

    def _literal(self, token: str, pattern: str) -> list[str]:
        if token.startswith("*"):
            if not token[1:].isalnum():
                raise NotationError(f"{pattern!r}: {token!r} is no ending")
            return [token]  # no word of its own, so nothing to fold
        words = self._fold(token.removesuffix("*"))
        if not words or any(word in (COMMA, END, ASK) for word in words):
            raise NotationError(f"{pattern!r}: {token!r} is no word")
        return [*words[:-1], words[-1] + "*"] if token.endswith("*") else words

    def _alternatives(self, texts: Iterable[str]) -> list[Row]:
        plain: set[tuple[str, ...]] = set()
        rows: list[Row] = []
        for text in texts:
            for row in self.rows(text):
                spelled = _spelled_out(row)
                if spelled is None:
                    rows.append(row)
                else:
                    plain |= spelled
        plain.discard(())
        return ([(("words", frozenset(plain)),)] if plain else []) + rows


def _spelled_out(row: Row) -> set[tuple[str, ...]] | None:
    """Every row of words that a row stands for; None where it holds anything but words, or stands for too many."""
    count = 1
    for kind, words in row:
        if kind not in ("words", "optional"):
            return None
        count *= len(words) + (kind == "optional")
    if count > MAX_SPELLED:
        return None
    choices = [[*words, ()] if kind == "optional" else [*words] for kind, words in row]
    return {tuple(word for part in parts for word in part) for parts in product(*choices)}


def _split(pattern: str) -> list[str]:
    tokens: list[str] = []
    depth, start = 0, None
    for at, char in enumerate(pattern + " "):
        if char == " " and depth == 0:
            if start is not None:
                tokens.append(pattern[start:at])
                start = None
            continue
        depth += (char == "{") - (char == "}")
        if start is None:
            start = at
    if depth or start is not None or not tokens:
        raise NotationError(f"{pattern!r}: braces do not match, or nothing in it")
    return tokens


def _split_bars(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if char == "|" and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


class Node:
    """A place in the word tree: what follows, and which states a row of words that ends here takes a step further."""

    __slots__ = ("children", "classes", "deeper", "endings", "stems", "take")

    def __init__(self) -> None:
        """An empty place. There are tens of thousands, most of them leaves: what a leaf has not, all share."""
        self.children: dict[str, Node] = _NO_NODES
        self.stems: dict[int, dict[str, Node]] = _NO_LEVELS
        self.endings: dict[int, dict[str, Node]] = _NO_LEVELS
        self.classes: tuple[int, ...] = ()
        self.take = 0
        self.deeper = 0

    def add(self, words: Sequence[str]) -> Node:
        """The place that these words lead to."""
        node = self
        for word in words:
            if word.endswith("*"):
                if node.stems is _NO_LEVELS:
                    node.stems = {}
                level, word = node.stems.setdefault(len(word) - 1, {}), word[:-1]
            elif word.startswith("*"):
                if node.endings is _NO_LEVELS:
                    node.endings = {}
                level, word = node.endings.setdefault(len(word) - 1, {}), word[1:]
            else:
                if node.children is _NO_NODES:
                    node.children = {}
                level = node.children
            found = level.get(word)
            if found is None:
                found = level[word] = Node()
            node = found
        return node

    def after(self, word: str) -> list[Node]:
        """The places that a word leads to: by its whole, its beginning and its end."""
        whole = self.children.get(word)
        found = [] if whole is None else [whole]
        for length, level in self.stems.items():
            node = level.get(word[:length])
            if node is not None:
                found.append(node)
        for length, level in self.endings.items():
            node = level.get(word[-length:])
            if node is not None:
                found.append(node)
        return found

    def settle(self, masks: Sequence[int], known: dict[int, int]) -> int:
        """Turn class numbers into state masks, once all is built; returns all states that this tree can serve. Equal masks are one object of `known`."""
        take = deeper = 0
        for number in self.classes:
            take |= masks[number]
        self.classes = ()
        levels = (self.children, *self.stems.values(), *self.endings.values())
        for child in (node for level in levels for node in level.values()):
            deeper |= child.settle(masks, known)
        self.take = known.setdefault(take, take)
        self.deeper = known.setdefault(deeper, deeper)
        return take | deeper

    def serves(self, states: int) -> bool:
        """Whether one of these states may be taken further here or below."""
        return bool((self.take | self.deeper) & states)


_NO_NODES: dict[str, Node] = {}
_NO_LEVELS: dict[int, dict[str, Node]] = {}


class Alive(IntEnum):
    """Nothing was begun; some words that may become an element; an element and more."""

    NO = 0
    PERHAPS = 1
    BEGUN = 2


class Machine:
    """All patterns of one language. Immutable once built; `Run` holds the state of one sentence."""

    def __init__(self) -> None:
        """A machine without patterns."""
        self.root = Node()
        self.size = 0
        self.gap = 0
        self.any = 0
        self.skip = 0
        self.comma = 0
        self.stop = 0
        self.tool = 0
        self.topic = 0
        self.file = 0
        self.start = 0
        self.clause = 0
        self.first = 0
        self.accept = 0
        self.places: Callable[[str], tuple[list[Node], bool]] = self._places
        self.owner: dict[int, int] = {}
        self._classes: dict[Rows, int] = {}
        self._masks: list[int] = []

    def add(self, row: Row, owner: int) -> int:
        """Add one row; `owner` is told on a match. Returns the mask of its states."""
        anchor = row[0][0] if row[0][0] in ("^", "^^") else ""
        elements = row[1:] if anchor else row
        while elements and elements[-1][0] in ("gap", "any", "optional"):
            elements = elements[:-1]  # an end that may be missing says nothing
        if not any(kind == "words" or kind in (_TOOL, _TOPIC, _FILE) for kind, _ in elements):
            raise NotationError("a pattern must hold at least one word that is not optional")
        if elements[0][0] in ("gap", "any") and not anchor:
            raise NotationError("only an anchored pattern may begin with a gap")
        base = self.size
        for at, (kind, value) in enumerate(elements, base):
            bit = 1 << at
            match kind:
                case "words" | "optional":
                    self._masks[self._class(value)] |= bit
                    self.skip |= bit if kind == "optional" else 0
                case "gap":
                    self.gap |= bit
                    self.skip |= bit
                case "any":
                    self.any |= bit
                    self.skip |= bit
                case ",":
                    self.comma |= bit
                case "$":
                    self.stop |= bit
                case "@tool":
                    self.tool |= bit
                case "@topic":
                    self.topic |= bit
                case "@file":
                    self.file |= bit
                case _:
                    raise NotationError(f"{kind!r} may only come first")
        self.size += len(elements) + 1
        end = self.size - 1
        self.accept |= 1 << end
        self.owner[end] = owner
        if anchor == "^^":
            self.first |= 1 << base
        elif anchor:
            self.clause |= 1 << base
        else:
            self.start |= 1 << base
        return (1 << self.size) - (1 << base)

    def _class(self, words: Rows) -> int:
        if words not in self._classes:
            self._classes[words] = len(self._masks)
            self._masks.append(0)
            for one in words:
                self.root.add(one).classes += (self._classes[words],)
        return self._classes[words]

    def finish(self) -> None:
        """Freeze: after this no row may be added."""
        self.root.settle(self._masks, {})
        self._masks = []
        self._classes = {}
        self.start = self.closure(self.start)
        self.clause = self.closure(self.clause) | self.start
        self.first = self.closure(self.first) | self.clause
        self.places = lru_cache(maxsize=_REMEMBERED)(self._places)

    def begins_nothing(self, word: str, is_tool: Callable[[str], bool]) -> bool:
        """Whether no pattern may begin with this word in the middle of a clause."""
        if word in (COMMA, END, ASK) or self.start & (self.topic | self.file) or self.places(word)[1]:
            return False
        return not (self.start & self.tool and is_tool(word))

    def _places(self, word: str) -> tuple[list[Node], bool]:
        """The places that a word leads to from the root, and whether a pattern may begin with one in the middle of a clause."""
        places = self.root.after(word)
        return places, any(node.serves(self.start) for node in places)

    def closure(self, states: int) -> int:
        """The states, and those behind every element that may be skipped."""
        while True:
            more = (states & self.skip) << 1 & ~states
            if not more:
                return states
            states |= more


class Run:
    """A machine on its way through one text, sentence by sentence."""

    __slots__ = ("_machine", "_open", "_states")

    def __init__(self, machine: Machine) -> None:
        """Begin at the start of a sentence."""
        self._machine = machine
        self._states = machine.first
        self._open: list[tuple[Node, int]] = []

    def step(self, word: str, is_tool: Callable[[str], bool], is_topic: Callable[[str], bool]) -> int:
        """Take one word; return the accepting states it led to."""
        machine = self._machine
        before = self._states
        if not self._open and before == machine.start and machine.begins_nothing(word, is_tool):
            return 0  # so it is with most words in most languages
        after = 0
        if word in (COMMA, END, ASK):
            self._open = []
            after = (before & (machine.stop | (machine.any if word == COMMA else 0) | (machine.comma if word == COMMA else 0))) << 1
        else:
            open_: list[tuple[Node, int]] = []
            for child in machine.places(word)[0]:
                if child.serves(before):
                    open_.append((child, before))
                    after |= (child.take & before) << 1
            for node, mask in self._open:
                for child in node.after(word):
                    if child.serves(mask):
                        open_.append((child, mask))
                        after |= (child.take & mask) << 1
            self._open = open_
            after |= (before & (machine.gap | machine.any)) << 1
            if before & machine.tool and is_tool(word):
                after |= (before & machine.tool) << 1
            if "." in word and before & machine.file and _FILE_NAME.match(word):
                after |= (before & machine.file) << 1
            if before & machine.topic and is_topic(word):
                after |= (before & machine.topic) << 1
        found = after & machine.accept
        self._states = (machine.closure(after) if after else 0) | (machine.clause if word == COMMA else machine.start)
        return found

    def restart(self) -> None:
        """A new sentence begins."""
        self._states = self._machine.first
        self._open = []

    def alive(self, within: int) -> Alive:
        """How far a pattern among the states `within` has come that may still come to its end."""
        machine = self._machine
        if not self._open and self._states == machine.start:
            return Alive.NO
        if self._states & ~machine.clause & ~machine.accept & within:
            return Alive.BEGUN
        return Alive.PERHAPS if any(node.deeper & mask & within for node, mask in self._open) else Alive.NO

    def owners(self, found: int) -> list[int]:
        """Who the accepting states belong to."""
        owners = []
        while found:
            low = found & -found
            owners.append(self._machine.owner[low.bit_length() - 1])
            found ^= low
        return owners
