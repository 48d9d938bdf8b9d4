"""A library that owns a format loads documents and sends them: ``python -I programs.py LIBRARY``.

Runs in the library's own environment, without Dragoman. Each line of the input is an object with ``name``, ``wire`` and
``data``; each line of the output says whether the library's loader accepts the data (``refused`` has its error), what
its own serialiser makes of it (``again``), and the request that its adapter of this wire sends to a server on this
machine (``sent``), or why it cannot (``unsent``). A log of llm is continued by its command and returned, as
``continued``.
"""

import base64
import io
import json
import logging
import os
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PROMPT = "Go on."
ANSWER = "I go on."
MODELS = {"chat": "gpt-4.1", "responses": "gpt-6.1-sol", "messages": "claude-opus-5-5", "google": "gemini-3-flash"}
_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
_CHAT = {
    "id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": _USAGE,
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}],
}  # fmt: skip
_RESPONSE = {
    "id": "r", "object": "response", "created_at": 1, "status": "completed", "model": "m", "parallel_tool_calls": True,
    "tool_choice": "auto", "tools": [], "output": [
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": ANSWER, "annotations": [], "logprobs": []}]}],
    "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": {"cached_tokens": 0},
              "output_tokens_details": {"reasoning_tokens": 0}},
}  # fmt: skip
_MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "stop_sequence": None,
    "content": [{"type": "text", "text": ANSWER}], "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip
_CONTENT = {
    "candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [{"text": ANSWER}]}}],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}, "modelVersion": "m",
}  # fmt: skip
_ANSWERS = {
    "/chat/completions": _CHAT, "/responses": _RESPONSE, "/messages": _MESSAGE, ":generateContent": _CONTENT,
}  # fmt: skip


class Server:
    """Answers every request of four wires alike, and keeps the last one."""

    def __init__(self) -> None:
        self.request: Any = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                path = self.path.partition("?")[0]
                answer = next(each for ending, each in _ANSWERS.items() if path.endswith(ending))
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{listener.server_port}"


class PydanticAI:
    def __init__(self, address: str) -> None:
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.providers.anthropic import AnthropicProvider
        from pydantic_ai.providers.google import GoogleProvider
        from pydantic_ai.providers.openai import OpenAIProvider

        openai = OpenAIProvider(base_url=f"{address}/v1", api_key="none")
        anthropic = AnthropicProvider(base_url=address, api_key="none")
        google = GoogleProvider(base_url=address, api_key="none")
        self._models: dict[str, Any] = {
            "chat": OpenAIChatModel(MODELS["chat"], provider=openai),
            "responses": OpenAIResponsesModel(MODELS["responses"], provider=openai),
            "messages": AnthropicModel(MODELS["messages"], provider=anthropic),
            "google": GoogleModel(MODELS["google"], provider=google),
        }

    def load(self, data: Any) -> Any:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        return ModelMessagesTypeAdapter.validate_python(data)

    def dump(self, loaded: Any) -> Any:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        return ModelMessagesTypeAdapter.dump_python(loaded, mode="json")

    def send(self, loaded: Any, wire: str) -> None:
        from pydantic_ai.direct import model_request_sync
        from pydantic_ai.messages import ModelRequest

        messages = [*loaded, ModelRequest.user_text_prompt(PROMPT)]
        model_request_sync(self._models[wire], messages, model_settings={"max_tokens": 99})


class LangChain:
    def __init__(self, address: str) -> None:
        from langchain_anthropic import ChatAnthropic
        from langchain_google_genai import ChatGoogleGenerativeAI
        from langchain_openai import ChatOpenAI

        options: dict[str, Any] = {"base_url": f"{address}/v1", "api_key": "none", "max_retries": 0}
        self._models: dict[str, Any] = {
            "chat": ChatOpenAI(model=MODELS["chat"], use_responses_api=False, **options),
            "responses": ChatOpenAI(model=MODELS["responses"], use_responses_api=True, **options),
            "messages": ChatAnthropic(
                model=MODELS["messages"], base_url=address, api_key="none", max_tokens=9, max_retries=0
            ),
            "google": ChatGoogleGenerativeAI(
                model=MODELS["google"], base_url=address, google_api_key="none", max_retries=0
            ),
        }

    def load(self, data: Any) -> Any:
        from langchain_core.messages import messages_from_dict

        return messages_from_dict(data)

    def dump(self, loaded: Any) -> Any:
        from langchain_core.messages import messages_to_dict

        return messages_to_dict(loaded)

    def send(self, loaded: Any, wire: str) -> None:
        from langchain_core.messages import HumanMessage

        self._models[wire].invoke([*loaded, HumanMessage(PROMPT)])


class LangChainDumped(LangChain):
    """The form of `dumpd` and `dumps`."""

    def load(self, data: Any) -> Any:
        from langchain_core.load import load

        return load(data, allowed_objects="messages")

    def dump(self, loaded: Any) -> Any:
        from langchain_core.load import dumpd

        return dumpd(loaded)


class LiteLLM:
    def __init__(self, address: str) -> None:
        import litellm

        litellm.suppress_debug_info = True
        litellm.drop_params = True
        self._address = address

    def load(self, data: Any) -> Any:
        from litellm.utils import validate_and_fix_openai_messages

        return validate_and_fix_openai_messages(messages=data)

    def dump(self, loaded: Any) -> Any:
        return [each if isinstance(each, dict) else each.model_dump(exclude_none=True) for each in loaded]

    def send(self, loaded: Any, wire: str) -> None:
        import litellm

        provider, base = {
            "messages": ("anthropic", self._address),
            "google": ("gemini", f"{self._address}/models/{MODELS['google']}"),
        }.get(wire, ("openai", f"{self._address}/v1"))
        messages = [*loaded, {"role": "user", "content": PROMPT}]
        model = MODELS["chat" if wire == "responses" else wire]
        litellm.completion(model=f"{provider}/{model}", messages=messages, api_base=base, api_key="none", num_retries=0)


class Llm:
    """Continues a log with the command ``llm -c``. The models of the log are those of a server on this machine."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._folder = TemporaryDirectory()
        self._log = Path(self._folder.name, "logs.db")
        os.environ["LLM_USER_PATH"] = self._folder.name

    def load(self, data: Any) -> Any:
        self._log.write_bytes(base64.b64decode(data))
        return self._read()

    def _read(self) -> list[Any]:
        """The messages of the only thread, whose hashes must be those of their content."""
        import sqlite_utils
        from llm.logs import LogStore

        database = sqlite_utils.Database(self._log)
        try:
            store = LogStore(database)
            if broken := store.verify():
                raise ValueError(f"{len(broken)} messages do not have the hash of their content")
            (thread,) = database["threads"].rows
            self._models = [row["model"] for row in database.query("select distinct model from turns")]
            return list(store.thread_messages(thread["id"]))
        finally:
            database.close()

    def dump(self, loaded: Any) -> Any:
        return None

    def send(self, loaded: Any, wire: str) -> None:
        from llm.cli import cli

        folder = Path(self._folder.name)
        default = next((name for name in self._models if name), MODELS["chat"])  # for a reply that names no model
        listed = [
            {"model_id": name, "model_name": name, "api_base": f"{self._address}/v1", "api_key_name": "none",
             "vision": True, "audio": True, "supports_tools": True}
            for name in {default, *filter(None, self._models)}
        ]  # fmt: skip
        (folder / "extra-openai-models.yaml").write_text(json.dumps(listed), encoding="utf-8")
        (folder / "default_model.txt").write_text(default, encoding="utf-8")
        cli.main(["prompt", PROMPT, "-c", "--no-stream", "--key", "none"], standalone_mode=False)
        continued = self._read()
        if continued[: len(loaded)] != loaded or len(continued) != len(loaded) + 2:
            raise ValueError(f"the log had {len(loaded)} messages, and has {len(continued)} after one turn")

    def continued(self) -> str:
        """The log after the turn."""
        return base64.b64encode(self._log.read_bytes()).decode()


LIBRARIES: dict[str, Callable[[str], Any]] = {
    "pydantic-ai": PydanticAI, "langchain": LangChain, "langchain-dumpd": LangChainDumped, "litellm": LiteLLM,
    "llm": Llm,
}  # fmt: skip


def check(library: Any, server: Server, document: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": document["name"]}
    try:
        loaded = library.load(document["data"])
        row["again"] = library.dump(loaded)
    except Exception as error:  # each library has its own
        return {**row, "refused": _describe(error)}
    server.request = None
    try:
        library.send(loaded, document["wire"])
    except (Exception, SystemExit) as error:
        return {**row, "unsent": _describe(error)}
    continued = {"continued": library.continued()} if isinstance(library, Llm) else {}
    return {**row, "sent": server.request, **continued}


def _stay_here() -> None:
    """Let no library look for another machine: some fetch the media of a message."""
    resolve = socket.getaddrinfo

    def guarded(host: Any, *arguments: Any, **options: Any) -> Any:
        if host not in ("127.0.0.1", "localhost", None):
            raise OSError(f"{host} is another machine")
        return resolve(host, *arguments, **options)

    socket.getaddrinfo = guarded


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:400]}"


def main(name: str) -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is fetched
    _stay_here()
    lines, sys.stdin = sys.stdin, io.StringIO()  # llm reads it
    output, sys.stdout = sys.stdout, io.StringIO()  # what the library prints is not an answer
    server = Server()
    library = LIBRARIES[name](server.address)
    for line in lines:
        output.write(json.dumps(check(library, server, json.loads(line))) + "\n")
        output.flush()


if __name__ == "__main__":
    main(sys.argv[1])
