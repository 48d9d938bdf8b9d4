"""A header of which there is one may not occur twice: a proxy could have read the other one."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from tests.gateway.keyed import Start
from tests.gateway.upstream import PATHS, gateway_before, question, whole_reply

GOOGLE = "/v1beta/models/house:generateContent"
GOOGLE_QUESTION = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
REQUESTS = [
    *(("POST", path, question(wire, "house")) for wire, path in PATHS.items()),
    ("POST", "/v1/embeddings", {"model": "house", "input": "Bern"}),
    ("POST", GOOGLE, GOOGLE_QUESTION),
    ("POST", "/api/chat", question("chat", "house")),
    ("GET", "/v1/models", None),
    ("GET", "/v1beta/models", None),
    ("GET", "/gateway/spend", None),
    ("GET", "/v1/responses/resp_1", None),
    ("GET", "/gateway/", None),
]


def send(url: str, method: str, path: str, body: object, headers: list[tuple[str, str]]) -> tuple[int, str]:
    """Return the status and the text of the reply to a request with exactly these headers."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    data = b"" if body is None else json.dumps(body).encode()
    connection.putrequest(method, path, skip_host=any(name == "host" for name, _ in headers))
    for name, value in [("content-length", str(len(data))), *headers]:
        connection.putheader(name, value)
    connection.endheaders(data)
    reply = connection.getresponse()
    found = reply.status, reply.read().decode()
    connection.close()
    return found


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
def test_two_keys_in_one_header_are_refused(start: Start, method: str, path: str, body: object) -> None:
    setup = start(lambda _: whole_reply("chat"))
    json_type = ("content-type", "application/json")
    for name, prefix in (("Authorization", "Bearer "), ("X-Api-Key", ""), ("X-Goog-Api-Key", ""), ("api-key", "")):
        for first, second in ((0, 1), (1, 0), (0, 0)):
            keys = [(name, prefix + setup.secrets[first]), (name.lower(), prefix + setup.secrets[second])]
            status, text = send(setup.url, method, path, body, [json_type, *keys])
            assert (status, name.lower() in text) == (400, True), (name, text)
    assert setup.server.requests == []


def test_two_keys_in_an_address_are_refused(start: Start) -> None:
    setup = start(lambda _: whole_reply("chat"))
    one, two = setup.secrets
    json_type = ("content-type", "application/json")
    for query, headers in (
        (f"?key={one}&key={two}", []),
        (f"?key={two}", [("x-goog-api-key", one)]),
    ):
        status, text = send(setup.url, "POST", GOOGLE + query, GOOGLE_QUESTION, [json_type, *headers])
        assert status == 400, text
    status, text = send(setup.url, "POST", f"{GOOGLE}?key={one}", GOOGLE_QUESTION, [json_type, ("x-goog-api-key", one)])
    assert status == 200, text


@pytest.mark.parametrize("name", ["authorization", "host", "origin", "sec-fetch-site", "content-type"])
def test_without_keys_too(name: str) -> None:
    """The first of two hosts may be foreign, and the last one this computer's."""
    values = {"authorization": "Bearer a", "host": "localhost", "content-type": "application/json"}
    again = (name, values.get(name, "none"))
    with gateway_before(lambda _: whole_reply("chat"), models={"house": "openai-chat:m"}) as (url, server):
        headers = [
            each for each in [("content-type", "application/json"), again, again] if each[0] != name or each is again
        ]
        status, text = send(url, "POST", "/v1/chat/completions", question("chat", "house"), headers)
    assert (status, name in text) == (400, True), text
    assert server.requests == []
