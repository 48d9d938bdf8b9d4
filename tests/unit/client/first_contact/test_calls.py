"""Each call of a foreign guide works, or its error contains what to write, which is then run."""

import ast
import asyncio
import re
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dragoman
from dragoman import AdapterOptions, AsyncClient, Client, DragomanError, Session, ask
from dragoman.adapter.names import _table
from dragoman.adapter.options import AdapterOptions as Options
from dragoman.batch import Batches
from dragoman.bulk import bulk
from dragoman.cli.app import app
from dragoman.embeddings import embed
from dragoman.services import Services
from dragoman.session.config import NewSessionSettings
from dragoman.transport.settings import ProviderSettings
from tests.tables import each_row
from tests.unit.client.first_contact.calls import CALLS, Call, City
from tests.unit.client.first_contact.provider import serve

_MOST_CORRECTIONS = 6
_WRITE = re.compile(r"(?:^|[:;] )write (.+?)(?: \((?:\w+ is in [\w.]+(?:, )?)+\))?$")


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadingHTTPServer]:
    with serve() as server:
        yield server


@pytest.fixture(autouse=True)
def environment(server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"http://127.0.0.1:{server.server_address[1]}"
    for name, path in (("OPENAI", "/v1"), ("ANTHROPIC", ""), ("GOOGLE_GEMINI", ""), ("OLLAMA_HOST", "")):
        monkeypatch.setenv(name if name.endswith("HOST") else f"{name}_BASE_URL", address + path)
    for name in ("OPENAI", "ANTHROPIC", "GEMINI"):
        monkeypatch.setenv(f"{name}_API_KEY", "none")


def _run(call: Call) -> str:
    """Make the call, and return the text of its answer."""
    arguments = dict(call.arguments)
    match call.door:
        case "ask":
            return _ask(ask, call.model, call.prompt, arguments)
        case "client.ask":
            return _ask(Client().ask, call.model, call.prompt, arguments)
        case "client.stream":
            with _ask(Client().stream, call.model, call.prompt, arguments, whole=True) as stream:
                return str(stream.get_reply().text)
        case "Session":
            with Session(call.model, **arguments) as session:
                return session.ask(call.prompt).text
        case "session.ask":
            with Session(call.model) as session:
                return session.ask(call.prompt, **arguments).text
        case "Client":
            with Client(**arguments) as client:
                return client.ask(call.model, call.prompt).text
        case _:
            with bulk([{"prompt": call.prompt}], call.model, **arguments) as report:
                return str(next(iter(report)))


def _ask(door: Callable[..., Any], model: str, prompt: Any, arguments: dict[str, Any], *, whole: bool = False) -> Any:
    positional = () if prompt is None else (prompt,)
    reply = door(model, *positional, **arguments)
    return reply if whole else reply.text


@each_row("call", CALLS)
def test_a_call_of_another_library_works_or_its_error_has_what_to_write(call: Call) -> None:
    """After at most a handful of corrections, each of them copied from an error, the call is answered."""
    for _ in range(_MOST_CORRECTIONS):
        try:
            answer = _run(call)
        except DragomanError as error:
            call = _correct(call, str(error))
            continue
        assert "Bern" in answer
        return
    pytest.fail(f"no answer after {_MOST_CORRECTIONS} corrections: {call}")


@each_row("call", CALLS)
def test_no_error_suggests_a_name_that_means_something_else(call: Call) -> None:
    """An option of tokens is not answered with the rounds of tools, or any name that is only spelt alike."""
    said = ""
    try:
        _run(call)
    except DragomanError as error:
        said = str(error)
    assert "did you mean" not in said
    assert "known are" not in said


def test_the_table_names_only_what_exists() -> None:
    """Each name of ours in the table is a setting or an option, and each provider is installed."""
    table = _table()
    assert set(table["provider_settings"]) == set(ProviderSettings.__annotations__)
    assert set(table["turn_options"]) == set(Options.__dataclass_fields__)
    assert set(table["session_settings"]) <= set(NewSessionSettings.__annotations__)
    known = {*Options.__dataclass_fields__, *table["provider_settings"], *table["session_settings"]}
    known |= {"prompt", "model", "output", "output_schema", "output_retries"}
    assert {row for row in table["arguments"].values() if isinstance(row, str)} <= known
    providers = dragoman.adapter.registry.providers()  # type: ignore[attr-defined]
    assert {*table["providers"].values(), *table["families"].values()} <= set(providers)
    assert not set(table["providers"]) & set(providers)
    for name, module in table["modules"].items():
        assert hasattr(import_module(module), name)


def _correct(call: Call, error: str) -> Call:
    """Return the call as the error says to write it."""
    lines, left_out = _WRITE.search(error), re.search(r"leave out ([\w, ]+)", error)
    assert lines or left_out, error
    dropped = left_out[1].split(", ") if left_out else []
    arguments = {name: value for name, value in call.arguments.items() if name not in dropped}
    if lines is None:
        return Call(call.source, call.door, call.model, arguments, call.prompt)
    written = lines[1]
    if "is not a model id" in error:
        return Call(call.source, call.door, ast.literal_eval(written), arguments, call.prompt)
    refused = [name for name in re.findall(r"'(\w+)'", error.partition("; ")[0]) if name in arguments]
    return _rewrite(Call(call.source, call.door, call.model, arguments, call.prompt), written, refused)


def _rewrite(call: Call, written: str, refused: list[str]) -> Call:
    """Return the call with the expressions in place of the refused arguments."""
    tree = ast.parse(f"f({written})", mode="eval")
    names = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    refused = refused or [name for name in call.arguments if name in names]
    given = {name: value for name, value in call.arguments.items() if name not in refused}
    values = [call.arguments[name] for name in refused]
    door, prompt = call.door, call.prompt
    assert isinstance(tree.body, ast.Call)
    for each in tree.body.args:  # another call
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "Client().stream":
            door = "client.stream"
            continue
        door, moved = _moved(each, door, {**call.arguments, "prompt": prompt})
        if "messages" in moved:
            prompt = None
        given |= _filled(moved, values)
    scope = {**_scope(), **call.arguments, "prompt": prompt, "f": lambda *_, **new: new}
    tree.body.args = []
    new = eval(compile(ast.fix_missing_locations(tree), "error", "eval"), scope)
    given |= _filled(new, values)
    prompt = given.pop("prompt", prompt)
    return Call(call.source, door, call.model, given, prompt)


def _moved(call: ast.expr, door: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the door that ``Session(..., x=1)`` and ``session.ask(..., x=1)`` name, and the arguments there."""
    inner = call.func.value if ast.unparse(call).endswith(".ask(None)") else call  # type: ignore[attr-defined]
    assert isinstance(inner, ast.Call)
    kind = ast.unparse(inner.func)
    expression = ast.Expression(ast.Call(ast.Name("f", ast.Load()), [], inner.keywords))
    new = eval(
        compile(ast.fix_missing_locations(expression), "error", "eval"),
        {**_scope(), **arguments, "f": lambda **new: new},
    )
    doors = {"Session": "ask" if door in ("session.ask", "ask") else door, "session.ask": "ask"}
    return doors[kind], new


def _filled(new: dict[str, Any], values: list[Any]) -> dict[str, Any]:
    """Return the arguments with the caller's values in place of ``...``."""
    return {name: _fill(value, values) for name, value in new.items()}


def _fill(value: Any, values: list[Any]) -> Any:
    if value is ...:
        return next(each for each in values if not isinstance(each, (bool, int, float)))
    if isinstance(value, dict):
        return {name: _fill(each, values) for name, each in value.items()}
    return value


def _scope() -> dict[str, Any]:
    modules = _table()["modules"]
    found = {name: getattr(import_module(module), name) for name, module in modules.items()}
    own = {name: getattr(dragoman, name) for name in ("ToolDefinition", "Router", "Client", "Budget", "EventBus")}
    return {**found, **own, "AdapterOptions": AdapterOptions, "City": City}


def test_async_doors_take_the_same() -> None:
    """Options where they are called, whole and streamed, and the same words for those that are unknown."""

    async def run() -> None:
        async with AsyncClient() as client:
            assert "Bern" in (await client.ask("openai:gpt-4o", "Where?", max_output_tokens=5, output=City)).text
            async with client.stream("openai-chat:gpt-4o", "Where?", temperature=0) as stream:
                assert "Bern" in (await stream.get_reply()).text
            with pytest.raises(DragomanError, match="write max_output_tokens=5"):
                await client.ask("openai:gpt-4o", "Where?", max_tokens=5)  # type: ignore[call-overload]
            with pytest.raises(DragomanError, match="write max_output_tokens=5"):
                client.stream("openai:gpt-4o", "Where?", max_tokens=5)  # type: ignore[call-overload]

    asyncio.run(run())


@each_row(
    ("call", "written"),
    [
        (lambda: Batches("openai:gpt-4o", max_tokens=5, api_key="k"), "options=AdapterOptions(max_output_tokens=5)"),
        (lambda: Services("openai:gpt-4o", request_timeout=5, api_key="k"), "timeout=5"),
        (lambda: embed("openai:text-embedding-3-small", ["a"], api_base="http://x", api_key="k"), "base_url=..."),
        (lambda: Client(providers={"openai": {"api_base": "http://x"}}), "base_url=..."),
        (lambda: Client(temperature=0), "options=AdapterOptions(temperature=0)"),  # type: ignore[call-arg]
        (lambda: Session("openai:gpt-4o").ask("Hi", tools=[]), "Session(..., tools=...)"),  # type: ignore[call-arg]
        (lambda: bulk(["a"], "openai:gpt-4o", output="rows.jsonl"), "to=..."),
    ],
    ids=lambda row: str(row[1]),
)
def test_every_other_door_answers_too(call: Callable[[], Any], written: str) -> None:
    """Batches, services, vectors, clients, turns, and our own words at another door."""
    with pytest.raises(DragomanError) as caught:
        call()
    assert f"write {written}" in str(caught.value)


@each_row(
    ("words", "written"),
    [
        (["ask", "openai:gpt-4o", "Hi", "-o", "stop=END"], "did you mean 'stop_sequences'"),
        (["ask", "openai:gpt-4o", "Hi", "-o", "max_tokens=5"], "did you mean 'max_output_tokens'"),
        (["ask", "openai:gpt-4o", "Hi", "--max-tokens", "5"], "--max-output-tokens"),
        (["chat", "openai/gpt-4o"], "write 'openai:gpt-4o'"),
        (["prices", "sonnet"], "anthropic:claude-sonnet"),
        (["models", "sonnet"], "anthropic:claude-sonnet"),
    ],
    ids=lambda row: " ".join(row[0]),
)
def test_the_command_line_answers_too(words: list[str], written: str) -> None:
    done = CliRunner().invoke(app, words)
    assert written in done.output + str(done.exception)


def test_a_file_answers_too(tmp_path: Path) -> None:
    """The options of dragoman.toml have the names of every other door."""
    file = tmp_path / "dragoman.toml"
    file.write_text("[options]\nstop = ['END']\n", encoding="utf-8")
    with pytest.raises(DragomanError, match=r"1 mistake:\n.*did you mean 'stop_sequences'"):
        Client.from_config(file)


@each_row(
    ("read", "written"),
    [
        (lambda reply: reply.choices[0].message.content, "reply.text"),
        (lambda reply: reply.output_text, "reply.text"),
        (lambda reply: reply.content[0].text, "reply.text"),
        (lambda reply: reply.all_messages(), "session.messages"),
    ],
    ids=lambda row: str(row[1]),
)
def test_a_reply_answers_too(read: Callable[[Any], Any], written: str) -> None:
    """With what to write, and for any other name as every object."""
    reply = ask("openai:gpt-4o", "Hi")
    with pytest.raises(AttributeError, match=f"write {written}"):
        read(reply)
    assert not hasattr(reply, "nothing")
