"""Short neutral texts for the examples, chosen by what a parameter is called or by the format that its schema asks for.

Data only. A name is cut into words; the row that knows its last known word gives the text, in three variants: examples that all
hold the same value teach a weak model to write that value. Examples are imitated literally, so nothing in here
does harm when a model calls it: no command that changes something, no address that belongs to anybody.
"""

from __future__ import annotations

BY_FORMAT: dict[str, str] = {
    "date-time": "2025-01-31T09:30:00Z",
    "date": "2025-01-31",
    "time": "09:30:00Z",
    "duration": "PT5M",
    "email": "someone@example.com",
    "idn-email": "someone@example.com",
    "hostname": "example.com",
    "idn-hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "iri": "https://example.com/",
    "uri-reference": "/page",
    "iri-reference": "/page",
    "uri-template": "https://example.com/{id}",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "json-pointer": "/a/0",
    "relative-json-pointer": "1/a",
    "regex": "[a-z]+",
    "byte": "SGVsbG8=",
    "binary": "SGVsbG8=",
}

BY_WORD: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = (
    (frozenset({"path", "file", "filename", "filepath", "notebook"}), ("notes.txt", "src/app.py", "list.csv")),
    (frozenset({"dir", "directory", "folder", "cwd", "workdir", "root"}), ("docs", "src", "reports")),
    (frozenset({"url", "uri", "link", "href", "website"}), ("https://example.com/", "https://example.org/", "https://example.net/")),
    (frozenset({"city", "location", "place", "town", "destination", "origin"}), ("Oslo", "Lisbon", "Kyoto")),
    (frozenset({"country"}), ("Norway", "Portugal", "Japan")),
    (frozenset({"command", "cmd", "shell"}), ("ls", "pwd", "date")),
    (frozenset({"email"}), ("someone@example.com", "office@example.org", "info@example.net")),
    (frozenset({"date", "day", "start", "end", "since", "until"}), ("2025-01-31", "2025-03-15", "2025-06-01")),
    (frozenset({"time"}), ("09:30", "14:00", "18:45")),
    (frozenset({"timezone", "tz"}), ("UTC", "Europe/Lisbon", "Asia/Tokyo")),
    (frozenset({"language", "lang", "locale"}), ("en", "pt", "ja")),
    (frozenset({"currency"}), ("EUR", "USD", "JPY")),
    (frozenset({"code", "script", "source", "python"}), ("print(1)", "print(2)", "print(3)")),
    (frozenset({"expression", "formula", "equation"}), ("2 + 3", "7 * 6", "10 / 4")),
    (frozenset({"glob"}), ("*.txt", "*.py", "*.csv")),
    (frozenset({"pattern", "regex"}), ("total", "price", "date")),
    (
        frozenset({"query", "search", "keyword", "keywords", "term", "question", "q", "topic"}),
        ("opening hours", "train times", "apple pie recipe"),
    ),
    (frozenset({"id", "key", "number", "uuid"}), ("42", "17", "105")),
    (frozenset({"name", "title", "subject", "label", "user", "username"}), ("Sample", "Anna", "Report")),
    (
        frozenset({"text", "content", "contents", "body", "message", "note", "prompt", "description", "summary", "input"}),
        ("Hello", "Call Anna back", "Lunch at noon"),
    ),
)

ANYTHING = ("sample", "example", "trial")
"""For a name that no row knows."""

FALLBACKS: tuple[str, ...] = (
    "sample",
    "Sample",
    "SAMPLE",
    "a",
    "A",
    "1",
    "42",
    "2025-01-31",
    "09:30",
    "notes.txt",
    "/notes.txt",
    "en",
    "en-US",
    "#1a2b3c",
    "v1.0.0",
    "abc123",
    "a@example.com",
    "https://example.com/",
    "12345678",
    "1.5",
    "ABC-123",
)
"""Tried in turn where a schema gives a pattern that the text for the name does not match."""
