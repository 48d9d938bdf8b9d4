"""The live tests need the runtime and the model's file; both are loaded once for all of them."""

import importlib.util

import pytest

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import MissingExtraError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.transport.local import LocalTransport
from dragoman.transport.local.files import model_file

MODEL = "local:smollm2-135m"


def missing() -> str | None:
    """Why the live tests cannot run; None where they can."""
    if importlib.util.find_spec("openvino_genai") is None:
        return "openvino-genai is not installed: pip install 'dragoman[local]'"
    try:
        model_file("smollm2-135m")
    except MissingExtraError as error:
        return str(error)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if "live_local" in item.path.parts]
    why = missing() if here else None
    for item in here:
        item.add_marker(pytest.mark.live_local)
        if why is not None:
            item.add_marker(pytest.mark.skip(reason=why))


class Asker:
    """Asks the embedded model, without a session around it."""

    def __init__(self, model: str = MODEL) -> None:
        self.adapter = get_adapter(model)
        self.transport = LocalTransport()

    def context(self) -> RequestContext:
        return RequestContext.for_model(str(self.adapter.model_id))

    def __call__(
        self, history: list[Message] | str, tools: tuple[ToolDefinition, ...] = (), **options: object
    ) -> Message:
        context = self.context()
        messages = [Message.user(history)] if isinstance(history, str) else history
        wire = self.adapter.to_wire(messages, tools, AdapterOptions(context=context, **options))  # type: ignore[arg-type]
        return self.adapter.from_wire_response(self.transport.send(self.adapter, wire), context)


@pytest.fixture(scope="session")
def ask() -> Asker:
    return Asker()
