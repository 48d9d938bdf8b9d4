"""Tools: ids, pairs, names, schemas and kinds."""

import json
import re
from typing import Any

from tests.gateway.cases.talk import Answered, Talk, again, tool
from tests.gateway.cases.test_streams import OTHERS, WEATHER
from tests.gateway.scripted import answer_with, reply

_IDS = re.compile(r"[A-Za-z0-9_-]{1,40}")
_LONG = "mcp__" + "server_" * 12 + "read"
_MISTRAL_IDS = re.compile(r"[A-Za-z0-9]{9}")


def pair(wire: str, call_id: str, name: str = "weather") -> dict[str, Any]:
    """Return the fields of a request whose history has one call with that id, and its result."""
    question: dict[str, Any] = {"role": "user", "content": "How is the weather in Bern?"}
    if wire == "anthropic":
        call: Any = {"type": "tool_use", "id": call_id, "name": name, "input": {"city": "Bern"}}
        result: Any = {"type": "tool_result", "tool_use_id": call_id, "content": "sunny"}
        messages = [question, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        return {"messages": messages, "tools": [tool(wire, name)]}
    if wire == "openai":
        call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": '{"city": "Bern"}'}
        result = {"type": "function_call_output", "call_id": call_id, "output": "sunny"}
        return {"input": [question, call, result], "tools": [tool(wire, name)]}
    function = {"name": name, "arguments": '{"city": "Bern"}'}
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
    result = {"role": "tool", "tool_call_id": call_id, "content": "sunny"}
    return {"messages": [question, call, result], "tools": [tool(wire, name)]}


def calls_of(body: Any) -> list[tuple[str, str]]:
    """The ids and names of the calls in a request of Chat Completions."""
    return [
        (call["id"], call["function"]["name"])
        for message in body["messages"]
        for call in message.get("tool_calls") or ()
    ]


def results_of(body: Any) -> list[str]:
    return [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]


def test_ids_of_every_provider_are_short_and_plain_for_every_client(talk: Talk) -> None:
    """And come back to the result's call: on each wire before each other wire."""
    talk.upstream.script = answer_with(reply(calls=(*WEATHER, ("weather", {"city": "Oslo"}))))
    for wire, model in OTHERS:
        seen = talk.ask(wire, model, tools=[tool(wire)]).seen
        ids = [call_id for call_id, _, _ in seen.calls]
        assert len(set(ids)) == 2
        assert all(_IDS.fullmatch(call_id) for call_id in ids), (wire, ids)
        answered = talk.ask(wire, model, tools=[tool(wire)], **again(wire, seen))
        assert answered.status == 200, answered.raw
        assert "orphan" not in answered.losses
        assert "interrupted" not in answered.losses


def test_a_foreign_id_that_is_too_long_becomes_a_legal_one(talk: Talk) -> None:
    """The same in the call and in its result; a longer history does not change it."""
    for call_id in ("call_" + "x" * 89, "toolu_" + "y" * 40, "call_Ab.c|fc_1:2/3", "functions.weather:0"):
        for wire in ("anthropic", "openai", "openai-chat"):
            assert talk.ask(wire, "mistral-model", **pair(wire, call_id)).status == 200
            ((sent, _),) = calls_of(talk.upstream.body)
            assert _MISTRAL_IDS.fullmatch(sent), (wire, sent)
            assert results_of(talk.upstream.body) == [sent]


def test_two_ids_that_look_alike_stay_two(talk: Talk) -> None:
    """After their illegal characters are gone."""
    both = {"messages": [*pair("anthropic", "f.x:0")["messages"], *pair("anthropic", "f:x.0")["messages"]]}
    assert talk.ask("anthropic", "mistral-model", **both).status == 200
    first, second = (call_id for call_id, _ in calls_of(talk.upstream.body))
    assert first != second
    assert results_of(talk.upstream.body) == [first, second]


def test_a_name_that_is_too_long_has_an_alias_and_comes_back(talk: Talk) -> None:
    """A name that is too long has an alias and comes back in the list of tools, the choice, the history, the whole
    reply and the stream.
    """

    def script(request: Any) -> Any:
        offered = request.body["tools"][0]["function"]["name"]
        assert len(offered) <= 64
        return answer_with(reply(calls=((offered, {"city": "Bern"}),)))(request)

    talk.upstream.script = script
    fields = {**pair("anthropic", "toolu_1", _LONG), "tool_choice": {"type": "tool", "name": _LONG}}
    for answered in talk.both("anthropic", "chat-model", **fields):
        assert [name for _, name, _ in answered.seen.calls] == [_LONG]
        offered = talk.upstream.body["tools"][0]["function"]["name"]
        assert [name for _, name in calls_of(talk.upstream.body)] == [offered]
        assert talk.upstream.body["tool_choice"]["function"]["name"] == offered


def test_each_kind_of_choice_is_mapped(talk: Talk) -> None:
    words = {"auto": "auto", "any": "required", "none": "none"}
    for theirs, ours in words.items():
        fields = {"tools": [tool("anthropic")], "tool_choice": {"type": theirs}}
        assert talk.ask("anthropic", "chat-model", **fields).status == 200
        assert talk.upstream.body["tool_choice"] == ours
    fields = {"tools": [tool("anthropic")], "tool_choice": {"type": "tool", "name": "weather"}}
    assert talk.ask("anthropic", "chat-model", **fields).status == 200
    assert talk.upstream.body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}


def test_a_choice_without_a_tool_is_left_out_with_it(talk: Talk) -> None:
    """The provider has none of the client's server tools, and would refuse the choice alone."""
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    answered = talk.ask("anthropic", "chat-model", tools=[search], tool_choice={"type": "any"})
    assert answered.status == 200
    assert not {"tools", "tool_choice"} & talk.upstream.body.keys()
    assert "tools=" in answered.losses


def test_a_server_tool_that_the_provider_lacks_does_not_end_the_request(talk: Talk) -> None:
    """The function beside it stays, and the loss is named."""
    search = {"type": "web_search_20250305", "name": "web_search"}
    answered = talk.ask("anthropic", "chat-model", tools=[search, tool("anthropic")])
    assert [each["function"]["name"] for each in talk.upstream.body["tools"]] == ["weather"]
    assert "tools=1" in answered.losses


def test_results_of_parallel_calls_arrive_once_each(talk: Talk) -> None:
    """They came in two messages of the user."""
    ids = ("toolu_1", "toolu_2", "toolu_3")
    calls = [{"type": "tool_use", "id": each, "name": "weather", "input": {"city": each}} for each in ids]
    results = [{"type": "tool_result", "tool_use_id": each, "content": f"sunny {each}"} for each in ids]
    messages = [
        {"role": "user", "content": "Three?"}, {"role": "assistant", "content": calls},
        {"role": "user", "content": results[:1]}, {"role": "user", "content": results[1:]},
    ]  # fmt: skip
    for model in ("chat-model", "responses-model", "google-model"):
        assert talk.ask("anthropic", model, messages=messages, tools=[tool("anthropic")]).status == 200
        text = json.dumps(talk.upstream.body)
        assert [text.count(f"sunny {each}") for each in ids] == [1, 1, 1], model


def test_a_call_without_a_result_is_answered_as_interrupted(talk: Talk) -> None:
    """The session would be refused for ever otherwise."""
    fields = pair("openai-chat", "call_1")
    fields["messages"][-1] = {"role": "user", "content": "Never mind. Hello?"}
    answered = talk.ask("openai-chat", "messages-model", **fields)
    assert "interrupted_call=1" in answered.losses
    blocks = [block for message in talk.upstream.body["messages"] for block in message["content"]]
    assert [block["type"] for block in blocks if isinstance(block, dict)].count("tool_result") == 1


def test_a_history_with_calls_and_a_request_without_tools(talk: Talk) -> None:
    """An agent summarizes its session: the provider gets the calls, or their text."""
    fields = pair("openai-chat", "call_1")
    del fields["tools"]
    answered = talk.ask("openai-chat", "messages-model", **fields)
    assert answered.status == 200
    assert "sunny" in json.dumps(talk.upstream.body)


def test_parallel_calls_can_be_forbidden(talk: Talk) -> None:
    fields = {"tools": [tool("openai-chat")], "parallel_tool_calls": False}
    assert talk.ask("openai-chat", "messages-model", **fields).status == 200
    assert talk.upstream.body["tool_choice"]["disable_parallel_tool_use"] is True


def test_words_of_json_schema_reach_google_or_are_named(talk: Talk) -> None:
    """A parameter that is named like such a word is not such a word."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "pattern": {"type": "string"},
            "format": {"type": "integer", "exclusiveMinimum": 0},
            "kind": {"const": "a"},
        },
        "required": ["pattern"],
        "additionalProperties": False,
        "propertyNames": {"pattern": "^[a-z]+$"},
    }
    answered = talk.ask("anthropic", "google-model", tools=[tool("anthropic", "search", schema)])
    assert answered.status == 200
    (function,) = talk.upstream.body["tools"][0]["functionDeclarations"]
    sent = function.get("parametersJsonSchema") or function["parameters"]
    assert {"pattern", "format", "kind"} == sent["properties"].keys()
    assert sent["required"] == ["pattern"]
    assert "propertyNames" not in sent
    assert "tools=" in answered.losses


def test_a_result_that_is_a_schema_is_data(talk: Talk) -> None:
    """Its references are not references of ours."""
    found = {"openapi": "3.1", "$defs": {"a": {"$ref": "#/$defs/b"}}, "$ref": "#/$defs/a"}
    fields = pair("anthropic", "toolu_1")
    fields["messages"][-1]["content"][0]["content"] = json.dumps(found)
    assert talk.ask("anthropic", "google-model", **fields).status == 200
    (part,) = talk.upstream.body["contents"][-1]["parts"]
    response = part["functionResponse"]["response"]
    assert "$ref" not in response
    assert json.dumps(found) in response.values()


def test_a_patch_comes_back_byte_for_byte(talk: Talk) -> None:
    """An agent declares a tool with free text: another provider calls a function with one text."""
    patch = '*** Begin Patch\n*** Add File: ü.txt\n+"quoted" \\ 天\n*** End Patch'
    tools = [{"type": "custom", "name": "apply_patch", "description": "Patches",
              "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}}]  # fmt: skip
    talk.upstream.script = answer_with(reply(calls=(("apply_patch", {"input": patch}),)))
    for model in ("messages-model", "chat-model"):
        whole, streamed = talk.both("openai", model, tools=tools)
        for answered in (whole, streamed):
            item = answered.seen.echo[-1]
            assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", patch)
        deltas = [each["delta"] for each in streamed.events if each["type"] == "response.custom_tool_call_input.delta"]
        assert "".join(deltas) == patch
        output = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "Done"}
        items = [{"role": "user", "content": "Go"}, item, output]
        assert talk.ask("openai", model, tools=tools, input=items).status == 200
        sent = json.dumps(talk.upstream.body, ensure_ascii=False)
        assert "apply_patch" in sent
        assert "Done" in sent


def test_tools_without_a_name_do_not_become_nameless_functions(talk: Talk) -> None:
    """Tools without a name do not become nameless functions: a search, a shell, and a namespace of functions."""
    spawn = {"type": "function", "name": "spawn", "description": "Starts", "parameters": {"type": "object"}}
    tools = [{"type": "web_search", "external_web_access": True}, {"type": "local_shell"},
             {"type": "namespace", "name": "agents", "description": "Agents", "tools": [spawn]},
             tool("openai")]  # fmt: skip
    answered = talk.ask("openai", "chat-model", tools=tools)
    assert [each["function"]["name"] for each in talk.upstream.body["tools"]] == ["agents__spawn", "weather"]
    assert "tools=2" in answered.losses


def test_a_google_call_gets_its_own_signature_back(talk: Talk) -> None:
    """The client's wire has a place for it; the provider refuses the call without it."""
    talk.upstream.script = answer_with(reply(thinking=("Hm.",), calls=WEATHER))
    for wire in ("anthropic", "openai"):
        seen = talk.ask(wire, "google-model", tools=[tool(wire)]).seen
        answered: Answered = talk.ask(wire, "google-model", tools=[tool(wire)], **again(wire, seen))
        assert answered.status == 200
        calls = [
            part for content in talk.upstream.body["contents"] for part in content["parts"] if "functionCall" in part
        ]
        assert all(part.get("thoughtSignature") for part in calls), wire
