"""What references stand for counts as the body of the request: a small one cannot become gigabytes."""

from typing import Any

from tests.gateway.keyed import Keyed, Start
from tests.gateway.upstream import whole_reply

CAPS: dict[str, Any] = {"body_cap": 1_000_000, "max_values": 20_000}


def stored(setup: Keyed, *items: Any, previous: str | None = None) -> str:
    """Return the id of a stored response with that input."""
    request = {"model": "house", "input": list(items), "previous_response_id": previous}
    reply = setup.http().post("/v1/responses", json=request)
    assert reply.status_code == 200, reply.text
    return str(reply.json()["id"])


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}], **more}


def test_an_item_is_referenced_once(start: Start) -> None:
    """Some bytes would become gigabytes otherwise."""
    setup = start(answers())
    stored(setup, said("x" * 400_000, id="msg_large"))
    reference = {"type": "item_reference", "id": "msg_large"}
    for references in (2, 4_000):
        request = {"model": "house", "input": [reference] * references, "store": references == 2}
        reply = setup.http().post("/v1/responses", json=request)
        assert (reply.status_code, "Duplicate item found with id 'msg_large'" in reply.text) == (400, True)
    assert setup.http().post("/v1/responses", json={"model": "house", "input": [reference]}).status_code == 200


def test_references_to_large_items_are_refused_above_the_cap_of_a_body(start: Start) -> None:
    setup = start(answers(), **CAPS)
    parts = [{"type": "input_text", "text": ""} for _ in range(4_000)]
    for name, text in (("text", "x" * 400_000), ("more", "x" * 400_000), ("third", "x" * 400_000)):
        stored(setup, said(text, id=f"msg_{name}"))
    for name in ("values", "others"):
        stored(setup, {"type": "message", "role": "user", "content": parts, "id": f"msg_{name}"})

    def ask(*names: str) -> tuple[int, bool]:
        references = [{"type": "item_reference", "id": f"msg_{name}"} for name in names]
        reply = setup.http().post("/v1/responses", json={"model": "house", "input": references})
        return reply.status_code, "references" in reply.text

    asked = len(setup.server.requests)
    assert ask("text", "more", "third") == ask("values", "others") == (413, True)
    assert len(setup.server.requests) == asked
    assert ask("text", "more")[0] == ask("values")[0] == 200


def test_so_is_a_chain_of_responses(start: Start) -> None:
    """It can still be read and deleted; the list of its input is as large, and is refused too."""
    setup = start(answers(), **CAPS)
    last = None
    for _ in range(2):
        last = stored(setup, said("x" * 400_000), previous=last)
    reply = setup.http().post("/v1/responses", json={"model": "house", "input": "Hi", "previous_response_id": last})
    assert reply.status_code == 200
    last = reply.json()["id"]
    large = {"model": "house", "input": "x" * 400_000, "previous_response_id": last}
    reply = setup.http().post("/v1/responses", json=large)
    assert (reply.status_code, "references" in reply.text) == (413, True)
    many = {"model": "house", "input": [said("") for _ in range(2_000)]}
    wide = setup.http().post("/v1/responses", json=many).json()["id"]
    reply = setup.http().post("/v1/responses", json={**many, "previous_response_id": wide})
    assert reply.status_code == 413
    assert setup.http().get(f"/v1/responses/{last}").status_code == 200
    assert setup.http().get(f"/v1/responses/{last}/input_items").status_code == 200


def test_a_request_with_thousands_of_different_references_is_answered_and_stops_no_other(start: Start) -> None:
    """They are looked up in groups: a database takes only so many values at once."""
    setup = start(answers())
    ids = [f"msg_{number}" for number in range(4_000)]
    stored(setup, *(said("Hi", id=each) for each in ids))
    references = [{"type": "item_reference", "id": each} for each in ids]
    reply = setup.http().post("/v1/responses", json={"model": "house", "input": references})
    assert reply.status_code == 200, reply.text[:500]
    assert setup.sent().count('"Hi"') == 4_000
    many = [{"type": "item_reference", "id": f"msg_{number}"} for number in range(60_000)]
    reply = setup.http().post("/v1/responses", json={"model": "house", "input": many})
    assert (reply.status_code, "10000" in reply.text) == (413, True)


def test_so_is_one_with_thousands_of_files_of_nobody(start: Start) -> None:
    setup = start(answers("messages"), "messages")
    blocks = [{"type": "image", "source": {"type": "file", "file_id": f"file_{number}"}} for number in range(30_000)]
    body = {"model": "house", "max_tokens": 9, "messages": [{"role": "user", "content": blocks}]}
    reply = setup.http().post("/v1/messages", json=body)
    assert (reply.status_code, "10000" in reply.text) == (400, True)
    body["messages"] = [{"role": "user", "content": "x"}]
    assert setup.http(1).post("/v1/messages", json=body).status_code == 200


def answers(wire: str = "chat") -> Any:
    return whole_reply(wire)
