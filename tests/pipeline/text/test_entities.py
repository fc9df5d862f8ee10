"""Character references are decoded once, and only valid ones (S5)."""

from __future__ import annotations

import pytest

from pipeline.text.entities import decode


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("&lt;b&gt; &amp; &quot;x&quot; it&apos;s", '<b> & "x" it\'s'),
        ("&amp;lt;", "&lt;"),
        ("&#39; &#x6E2F; &#X41;", "' 港 A"),
        ("&nbsp; &; & &lt &#; &#x; &#xZZ;", "&nbsp; &; & &lt &#; &#x; &#xZZ;"),
        ("&#0; &#xD800; &#x110000; &#9999999;", "&#0; &#xD800; &#x110000; &#9999999;"),
        ("&LT;", "&LT;"),
    ],
)
def test_references(text, decoded):
    assert decode(text) == decoded


def test_text_without_references_is_the_same_object():
    text = "a < b"
    assert decode(text) is text
