"""A 100 KB argument made of everything that could end it too early comes out byte for byte, in both dialects, at every cut.

The argument holds the source code of the sieve itself, its markers, Markdown with nested fences, CDATA ends, HTML and JSX.
"""

from __future__ import annotations

import inspect
import random

import pytest

from pipeline import json_values
from pipeline.dialects.dsml import Dsml
from pipeline.dialects.json_action import JsonAction
from pipeline.dialects.options import ParserOptions
from pipeline.events import CallDone
from pipeline.sieve.sieve import Sieve
from pipeline.stages import sieve as sieve_module
from pipeline.testing import laws
from pipeline.testing.grammar import call
from pipeline.verdicts import BlockOutcome

DIALECTS = (JsonAction(), Dsml())
SIZE = 100_000
MARKDOWN = """
# How the sieve reads
````markdown
```json action
{"tool": "x", "parameters": {"a": "```"}}
```
~~~xml
<tool_calls><invoke name="x"><parameter name="a">1</parameter></invoke></tool_calls>
~~~
````
> ```json
> {"tool": "x", "parameters": {}}
> ```
`<|DSML|tool_calls>` and ``a ` b`` and a lone ` mark. <think>no</think>
[Tool Result: x] nothing
<tool_result>nothing</tool_result>
"""
MARKUP = """
<ul class='row'><li>a &lt; b &amp;&amp; c</li><br/><item>1</item></ul> <!-- ]]> --> <?xml version="1.0"?>
const Row = ({ it }) => <Foo bar={x => x && <b>{`${x}`}</b>} {...it} />; // \\u0041 \\" \\\\ “smart” ‘quotes’
if (a[b[c]]>0 && d]]> e) { return "]]]]>"; } // ]] > ]]]>
"""
CLOSERS = """
now <![CDATA[ one <|DSML|tool_calls> <｜DSML｜tool_calls> </tool_calls> </invoke> </parameter> ]]></parameter></invoke></tool_calls>
<|DSML|invoke name="x"> <|DSML|parameter name="a"> \r\n \r \t \u2028 漢字 🙂 \ufeff \u200b İ
"""
OWN_CLOSERS = """
]]></|DSML|parameter></|DSML|invoke></|DSML|tool_calls> ]]]]><![CDATA[> ]]> <![CDATA[ ]]><![CDATA[
"""


def the_argument(*parts: str) -> str:
    unit = inspect.getsource(sieve_module) + "".join(parts)
    return (unit * (SIZE // len(unit) + 1))[: SIZE - 200] + "".join(parts)[-200:]


def check(text: str, wanted: str, parts: list[str], whole=None):
    events = laws.run(Sieve(DIALECTS, ParserOptions()), parts)
    if whole is not None:
        laws.check_same("(a long argument)", whole, events)
        return events
    done = [event for event in events if isinstance(event, CallDone)]
    assert [event.name for event in done] == ["write_file"]
    assert json_values.loads(done[0].arguments) == {"path": "sieve.py", "content": wanted}
    assert laws.told(events).text == ""
    laws.check_run(text, events)
    return events


def cuts(text: str, number: int) -> list[int]:
    source = random.Random(len(text))
    near = [at for at in range(len(text)) if at < 160 or at > len(text) - 160]
    return source.sample(near, min(len(near), number)) + [source.randrange(len(text)) for _ in range(number)]


def blocks() -> dict[str, tuple[str, str]]:
    """The block and the argument it holds: as both dialects render it, and as a model writes it that knows no CDATA escape."""
    hard = the_argument(MARKDOWN, MARKUP, CLOSERS, OWN_CLOSERS)
    made = {dialect.name: (dialect.render_calls([call("write_file", {"path": "sieve.py", "content": hard})]), hard) for dialect in DIALECTS}
    soft = the_argument(MARKDOWN, MARKUP, CLOSERS).replace("]]><![CDATA[", "]]>").replace("</|DSML|parameter", "</|DSML|")
    block = (
        '<|DSML|tool_calls>\n<|DSML|invoke name="write_file">\n<|DSML|parameter name="path"><![CDATA[sieve.py]]></|DSML|parameter>\n'
        f'<|DSML|parameter name="content"><![CDATA[{soft}]]></|DSML|parameter>\n</|DSML|invoke>\n</|DSML|tool_calls>'
    )
    made["unescaped"] = (block, soft)
    return made


BLOCKS = blocks()


@pytest.mark.parametrize("how", BLOCKS)
def test_it_comes_out_byte_for_byte(how):
    text, wanted = BLOCKS[how]
    whole = check(text, wanted, [text])
    assert laws.told(whole).blocks[0].outcome is BlockOutcome.PARSED
    for size in (1, 2, 3, 7, 20):
        check(text, wanted, laws.pieces(text, size), whole)


@pytest.mark.parametrize("how", BLOCKS)
def test_it_comes_out_at_split_points(how):
    text, wanted = BLOCKS[how]
    whole = check(text, wanted, [text])
    for cut in cuts(text, 20):
        check(text, wanted, [text[:cut], text[cut:]], whole)


@pytest.mark.heavy
@pytest.mark.timeout(0)
@pytest.mark.parametrize("how", BLOCKS)
def test_it_comes_out_at_very_many_split_points(how):
    text, wanted = BLOCKS[how]
    whole = check(text, wanted, [text])
    for cut in cuts(text, 500):
        check(text, wanted, [text[:cut], text[cut:]], whole)
