"""The reader of XML takes what management clients send, and refuses the rest before it costs anything."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.errors import ArgumentError
from tandem.limits import MAX_XML_ATTRIBUTES, MAX_XML_BYTES, MAX_XML_DEPTH, MAX_XML_ELEMENTS
from tandem.management.atom.xml import Element, element, escaped, read_xml

# Seconds and bytes. What a bomb may cost. The most expensive takes 0.01 s: the rest is for a slow machine, and one that
# works takes minutes.
MAX_BOMB_S: Final = 0.5
MAX_BOMB_BYTES: Final = 16 << 20


def nested(depth: int, rest: str = "") -> bytes:
    return (f"<a{rest}>" * depth + "</a>" * depth).encode()


# --- what is read ---------------------------------------------------------------------------------------------------


def test_elements_are_found_by_their_local_names() -> None:
    root = read_xml(
        b'<?xml version="1.0"?><x:entry xmlns:x="urn:a" xmlns="urn:b"><content x:type="t:Sql" type2=" v ">'
        b" <Key>one &amp; &#x41;</Key><!-- no --><?no thing?><Key>two</Key><Empty/></content></x:entry>"
    )
    assert root.name == "entry"
    content = root.find("content")
    assert content is not None
    assert content.type == "Sql"
    assert content.attributes["type2"] == " v "
    assert [key.text for key in content.find_all("Key")] == ["one & A", "two"]
    assert content.text_of("Key") == "one & A"
    assert content.text_of("Empty") is None
    assert content.text_of("Missing") is None
    assert content.find("Missing") is None


@pytest.mark.parametrize("value, is_nil", [("true", True), ("1", True), ("false", False), ("", False)])
def test_nil_is_told_by_its_attribute(value: str, is_nil: bool) -> None:
    assert read_xml(f'<a xmlns:i="urn:i" i:nil="{value}"/>'.encode()).is_nil is is_nil


@pytest.mark.parametrize(
    "document",
    [
        "<a>ü</a>".encode(),
        b"\xef\xbb\xbf" + "<a>ü</a>".encode(),
        '<?xml version="1.0" encoding="UTF-16"?><a>ü</a>'.encode("utf-16"),
        '<?xml version="1.0" encoding="ISO-8859-1"?><a>ü</a>'.encode("latin-1"),
        b"<a><![CDATA[\xc3\xbc]]></a>",
    ],
    ids=["utf-8", "bom", "utf-16", "latin-1", "cdata"],
)
def test_encodings_that_xml_has_are_read(document: bytes) -> None:
    assert read_xml(document).text == "ü"


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b" ",
        b"text",
        b"<a>",
        b"</a>",
        b"<a></b>",
        b"<a/><b/>",
        b"<a/>text",
        b"<a x=1/>",
        b'<a x="1" x="2"/>',
        b'<a xmlns:p="urn:1" xmlns:q="urn:1" p:x="1" q:x="2"/>',
        b"<p:a/>",
        b"<a>&unknown;</a>",
        b"<a>&#0;</a>",
        b"<a>\x00</a>",
        b"\x00<a/>",
        b"<a>\xff\xfe</a>",
        b"<a>\xed\xa0\x80</a>",
        b"\xff\xfe<\x00a\x00",
        b"\xfe\xff\xd8\x00<a/>",
        b'<?xml version="1.0" encoding="no-such"?><a/>',
        b'<?xml version="1.0" encoding="rot13"?><a/>',
        b'<?xml version="1.0" encoding="hex"?><a/>',
        b'<?xml version="1.0" encoding="utf-7"?><a>+AOk-</a>',
        b'<?xml version="1.0" encoding="idna"?><a/>',
        b"<a><!-- -- --></a>",
    ],
)
def test_what_is_no_xml_is_an_argument_error(document: bytes) -> None:
    with pytest.raises(ArgumentError):
        read_xml(document)


def test_an_error_says_where_it_is() -> None:
    with pytest.raises(ArgumentError, match="line 2, column 2: mismatched tag"):
        read_xml(b"<a>\n</b>")


def test_the_limits_are_as_told() -> None:
    assert read_xml(nested(MAX_XML_DEPTH)).name == "a"
    with pytest.raises(ArgumentError, match=f"more than {MAX_XML_DEPTH} levels"):
        read_xml(nested(MAX_XML_DEPTH + 1))
    children = b"<b/>" * (MAX_XML_ELEMENTS - 1)
    assert len(read_xml(b"<a>" + children + b"</a>").children) == MAX_XML_ELEMENTS - 1
    with pytest.raises(ArgumentError, match="more than 4,096 elements"):
        read_xml(b"<a>" + children + b"<b/></a>")
    attributes = "".join(f' a{number}="1"' for number in range(MAX_XML_ATTRIBUTES))
    assert len(read_xml(f"<a{attributes}/>".encode()).attributes) == MAX_XML_ATTRIBUTES
    with pytest.raises(ArgumentError, match=f"more than {MAX_XML_ATTRIBUTES} attributes"):
        read_xml(f'<a{attributes} more="1"/>'.encode())
    longest = b"<a>" + b"x" * (MAX_XML_BYTES - 7) + b"</a>"
    assert len(read_xml(longest).text) == MAX_XML_BYTES - 7
    with pytest.raises(ArgumentError, match="262,145 bytes"):
        read_xml(longest + b" ")


def doctype(entities: str, body: str) -> bytes:
    return f"<!DOCTYPE a [{entities}]><a>{body}</a>".encode()


def _laughs() -> bytes:
    lines = ['<!ENTITY l0 "lol">']
    lines += [f'<!ENTITY l{number} "{f"&l{number - 1};" * 10}">' for number in range(1, 10)]
    return doctype("".join(lines), "&l9;")


_ROOM: Final = MAX_XML_BYTES - 200
BOMBS: Final[dict[str, Callable[[], bytes]]] = {
    "billion laughs": _laughs,
    "quadratic blow-up": lambda: doctype(f'<!ENTITY x "{"x" * 100_000}">', "&x;" * 50_000),
    "external entity": lambda: doctype('<!ENTITY x SYSTEM "file:///etc/passwd">', "&x;"),
    "external document type": lambda: b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd"><a/>',
    "parameter entity": lambda: doctype('<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;', ""),
    "attribute defaults": lambda: doctype(f'<!ATTLIST a x CDATA "{"x" * 100_000}">', ""),
    "document type": lambda: b"<!DOCTYPE a><a/>",
    "depth": lambda: nested(_ROOM // 7),
    "depth without an end": lambda: b"<a>" * (_ROOM // 3),
    "elements": lambda: b"<a>" + b"<a/>" * (_ROOM // 4) + b"</a>",
    "attributes": lambda: b"<a" + b"".join(b' a%d=""' % number for number in range(_ROOM // 11)) + b"/>",
    "attributes of one prefix": lambda: (
        b'<a xmlns:p="urn:p"' + b"".join(b' p:a%d=""' % number for number in range(_ROOM // 13)) + b"/>"
    ),
    "prefixes": lambda: (
        b"<a"
        + b"".join(b' xmlns:p%d="u"' % number for number in range((_ROOM - 20_000) // 17))
        + b">"
        + b"<b/>" * 4096
        + b"</a>"
    ),
    "one prefix, again and again": lambda: b'<a xmlns:p="u">' + b'<p:b xmlns:p="v"/>' * 10_000 + b"</a>",
    "a huge attribute": lambda: b'<a x="' + b"x" * 2 * MAX_XML_BYTES + b'"/>',
    "a huge name": lambda: b"<" + b"x" * 2 * MAX_XML_BYTES + b"/>",
    "a huge text": lambda: b"<a>" + b"x" * 2 * MAX_XML_BYTES + b"</a>",
    "an attribute without an end": lambda: b'<a x="' + b"x" * _ROOM,
    "a name without an end": lambda: b"<" + b"x" * _ROOM,
    "a comment without an end": lambda: b"<a><!--" + b"-x" * (_ROOM // 2),
    "an instruction without an end": lambda: b"<a><?x " + b"?x" * (_ROOM // 2),
    "character data without an end": lambda: b"<a><![CDATA[" + b"]]" * (_ROOM // 2),
    "references": lambda: b"<a>" + b"&x;" * (_ROOM // 3) + b"</a>",
    "half a document of UTF-16": lambda: '<?xml version="1.0"?><a>'.encode("utf-16") + b"x\x00" * (_ROOM // 2),
}
# What is within the limits, and has to be read as fast.
LARGE: Final[dict[str, Callable[[], bytes]]] = {
    "a large attribute": lambda: b'<a x="' + b"x" * _ROOM + b'"/>',
    "a large name": lambda: b"<" + b"x" * _ROOM + b"/>",
    "a large text": lambda: b"<a>" + b"x" * _ROOM + b"</a>",
    "a text in pieces": lambda: b"<a>" + b"x<!-- -->" * (_ROOM // 9) + b"</a>",
    "a text of references": lambda: b"<a>" + b"&lt;" * (_ROOM // 4) + b"</a>",
    "a text of lines": lambda: b"<a>" + b"\r\n" * (_ROOM // 2) + b"</a>",
    "all elements": lambda: b"<a>" + b"<abcdefgh x='1' y='2' z='3'>text</abcdefgh>" * 4095 + b"</a>",
    "instructions": lambda: b"<a>" + b"<?x?>" * (_ROOM // 5) + b"</a>",
}


def cost(document: bytes) -> tuple[float, int, Element | ArgumentError]:
    """Seconds of the processor, bytes at the peak, and what came of it."""

    def read() -> Element | ArgumentError:
        try:
            return read_xml(document)
        except ArgumentError as error:
            return error

    # The best of three: caches are cold at first.
    seconds: list[float] = []
    for _ in range(3):
        started = time.thread_time()
        read()
        seconds.append(time.thread_time() - started)
    tracemalloc.start()
    try:
        outcome = read()
        return min(seconds), tracemalloc.get_traced_memory()[1], outcome
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_at_little_cost(bomb: str) -> None:
    seconds, peak_bytes, outcome = cost(BOMBS[bomb]())
    assert isinstance(outcome, ArgumentError)
    assert len(str(outcome)) < 300
    assert seconds < MAX_BOMB_S
    assert peak_bytes < MAX_BOMB_BYTES


@pytest.mark.parametrize("name", LARGE)
def test_the_largest_that_is_allowed_costs_no_more(name: str) -> None:
    seconds, peak_bytes, outcome = cost(LARGE[name]())
    assert isinstance(outcome, Element)
    assert seconds < MAX_BOMB_S
    assert peak_bytes < MAX_BOMB_BYTES


# --- what is written ------------------------------------------------------------------------------------------------

NAMES: Final = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True)
# All that XML 1.0 can say; carriage returns are made newlines by whoever reads.
TEXTS: Final = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\ufffe\uffff", exclude_categories=("Cs", "Cc"))
    | st.sampled_from("\t\n<>&\"']]>"),
    max_size=20,
)


@given(NAMES, TEXTS, st.dictionaries(NAMES.filter(lambda name: not name.lower().startswith("xml")), TEXTS, max_size=5))
def test_what_was_written_is_read_again(name: str, text: str, attributes: dict[str, str]) -> None:
    read = read_xml(element("root", element(name, escaped(text), attributes)).encode())
    (child,) = read.children
    assert (child.name, child.text) == (name, text)
    # A reader makes blanks of line ends in attributes.
    blank = str.maketrans("\t\n", "  ")
    assert child.attributes == {key: value.translate(blank) for key, value in attributes.items()}


@given(st.text(max_size=50))
def test_whatever_is_escaped_can_be_read(text: str) -> None:
    document = element("a", escaped(text), {"x": text}).encode()
    assert len(read_xml(document).text.replace("\n", "")) <= len(text)


@given(st.binary(max_size=200))
def test_whatever_is_read_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ArgumentError):
        read_xml(data)
