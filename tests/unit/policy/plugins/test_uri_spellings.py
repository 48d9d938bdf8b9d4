"""Addresses are judged by what they mean: a table of spellings, and the law that spellings of one address are alike."""

import json
from pathlib import Path
from posixpath import normpath
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ContentBlock, DocumentBlock, ImageBlock, MediaSource
from dragoman.canonical.message import Message
from dragoman.canonical.message_view.uris import AmbiguousUriError, read_uri
from dragoman.policy import Extensions, Hook, ObjectSecurityProfile, Pipeline, Plugin, PolicyDeniedError, iter_views
from dragoman.policy.data_policy import data_policies
from dragoman.policy.extensions import DataPolicy, SecurityExtension
from dragoman.policy.plugins import AllowUris, DenyUris
from tests.tables import each_row
from tests.unit.canonical.message_view.test_view import block

TABLE = json.loads(Path(__file__).with_name("uri_spellings.json").read_text(encoding="utf-8"))
MEANINGS = [(each["text"], spelling) for each in TABLE["meaning"] for spelling in each["spellings"]]
AMBIGUOUS = [spelling for each in TABLE["ambiguous"] for spelling in each["spellings"]]
RULES = [
    (each["pattern"], kind, uri)
    for each in TABLE["rule"]
    for kind in ("matches", "misses", "longer")
    for uri in each.get(kind, ())
]


def passes(plugin: Plugin, uri: str, part: ContentBlock | None = None) -> bool:
    message = Message.user([part or block("resource", uri=uri)])
    try:
        Pipeline([plugin]).run(Hook.LLM_INPUT, message)
    except PolicyDeniedError as error:
        denied = error
    else:
        return True
    assert denied.code == "uri_denied"
    return False


def test_the_table_has_at_least_300_spellings() -> None:
    spellings = {spelling for _, spelling in MEANINGS} | {*AMBIGUOUS} | {uri for _, _, uri in RULES}
    assert len(spellings) >= 300


@each_row(("text", "spelling"), MEANINGS)
def test_each_spelling_is_judged_by_its_meaning(text: str, spelling: str) -> None:
    """By both lists, and in a rule as in what is judged."""
    meaning = read_uri(spelling)
    assert meaning is not None
    assert meaning.text == text
    assert read_uri(text) == meaning
    for pattern in {text, spelling} if "*" not in spelling and "@" not in spelling else {text}:
        assert passes(AllowUris(pattern), spelling), pattern
        assert passes(AllowUris(pattern), text), pattern
        assert not passes(DenyUris(pattern), spelling), pattern
        assert not passes(DenyUris(pattern), text), pattern
    assert passes(DenyUris("other://**"), spelling)
    assert not passes(AllowUris("other://**"), spelling)


@each_row("spelling", AMBIGUOUS)
def test_what_has_no_single_meaning_is_denied(spelling: str) -> None:
    assert read_uri(spelling) is None
    assert not passes(AllowUris("**"), spelling)
    assert not passes(DenyUris("other://**"), spelling)


@each_row(("pattern", "kind", "uri"), RULES)
def test_rules_compare_meanings(pattern: str, kind: str, uri: str) -> None:
    assert passes(AllowUris(pattern), uri) is (kind == "matches")
    assert passes(DenyUris(pattern), uri) is (kind == "misses")


@pytest.mark.parametrize("kind", ["image", "audio", "video", "document"])
def test_media_by_address_are_judged(kind: str) -> None:
    """Their view has the address as its URI; media that are sent themselves have none."""
    by_url = block(kind, source=MediaSource(kind="url", data="https://EVIL.example:443/a"))
    assert next(iter_views(Message.user([by_url]))).uri == "https://EVIL.example:443/a"
    assert not passes(DenyUris("https://evil.example/**"), "", by_url)
    assert not passes(AllowUris("https://good.example/**"), "", by_url)
    assert passes(AllowUris("https://evil.example/**"), "", by_url)
    with pytest.raises(PolicyDeniedError):
        Pipeline([DenyUris("https://evil.example/**")]).run(Hook.TOOL_POST_INVOKE, Message.tool("tu_1", [by_url]))
    embedded = ImageBlock(source=MediaSource(kind="base64", data="AAAA"), media_type="image/png")
    assert passes(AllowUris(), "", embedded)
    assert passes(AllowUris(), "", DocumentBlock(source=MediaSource(kind="text", data="file:///etc/passwd")))


def test_a_rule_without_a_meaning_is_refused() -> None:
    """It would never match."""
    for pattern in (
        "file:///srv\\docs/**", "file:///srv/%2e%2e%2f/**", "file:////srv/**", "https://a@b.example/**",
        "https://a.example/*/../b", "https://a.example/b%2Fc", "https://b\u00fccher.*/", "https://a..b/*",
    ):  # fmt: skip
        with pytest.raises(ConfigurationError):
            AllowUris(pattern)
        with pytest.raises(ConfigurationError):
            DenyUris(pattern)


def test_profiles_and_data_policies_are_found_by_meaning() -> None:
    """For an address without a meaning, a profile denies, and every data policy of an address applies."""
    security = SecurityExtension(
        objects={"file:///etc/passwd": ObjectSecurityProfile(permissions=["root"])},
        data={"file:///etc/passwd": DataPolicy(apply_labels=["SECRET"])},
    )
    extensions = Extensions(security=security)
    for uri in ("file:///etc/passwd", "FILE:/etc/./passwd", "file:///x/..%2fetc/passwd"):
        with pytest.raises(PolicyDeniedError):
            Pipeline().run(Hook.RESOURCE_PRE_FETCH, Message.user([block("resource_ref", uri=uri)]), extensions)
        policies = data_policies(Message.user([block("resource", uri=uri, name=None)]), extensions)
        assert [each.apply_labels for each in policies] == [["SECRET"]]
    other = Message.user([block("resource_ref", uri="file:///etc/hosts", name=None)])
    assert Pipeline().run(Hook.RESOURCE_PRE_FETCH, other, extensions).message == other


def test_a_view_refuses_to_decide_without_a_meaning() -> None:
    (view,) = iter_views(Message.user([block("resource", uri="file:///srv/..%2fetc")]))
    with pytest.raises(AmbiguousUriError):
        view.matches_uri_pattern("file:///srv/**")
    (view,) = iter_views(Message.user([block("resource", uri="FILE:/srv/./a")]))
    assert view.matches_uri_pattern("file:///srv/*")


NAMES = st.text("ab.-", min_size=1, max_size=4).filter(lambda name: name.strip(".") != "")
HOSTS = st.sampled_from(["evil.example", "good.example", "a-b.example", "10.0.0.1"])


@st.composite
def respelled(draw: st.DrawFn) -> tuple[str, str]:
    """Draw an address, and another spelling of it."""
    web = draw(st.booleans())
    scheme, host = ("https", draw(HOSTS)) if web else ("file", "")
    segments = draw(st.lists(NAMES, min_size=1, max_size=4))
    plain = f"{scheme}://{host}/{'/'.join(segments)}"
    other: list[str] = []
    for segment in segments:
        other += draw(st.lists(st.sampled_from([".", "%2e", "b/..", "a/%2E."]), max_size=2))
        escaped = draw(st.sets(st.integers(0, len(segment) - 1)))
        other.append("".join(f"%{ord(each):02x}" if place in escaped else each for place, each in enumerate(segment)))
    cased = "".join(each.upper() if draw(st.booleans()) else each for each in scheme)
    if web:
        spelled = "".join(each.upper() if draw(st.booleans()) else each for each in host)
        user = draw(st.sampled_from(["", "u@", "u:p@", "good.example@", "@"]))
        authority = user + spelled + draw(st.sampled_from(["", ".", ":443", ":", ".:0443"]))
    else:
        authority = draw(st.sampled_from(["", "localhost", "LOCALHOST"]))
    return plain, f"{cased}://{authority}/{'/'.join(other)}{draw(st.sampled_from(['', '#', '#x']))}"


@given(respelled(), st.lists(st.sampled_from(["*", "**", "a", "b", "/"]), max_size=6).map("".join))
def test_spellings_that_a_client_fetches_alike_are_judged_alike(pair: tuple[str, str], path: str) -> None:
    plain, other = pair
    start = plain.rpartition("/")[0]
    for pattern in (f"{start}/{path}", f"**/{path}", "https://*.example/**", plain):
        try:
            lists = AllowUris(pattern), DenyUris(pattern)
        except ConfigurationError:
            continue
        for plugin in lists:
            assert passes(plugin, plain) is passes(plugin, other)


@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                "b",
                ".",
                "..",
                "/",
                "//",
                "@",
                ":",
                "%2e",
                "%2f",
                "%61",
                "%",
                "?",
                "#",
                ";",
                "\\",
                ":443",
                "x.example",
                " ",
                "*",
            ]
        ),
        max_size=8,
    ).map("".join)
)
def test_a_client_fetches_what_the_meaning_says(tail: str) -> None:
    """Two clients are asked: where both read an address, they go to the host and the path of its meaning."""
    uri = f"https://good.example{tail}"
    meaning = read_uri(uri)
    if meaning is None:
        return
    for client in (fetched_by_httpx, fetched_by_urllib):
        assert client(uri) == client(meaning.text), meaning


def fetched_by_httpx(uri: str) -> Any:
    url = httpx.URL(uri)
    return plain_host(url.host), url.port, normal_path(url.path), url.query


def fetched_by_urllib(uri: str) -> Any:
    parts = urlsplit(uri)
    return plain_host(parts.hostname or ""), parts.port or 443, normal_path(parts.path), unquote(parts.query)


def plain_host(host: str) -> str:
    """Browsers decode a host; these clients look the escaped name up, which no server has."""
    return unquote(host).lower().rstrip(".")


def normal_path(path: str) -> str:
    return normpath("/" + unquote(path).lstrip("/"))
