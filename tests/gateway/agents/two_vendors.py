"""``python -m tests.gateway.agents.two_vendors``: one conversation on two vendors, and what it costs.

It starts in Claude Code on a model of Anthropic, goes on in Claude Code on one of OpenAI, and its cost is compared in
the page, in `/metrics`, in the ledger of the keys, in the store, and by the providers' own counts. Without Claude Code
in the folder DRAGOMAN_AGENTS, Anthropic's SDK has the same conversation.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import anthropic
import httpx
from typer.testing import CliRunner

from dragoman import AsyncClient, Store
from dragoman.cli.app import app as command
from dragoman.messages import TokenUsage
from dragoman.pricing import price_table
from dragoman_gateway import GatewaySettings, create_app
from dragoman_gateway.database import Database
from dragoman_gateway.keys.key_store import KeyStore
from tests.gateway.agents.clients import PROMPT, folder, missing, program
from tests.gateway.agents.report import CALLS, WORD, read_request
from tests.gateway.scripted import Answer, Received, Upstream, answer_with, reply
from tests.gateway.serving import serving
from tests.gateway.upstream import PATIENCE

CLIENT, TOOL = "claude-code", "Read"
MODELS = {"first": "anthropic:claude-sonnet-4-6", "second": "openai:gpt-5.1", "claude-*": "anthropic:claude-sonnet-4-6"}
"""The names that the client asks for. Claude Code asks for a small model by itself, under a name of its own. The
scripted replies name these two models as well, and it is the served model that is priced."""
AGAIN = "Which word was it? Read the file once more."
_COUNTS = ("input_tokens", "cached_input_tokens", "output_tokens")


@dataclass(slots=True)
class Providers:
    """Both vendors: what they were asked, and what they would bill."""

    work: Path
    counted: dict[str, Counter[str]] = field(default_factory=dict)
    histories: dict[str, str] = field(default_factory=dict)
    """The last request of the conversation to each vendor."""

    def __call__(self, request: Received) -> Answer:
        number = sum(each["requests"] for each in self.counted.values()) + 1
        tokens = {"input_tokens": 1000 + number, "cached_tokens": 200 * number, "output_tokens": 30 + number}
        found = self.counted.setdefault(request.wire, Counter())
        found.update(requests=1, input_tokens=tokens["input_tokens"], output_tokens=tokens["output_tokens"],
                     cached_input_tokens=tokens["cached_tokens"])  # fmt: skip
        if PROMPT in request.raw.decode():
            self.histories[request.wire] = request.raw.decode()
        messages, tools = read_request(request)
        if any(tool.name == TOOL for tool in tools) and messages[-1].role != "tool":
            call = (TOOL, {key: str(self.work / str(file)) for key, file in CALLS[TOOL].items()})
            return answer_with(reply("Reading.", calls=(call,), **tokens))(request)
        return answer_with(reply("The secret word is ", f"{WORD}.", **tokens))(request)

    def bill(self) -> Decimal:
        """Return what the providers bill for their own counts, at their prices."""
        names = {model.partition(":")[0]: model for model in MODELS.values()}
        total = Decimal(0)
        for wire, counted in self.counted.items():
            usage = TokenUsage(**{name: counted[name] for name in _COUNTS})
            priced = price_table().price(names[wire], usage, datetime.now(UTC))
            assert priced.cost_usd is not None
            total += priced.cost_usd
        return total


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of one conversation in US dollars, by who says so."""

    providers: Decimal
    page: Decimal
    metrics: Decimal
    ledger: Decimal
    store: Decimal | None
    """None without a store: then requests go through to the provider of the client's wire, without a session."""
    requests: dict[str, int]
    """The requests that each provider answered."""
    carried: bool
    """Whether the second vendor got the conversation that the first one had begun."""

    @property
    def agree(self) -> bool:
        """Whether all say the same. The page shows six digits, and the metrics are floats."""
        exact = self.providers == self.ledger > 0 and self.store in (None, self.providers)
        return exact and self.page == round(self.providers, 6) and round(self.metrics - self.providers, 9) == 0


def compare(client: str, *, stores: bool = True) -> Costs:
    """Have the conversation. Raises AssertionError if the client does not end it."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        providers = Providers(scratch / "work")
        with _gateway(providers, scratch, stores=stores) as (address, keys):
            if client == CLIENT:
                _ask_claude_code(address, keys["client"], scratch)
            else:
                _ask_sdk(address, keys["client"])
            spend = _get(f"{address}/gateway/spend", keys["admin"]).json()
            page = _Texts(_get(f"{address}/gateway/", keys["admin"]).text).text
            metrics = _get(f"{address}/metrics", keys["admin"]).text
        stored = _read_store(scratch / "chats.db") if stores else None
    found = re.search(r"key client key_\w+ [\d,]+ [\d,]+ \$([\d.,]+)", page)
    assert found is not None, page
    history = providers.histories["openai"]
    return Costs(
        providers=providers.bill(),
        page=Decimal(found[1].replace(",", "")),
        metrics=sum(map(Decimal, re.findall(r"\ndragoman_cost_usd_total\{.*\} (\S+)", metrics)), Decimal(0)),
        ledger=sum((Decimal(each["spent"]["usd"]) for each in spend["data"]), Decimal(0)),
        store=stored,
        requests={wire: counted["requests"] for wire, counted in providers.counted.items()},
        carried=PROMPT in history and WORD in history and AGAIN in history,
    )


def _read_store(path: Path) -> Decimal:
    """Return what `dragoman cost` reports of a store."""
    shown = CliRunner().invoke(command, ["cost", str(path), "--by", "key", "--json"])
    assert shown.exit_code == 0, shown.output
    return sum((Decimal(line["cost_usd"]) for line in json.loads(shown.stdout)["lines"]), Decimal(0))


@contextmanager
def _gateway(providers: Providers, scratch: Path, *, stores: bool) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the address of a gateway before both vendors, with a key and an admin key."""
    upstream = Upstream()
    upstream.script = providers
    database = f"sqlite:///{scratch / 'gateway.db'}"
    with ExitStack() as stack:
        base = stack.enter_context(serving(upstream))
        keys = Database(database)
        stack.callback(keys.close)
        created = {name: KeyStore(keys).create(name=name, admin=name == "admin")[1] for name in ("client", "admin")}
        store = stack.enter_context(Store(f"sqlite:///{scratch / 'chats.db'}")) if stores else None
        settings: dict[str, Any] = {"api_key": "sk-of-the-provider", "max_retries": 0}
        bases = {"anthropic": base, "openai": f"{base}/v1"}
        client = AsyncClient(
            providers={name: {**settings, "base_url": each} for name, each in bases.items()}, store=store
        )
        app = create_app(GatewaySettings(models=MODELS, database=database), client=client)
        yield stack.enter_context(serving(app)), created


def _ask_claude_code(address: str, secret: str, scratch: Path) -> None:
    """Ask twice in one conversation, the second time another model."""
    installed = folder()
    assert installed is not None
    started = program(CLIENT, "first", address, installed, scratch)
    environment = {**started.environment, "ANTHROPIC_API_KEY": secret}
    first = started.arguments
    second = [AGAIN if each == PROMPT else "second" if each == "first" else each for each in first] + ["--continue"]
    for arguments in (first, second):
        done = subprocess.run(
            arguments, env=environment, cwd=started.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert (done.returncode, WORD in done.stdout) == (0, True), f"{done.stdout[-600:]} {done.stderr[-600:]}"


def _ask_sdk(address: str, secret: str) -> None:
    """Ask as Claude Code does: the whole history each time, whichever model answered."""
    schema = {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]}
    messages: list[Any] = []
    with anthropic.Anthropic(base_url=address, api_key=secret, max_retries=0) as sdk:
        for prompt, model in ((PROMPT, "first"), (AGAIN, "second")):
            messages.append({"role": "user", "content": prompt})
            while True:
                with sdk.messages.stream(
                    model=model, max_tokens=1000, messages=messages, tools=[{"name": TOOL, "input_schema": schema}]
                ) as stream:
                    reply = stream.get_final_message()
                messages.append({"role": "assistant", "content": reply.content})
                calls = [block for block in reply.content if block.type == "tool_use"]
                if not calls:
                    break
                results = [{"type": "tool_result", "tool_use_id": call.id, "content": "PEAR-7731"} for call in calls]
                messages.append({"role": "user", "content": results})


def _get(url: str, secret: str) -> httpx.Response:
    return httpx.get(url, headers={"x-api-key": secret}, trust_env=False, timeout=PATIENCE).raise_for_status()


class _Texts(HTMLParser):
    """The text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._found: list[str] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self._found.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._found).split())


def main() -> int:
    """Print what each says. Returns 1 if they differ."""
    installed = folder()
    client = CLIENT if installed is not None and missing(CLIENT, installed) is None else "anthropic"
    costs = compare(client)
    asked = ", ".join(f"{number} of {wire}" for wire, number in costs.requests.items())
    print(f"client: {client}; requests: {asked}; history carried: {'yes' if costs.carried else 'NO'}")
    print("| who | US dollars |\n| --- | ---: |")
    for name in ("providers", "ledger", "store", "metrics", "page"):
        print(f"| {name} | {getattr(costs, name)} |")
    return 0 if costs.agree and costs.carried else 1


if __name__ == "__main__":
    sys.exit(main())
