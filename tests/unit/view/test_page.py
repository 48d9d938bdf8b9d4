"""The page of a conversation: what is in it, where, and that it agrees with requests and replies."""

import json
import sys
from decimal import Decimal

import pytest

from dragoman import Message, get_adapter
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import MissingExtraError
from dragoman.adapter.losses import Severity
from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock, ToolResultBlock
from dragoman.canonical.message import (
    InputTransformation,
    MessageMetadata,
    MessageStatus,
    Role,
    StopReason,
    read_message,
)
from dragoman.canonical.message_fields import RoutingDecisionRecord, RoutingMode
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.session.cost import total_cost
from dragoman.view import page, turns
from dragoman.view.page import environment
from tests.unit.formats.documents import everything
from tests.unit.view.document import Element
from tests.unit.view.handwritten_conversation import GEMINI, OPUS, SOL, conversation
from tests.unit.view.page_checks import check_page


@pytest.fixture(scope="module")
def document() -> Element:
    return check_page(page(conversation(), title="The gauge"))


def turn(document: Element, number: int) -> Element:
    return document.one(f"#m{number}")


def test_each_message_is_under_its_author(document: Element) -> None:
    """In order; tools' answers are with their calls."""
    speakers = [(each.attributes["id"], each.all("h2")[0].words) for each in document.all("article")]
    assert speakers == [
        ("m1", "System"), ("m2", "User"), ("m3", "claude-opus-5-5"), ("m6", "claude-opus-5-5"),
        ("m8", "claude-opus-5-5"), ("m9", "User"), ("m10", "gpt-6.1-sol"), ("m11", "User"),
        ("m12", "gemini-2.5-pro"), ("m15", "gemini-2.5-pro"),
    ]  # fmt: skip
    hues = [next((name for name in each.classes if name.startswith("hue-")), "") for each in document.all("article")]
    assert hues == ["", "", "hue-0", "hue-0", "hue-0", "", "hue-1", "", "hue-2", "hue-2"]


def test_every_word_is_there(document: Element) -> None:
    """All texts, thinking, arguments and answers of the conversation."""
    text = document.one("main").words
    for message in conversation():
        for block in message.content:
            for text_or_value in (
                getattr(block, "text", ""),
                *filter(lambda value: isinstance(value, str), getattr(block, "input", {}).values()),
            ):
                for line in text_or_value.splitlines():
                    assert "```" in line or " ".join(line.split()) in text
        for result in message.tool_results:
            assert " ".join(result.content[0].text.split()) in text  # type: ignore[union-attr]


def test_thinking_is_folded(document: Element) -> None:
    """Thinking that a provider hides is marked as hidden."""
    first, hidden, short = document.all("details.thinking")
    assert [each.one("summary").words for each in (first, hidden, short)] == [
        "Thinking 40 words, signed", "Thinking encrypted", "Thinking 13 words",
    ]  # fmt: skip
    assert not any("open" in each.attributes for each in (first, hidden, short))


def test_calls_are_shown_with_their_answers(document: Element) -> None:
    """Each with its own, in any order; a failure is marked."""
    first, second = turn(document, 3).all(".call")
    given = [(each.one("dt").words, each.one("dd").words) for each in first.one(".arguments").all("div")]
    assert given == [("gauge", "lock"), ("since", "2026-11-20T20:00Z")]
    assert first.one(".answer").one(".text").words.startswith("22:20 2.36")
    assert second.one(".answer").classes == ["answer", "failed"]
    assert second.one(".answer").one(".text").words == "the gauge 'pier' is known as 'pier-2' since May"


def test_an_answer_without_its_call_is_shown_alone() -> None:
    """So is a second answer to the same call; and a call without one is marked."""
    history = [message for message in conversation() if message.id != f"{4:026d}"]
    again = Message.tool(f"tu_{2:026d}", "once more")
    document = check_page(page([Message.tool("tu_lost", "from nowhere"), *history, again]))
    alone = [each for each in document.all("article") if "tool" in each.classes]
    assert [each.one(".text").words for each in alone] == ["from nowhere", "once more"]
    assert [each.words for each in document.all(".pending")] == ["not answered"]


def test_an_image_is_shown_from_its_own_bytes(document: Element) -> None:
    """By its real type, whatever it is called; nothing is fetched, and no document runs."""
    assert turn(document, 2).one("img").attributes["src"].startswith("data:image/png;base64,iVBORw0KGgo")
    svg = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4="
    gif = "R0lGODlhAQABAAAAACwAAAAAAQABAAA="
    sources = [
        ("base64", gif, "image/svg+xml"), ("base64", svg, "image/svg+xml"), ("base64", svg, "image/png"),
        ("base64", gif + '"><script>', "image/gif"), ("url", "https://example.org/a.png", "image/png"),
        ("file_ref", "a.png", "image/png"), ("file_id", "file_1", None),
    ]  # fmt: skip
    blocks = [
        ImageBlock(source=MediaSource(kind=kind, data=data), media_type=declared) for kind, data, declared in sources
    ]
    shown = check_page(page([Message.user(blocks)]))
    assert [image.attributes["src"] for image in shown.all("img")] == [f"data:image/gif;base64,{gif}"]
    assert "declared as image/svg+xml" in shown.all("figcaption")[0].words
    assert "at https://example.org/a.png" in shown.one("main").words


@pytest.mark.parametrize(("number", "model"), [(10, SOL), (12, GEMINI)])
def test_a_swap_names_what_the_next_model_did_not_receive(document: Element, number: int, model: str) -> None:
    """The losses are those of the history at that time, projected onto the model that answered next."""
    before = conversation()[: number - 1]
    losses = get_adapter(model).to_wire(before, (), AdapterOptions()).losses
    shown = document.one(f"#s{number}")
    rows = [
        (row.classes[0], row.one("code").words, row.one("span").words.partition(" #")[0]) for row in shown.all("li")
    ]
    expected = {(str(loss.severity), str(loss.kind), loss.reason) for loss in losses}
    assert len(rows) == len(expected)
    assert set(rows) == expected
    of = {f"#m{each}" for each in (3, 6, 8, 10)}
    assert {link.attributes["href"] for link in shown.all("a")} <= of
    gone = sum(loss.severity is Severity.WARNING for loss in losses)
    assert gone
    assert shown.one("summary").words.startswith(f"{gone} lost")
    assert shown.one("strong").words == model


def test_a_swap_without_losses_is_marked() -> None:
    """One that cannot be made shows why."""
    metadata = [MessageMetadata(model=model, provider=model.partition(":")[0]) for model in (OPUS, SOL, "gone:model")]
    history = [Message.user("Hi.")]
    for each in metadata:
        history += [Message.assistant("Hello.", metadata=each), Message.user("And you?")]
    first, second = check_page(page(history)).all(".swap")
    assert first.one(".verdict").words == "nothing lost"
    assert "no provider 'gone'" in second.one(".verdict").words


def test_a_model_that_has_not_answered_yet_is_a_pending_swap() -> None:
    """If the session's model is not the last one that answered."""
    next_swap = check_page(page(conversation(), next_model=OPUS)).one("#snext")
    assert next_swap.one("strong").words == OPUS
    assert next_swap.one("summary").words.startswith("would be")
    assert check_page(page(conversation(), next_model=GEMINI)).all("#snext") == []


def test_the_chart_and_its_table_have_every_reply(document: Element) -> None:
    """Each model has its colour."""
    svg = document.one("svg")
    assert svg.attributes["role"] == "img"
    named = [svg.one(f"#{each}").words for each in svg.attributes["aria-labelledby"].split()]
    assert named[0] == "Tokens and cost of each reply"
    assert "6 replies" in named[1]
    replies = [message for message in conversation() if message.usage]
    assert [column.classes for column in svg.all("a")] == [["hue-0"]] * 3 + [["hue-1"]] + [["hue-2"]] * 2
    rows = document.one(".chart").one("table").one("tbody").all("tr")
    for row, message in zip(rows, replies, strict=True):
        usage = message.usage
        assert usage is not None
        shown = [int(cell.words.replace(",", "")) for cell in row.all("td")[1:5]]
        assert shown == [
            usage.input_tokens, usage.cached_input_tokens, usage.cache_creation_input_tokens, usage.output_tokens,
        ]  # fmt: skip
    heights = [sum(float(bar.attributes["height"]) for bar in each.all("rect.output")) for each in svg.all("a")]
    counts = [message.usage.output_tokens for message in replies if message.usage]
    assert max(counts) / min(counts) == pytest.approx(max(heights) / min(heights), rel=0.1)


def test_the_totals_are_those_of_a_session(document: Element) -> None:
    """The cost is that of `Session.cost`."""
    figures = {each.one("dt").words: each.one("dd").inner[0] for each in document.one(".totals").all("div")}
    cost = total_cost(conversation())
    assert figures["cost"] == f"${cost.usd:.6f}"
    assert figures["replies"] == "6"
    assert figures["tool calls"] == "5"
    assert figures["tokens out"] == "1,364"


def test_unknown_is_never_shown_as_zero() -> None:
    """Neither tokens nor cost; without any there is no chart."""
    reply = Message.assistant("Hello.", metadata=MessageMetadata(model="ollama:mine", provider="ollama"))
    document = check_page(page([Message.user("Hi."), reply]))
    assert document.all("svg") == []
    figures = {each.one("dt").words: each.one("dd").words for each in document.one(".totals").all("div")}
    assert figures["cost"] == "unknownno tokens reported"
    assert figures["tokens"] == "unknownnone reported of 1 reply"
    assert "tokens in" not in figures
    assert document.one("ul.models").words == "ollama:mine 1 reply"
    assert document.one("footer").one(".figures").words == "the provider reported no tokens"


def test_a_model_without_a_price_has_tokens_and_no_cost() -> None:
    """The remark says which of the two is missing; one reply that reported its tokens is enough."""
    usage = Usage(input_tokens=10, output_tokens=5, cost_usd=None, cost_status=CostStatus.UNPRICED)
    told = Message.assistant("Hello.", metadata=MessageMetadata(model="ollama:mine", provider="ollama", usage=usage))
    untold = Message.assistant("Hello.", metadata=MessageMetadata(model="ollama:mine", provider="ollama"))
    for replies in ([told], [told, untold]):
        totals = check_page(page([Message.user("Hi."), *replies])).one(".totals").all("div")
        figures = {each.one("dt").words: each.one("dd").words for each in totals}
        assert figures["cost"] == "unknownno price is known"
        assert figures["tokens in"] == "10"


def test_the_raw_request_is_that_of_the_adapter(document: Element) -> None:
    """Complete, if lines shared with an earlier one are put back; encoded media are shortened."""
    texts: dict[str, str] = {}
    for number, model in ((3, OPUS), (6, OPUS), (8, OPUS), (10, SOL), (12, GEMINI), (15, GEMINI)):
        shown = document.one(f"#r{number}")
        lines = texts.get(shown.attributes.get("data-same", ""), "").split("\n")[
            : int(shown.attributes.get("data-lines", 0))
        ]
        text = texts[f"r{number}"] = "\n".join([*lines, shown.text.removeprefix("\n")])
        body = json.loads(get_adapter(model).to_wire(conversation()[: number - 1], (), AdapterOptions()).body)
        assert json.loads(text) == _shorten(body)
    assert [document.one(f"#r{number}").attributes.get("data-same") for number in (3, 6, 8, 12, 15)] == [
        None, "r3", "r6", None, "r12",
    ]  # fmt: skip


def _shorten(value: object) -> object:
    if isinstance(value, dict):
        return {name: _shorten(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shorten(inner) for inner in value]
    if isinstance(value, str) and len(value) > 400 and " " not in value:
        return f"{value[:60]}… ({len(value):,} characters)"
    return value


def test_the_raw_wire_can_be_left_out() -> None:
    """The swaps are still there."""
    document = check_page(page(conversation(), raw=False))
    assert document.all(".raw") == []
    assert len(document.all(".swap")) == 2


def test_provider_raw_of_a_reply_is_shown(document: Element) -> None:
    kept = turn(document, 10).one(".raw").all("pre")[1]
    assert json.loads(kept.text)["provider_raw"] == {"by": "openai", "id": "reply_2"}


def test_every_kind_of_block_is_shown() -> None:
    text = check_page(page(everything())).one("main").words
    for word in ("server_tool_use", "Thinking", "encrypted", "read_file", "README.md", "https://example.org"):
        assert word in text


def test_a_newer_block_is_shown_as_it_came() -> None:
    """A history of a newer version can be viewed."""
    raw = Message.user("Hi.").model_dump(mode="json") | {"content": [{"type": "hologram", "beam": "blue"}]}
    text = check_page(page([read_message(raw)])).one("main").words
    assert "hologram" in text
    assert '"beam": "blue"' in text


def test_summaries_remarks_and_empty_messages_are_shown() -> None:
    """Nothing that a model received is hidden."""
    first = Message.user("Long ago.")
    summary = Message(
        role=Role.USER, content=(TextBlock(text="In short."),), metadata=MessageMetadata(summary_of=(first.id,))
    )
    document = check_page(page([first, summary, Message.user([])]))
    assert [each.words for each in document.all(".remark")] == ["summary of 1 message"]
    assert [each.words for each in document.all(".empty")] == ["no content"]
    assert check_page(page([])).all(".nothing")[0].words == "Nothing has been said yet."


def test_unusual_facts_about_a_reply_are_remarked() -> None:
    """Who chose its model, how it ended, and what the provider changed in the request; usual facts are not shown."""
    odd = MessageMetadata(
        model=OPUS,
        provider="anthropic",
        status=MessageStatus.CANCELLED,
        stop_reason=StopReason.MAX_TOKENS,
        routing=RoutingDecisionRecord(mode=RoutingMode.RULE, chosen_model=OPUS, reason="long prompts"),
        input_transformations=(InputTransformation(kind="thinking_dropped", where="messages[1]"),),
    )
    usual = MessageMetadata(model=OPUS, provider="anthropic", stop_reason=StopReason.END_TURN)
    history = [Message.user("Hi."), *(Message.assistant("Hello.", metadata=each) for each in (odd, usual))]
    document = check_page(page(history))
    assert [each.words for each in document.all(".remark")] == [
        "cancelled", "cut at the token limit", "routed: long prompts",
        "the provider changed the request: thinking_dropped · messages[1]",
    ]  # fmt: skip


def test_broken_attempts_count() -> None:
    """They were billed, though nothing of them is in the history."""
    usage = Usage(input_tokens=10, output_tokens=2, cost_usd=Decimal("0.5"), cost_status=CostStatus.PARTIAL)
    broken = Message.assistant([], metadata=MessageMetadata(model=OPUS, provider="anthropic", usage=usage))
    document = check_page(page([Message.user("Hi.")], attempts=[broken]))
    figures = {each.one("dt").words: each.one("dd").words for each in document.one(".totals").all("div")}
    assert figures["cost"] == "$0.50at least"
    assert figures["replies"] == "01 broken attempt"


def test_raw_requests_end_before_the_page_grows_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is complete otherwise."""
    monkeypatch.setattr(turns, "MAX_BYTES", 4_000)
    document = check_page(page(conversation()))
    notes = [each.words for each in document.all(".shared") if "left out" in each.words]
    assert notes
    assert set(notes) == {"It is left out: the page would become too large."}
    assert document.all("#r3")


def test_the_same_conversation_gives_the_same_page() -> None:
    """Byte for byte, so pages can be compared."""
    assert page(conversation()) == page(conversation())


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only pages need the template library."""
    environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match="dragoman\\[cli\\]"):
        page([Message.user("Hi.")])


def test_nested_answers_are_shown() -> None:
    """An answer may contain an answer."""
    inner = ToolResultBlock(tool_use_id="tu_b", content=(TextBlock(text="deep"),))
    document = check_page(page([Message.tool("tu_a", [inner])]))
    assert document.all(".answer")[1].one(".text").words == "deep"
