"""JSON that is made to break its reader, as bytes, and the places where our readers meet it."""

import json
from dataclasses import dataclass

MEGA = 10 * 1024 * 1024


@dataclass(frozen=True)
class Bomb:
    """``value`` is one JSON value, or looks like one. ``fits``: whether a message can hold it, if it is one."""

    name: str
    value: bytes
    fits: bool = False


def lists(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def objects(depth: int) -> bytes:
    return b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1)


_DEPTHS = [10, 100, 120, 129, 190, 201, 1_000, 100_000]
BOMBS: list[Bomb] = [
    *(Bomb(f"lists {depth}", lists(depth), depth <= 120) for depth in _DEPTHS),
    *(Bomb(f"objects {depth}", objects(depth), depth <= 120) for depth in _DEPTHS),
    *(Bomb(f"open lists {depth}", b"[" * depth) for depth in _DEPTHS),
    *(Bomb(f"open objects {depth}", b'{"a":' * depth) for depth in _DEPTHS),
    Bomb("10 MB text", b'"' + b"a" * MEGA + b'"', True),
    Bomb("10 MB escapes", b'"' + b"\\u00e9" * (MEGA // 6) + b'"', True),
    Bomb("10 MB blanks", b" " * MEGA + b"1", True),
    Bomb("10 MB without an end", b'"' + b"a" * MEGA),
    Bomb("100,000 keys", b"{" + b",".join(b'"%d":%d' % (n, n) for n in range(100_000)) + b"}", True),
    Bomb("100,000 times the same key", b"{" + b",".join([b'"a":1'] * 100_000) + b"}", True),
    Bomb("100,000 nulls", b"[" + b",".join([b"null"] * 100_000) + b"]", True),
    Bomb("duplicate keys", b'{"a":1,"a":2}', True),
    Bomb("duplicate keys, nested", b'{"a":{"b":1},"a":{"c":[]}}', True),
    Bomb("proto keys", b'{"__proto__":{"x":1},"__class__":"y","constructor":null}', True),
    Bomb("a long key", b'{"' + b"k" * 1_000_000 + b'":1}', True),
    Bomb("an empty key", b'{"":""}', True),
    *(Bomb(f"{digits} digits", b"9" * digits, digits <= 4_000) for digits in (19, 400, 4_000, 4_299, 5_000, 100_000)),
    Bomb("minus 5,000 digits", b"-" + b"9" * 5_000),
    Bomb("5,000 decimals", b"0." + b"3" * 5_000, True),
    *(Bomb(number, number.encode()) for number in ("1e999", "-1e999", "1E+400", "1e309", "9" * 400 + ".5")),
    *(Bomb(number, number.encode(), True) for number in ("1e308", "1e-999", "-0", "-0.0", "1e0", "5e-324")),
    *(Bomb(word, word.encode()) for word in ("NaN", "nan", "Infinity", "-Infinity", "inf", "+1", "01", "1.", ".5")),
    *(
        Bomb(word, word.encode())
        for word in ("0x10", "1_000", "1e", "--1", "undefined", "None", "True", "'a'", "{a:1}")
    ),
    *(Bomb(text, text.encode()) for text in (r'"\ud800"', r'"\udc00"', r'"\udc00\ud800"', r'"\ud800a"', r'"\uD83D"')),
    *(Bomb(text, text.encode()) for text in (r'{"\ud800":1}', r'"\ud83d\u0041"', r'"\u12"', r'"\x41"', '"\\')),
    Bomb("a pair of surrogates", rb'"\ud83d\ude00"', True),
    Bomb("an escaped NUL", rb'"\u0000"', True),
    Bomb("raw lone surrogates", b'"\xed\xa0\x80\xed\xb0\x80"'),
    Bomb("a BOM", b"\xef\xbb\xbf1"),
    *(
        Bomb(f"not UTF-8 {text.hex()}", b'"' + text + b'"')
        for text in (b"\xff", b"\xc3", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xfe\xff\x00a", b"\x80", b"\xe2\x82")
    ),
    *(Bomb(f"a raw {text!r} in a text", b'"a' + text + b'b"') for text in (b"\0", b"\n", b"\x1b", b"\t")),
    Bomb("UTF-16", '{"a":1}'.encode("utf-16")),
    Bomb("a tail", b"1 2"),
    Bomb("a comment", b"1 /* x */"),
    Bomb("a comma too many", b"[1,]"),
]


def quote(value: bytes) -> bytes:
    """The value as a JSON string, for wires that carry arguments as text; its invalid bytes stay unescaped."""
    text = value.decode("utf-8", "surrogateescape")
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogateescape")
