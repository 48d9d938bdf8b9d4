"""Globs: literals are literal, a star stays within a segment, two stars do not, and matching is linear."""

import itertools
import random

import pytest

from dragoman.canonical.glob import MAX_ALTERNATIVES, Glob, glob
from tests.laws.policy.globs import compare, match_by_brute_force, steps
from tests.tables import each_row

PAIRS = 5_000
"""`python -m tests.laws.policy.globs` compares 50,000."""

MATCHES = [
    ("tool://db-server/*", "tool://db-server/x"), ("tool://**", "tool://db-server/x"), ("**", ""), ("*", ""), ("", ""),
    ("**", "a/b\n/c"), ("*", "a\nb"), ("a.b", "a.b"), ("f(x)", "f(x)"), ("a?c", "a?c"), ("[ab]", "[ab]"),
    ("a+$^|\\d", "a+$^|\\d"), ("**/x", "/x"), ("**/x", "a/b/x"), ("a**c", "abbc"), ("a***c", "a/b/c"),
    ("ä*ß", "äöüß"), ("*😀*", "a😀b"), ("a*b*c", "abbc"), ("*/*", "/"), ("{a,b}", "{a,b}"), ("a*", "a" * 10_000),
]  # fmt: skip
DIFFERS = [
    ("tool://*", "tool://db-server/x"), ("tool://db.server/*", "tool://db-server/x"), ("a", "a\n"), ("*a", "a\n"),
    ("tool://x/*", "tool://x/y\n/z"), ("", "a"), ("a", ""), ("a.b", "axb"), ("f(x)", "fx"), ("a?c", "abc"),
    ("[ab]", "a"), ("a*", "ba"), ("*a", "ab"), ("a", "A"), ("ä", "a\u0308"), ("*/*", "a"), ("a**", "b/a"),
    ("{a,b}", "a"), (".*", "a"), ("a|b", "a"), ("*", "a/b"), ("**/x", "x"),
]  # fmt: skip


@each_row(("pattern", "text"), MATCHES)
def test_globs_that_match(pattern: str, text: str) -> None:
    """The whole text has to match, with each character except the star standing for itself."""
    assert Glob(pattern).matches(text)


@each_row(("pattern", "text"), DIFFERS)
def test_globs_that_do_not_match(pattern: str, text: str) -> None:
    """Neither a part of the text nor what a regular expression would match."""
    assert not Glob(pattern).matches(text)


def test_globs_agree_with_exhaustive_matching() -> None:
    """Random pairs over a small alphabet, of which a fair share matches."""
    count = compare(PAIRS, seed=7)
    assert count.wrong == []
    assert PAIRS // 20 < count.matching < PAIRS - PAIRS // 20


@pytest.mark.parametrize("pattern", ["*a" * 100 + "b", "**a" * 100 + "b", "**/*a" * 50 + "**", "**" + "a*" * 100])
@pytest.mark.parametrize("length", [1_000, 10_000, 20_000])
def test_matching_takes_one_step_per_character(pattern: str, length: int) -> None:
    """Matching takes one step per character, also for patterns on which backtracking takes exponential time."""
    assert steps(pattern, "a" * length) <= length
    assert Glob("*a" * 100).matches("a" * length)


def test_the_matcher_state_is_no_longer_than_the_pattern() -> None:
    pattern = Glob("*a" * 100)
    assert max(pattern.start, pattern._accepting, pattern._segment_states).bit_length() <= 102


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("{a,b}", ["a", "b"]), ("x{a,}y", ["xay", "xy"]), ("{a,{b,c}d}", ["a", "bd", "cd"]), ("{a}", ["{a}"]),
        ("{a,b", ["{a,b"]), ("a,b}", ["a,b}"]), ("{{a,b}}", ["{a}", "{b}"]), ("{a,b}{c,d}", ["ac", "ad", "bc", "bd"]),
        ("{}", ["{}"]), ("*.{md,txt}", ["a.md", ".txt"]), ("{src/**,docs/*}.md", ["src/a/b.md", "docs/a.md"]),
        ("image/{png,svg+xml}", ["image/png", "image/svg+xml"]),
    ],
)  # fmt: skip
def test_braces_are_alternatives(pattern: str, texts: list[str]) -> None:
    """Braces without a comma or a partner are characters."""
    assert [text for text in texts if not Glob(pattern, braces=True).matches(text)] == []
    for wrong in ("", "docs/a/b.md", "image/gif", "ab", "x"):
        assert not Glob(pattern, braces=True).matches(wrong)


def test_braces_agree_with_unfolded_patterns() -> None:
    """A pattern with groups matches what one of its unfolded patterns matches."""
    chance = random.Random(8)
    for _ in range(500):
        groups = [chance.choices(["a", "b", "/", "*", "**", "ab", ""], k=chance.randint(1, 3)) for _ in range(3)]
        written = "".join(each[0] if len(each) == 1 else "{" + ",".join(each) + "}" for each in groups)
        expanded = ["".join(parts) for parts in itertools.product(*groups)]
        for _ in range(8):
            text = "".join(chance.choices("ab/", k=chance.randrange(6)))
            expected = any(match_by_brute_force(each, text) for each in expanded)
            assert Glob(written, braces=True).matches(text) == expected, (written, text)


def test_incremental_matching_agrees_with_matching() -> None:
    """Character by character; a viable prefix is one that some matching text continues."""
    chance = random.Random(9)
    for _ in range(500):
        pattern = "".join(chance.choices(["a", "b", "/", "*", "**", "{a,/b}", "{*,}"], k=chance.randrange(5)))
        built = Glob(pattern, braces=True)
        texts = ["".join(letters) for length in range(5) for letters in itertools.product("ab/", repeat=length)]
        matched = [text for text in texts if built.matches(text)]
        for text in chance.choices(texts, k=8):
            states = built.start
            for character in text:
                states = built.advance(states, character)
            assert built.accepts(states) == built.matches(text), (pattern, text)
            assert built.matches_prefix(text) == bool(states)
            assert built.matches_prefix(text) or not any(longer.startswith(text) for longer in matched)
        for text in matched:
            assert all(built.matches_prefix(text[:length]) for length in range(len(text) + 1))
    assert Glob("{a,b}*/c", braces=True).literals == frozenset("ab/c")
    assert not Glob("ab").matches_prefix("b")


def test_unfolding_braces_is_bounded() -> None:
    """Twenty pairs would be a million patterns: an error, at once."""
    assert Glob("{a,b}" * 9, braces=True).matches("a" * 9)
    with pytest.raises(ValueError, match=f"more than {MAX_ALTERNATIVES} patterns"):
        Glob("{a,b}" * 20, braces=True)
    assert Glob("{" * 2_000 + "}" * 2_000, braces=True).matches("{" * 2_000 + "}" * 2_000)


def test_patterns_are_compiled_once() -> None:
    """The same pattern returns the same Glob, whose repr shows the pattern."""
    assert glob("a*") is glob("a*")
    assert glob("a*") is not glob("a*", braces=True)
    assert repr(glob("a*")) == "Glob('a*')"
    assert repr(glob("a*", braces=True)) == "Glob('a*', braces=True)"


@pytest.mark.parametrize(
    "pattern", ["x" * 4_097, "{a,b}" * 6 + "{" + ",".join("c" * 40 for _ in range(15)) + "}" + "d" * 3000]
)
def test_a_pattern_has_a_size_limit(pattern: str) -> None:
    """In characters, before and after the braces are expanded."""
    with pytest.raises(ValueError, match=r"more than 65536|longer than 4096"):
        Glob(pattern, braces=True)
    assert Glob("x" * 4_096).matches("x" * 4_096)
