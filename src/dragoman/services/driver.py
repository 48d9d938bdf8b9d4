"""Calls the services of a provider, sync and async, under the settings of a client."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.losses import Loss, log_losses
from dragoman.adapter.operations.service_api import FileContent, ProviderFile, ProviderModel, ServiceApi
from dragoman.adapter.operations.steps import Steps, drive, drive_async
from dragoman.adapter.registry import get_adapter
from dragoman.batch.governance import Work, carry_out, carry_out_async
from dragoman.batch.judge import BatchJudge
from dragoman.batch.requests import PreparedRequest
from dragoman.canonical.extensions.message_labels import labels_of_messages
from dragoman.canonical.ids import new_session_id
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.runtime.call_settings import read_call_settings
from dragoman.runtime.providers import merge_providers
from dragoman.services.content import Prompt, apply_judgement, read_file, to_block, to_messages
from dragoman.session.middleware.policy_hooks import perform
from dragoman.tools.tool import Tool
from dragoman.tools.toolbox import Toolbox
from dragoman.transport import AsyncTransport, RetryPolicy, Transport, transport_for
from dragoman.transport.settings import Providers, seal_keys

T = TypeVar("T")
TransportT = TypeVar("TransportT", bound=Transport | AsyncTransport)


class _Services(Generic[TransportT]):
    """The shared part of the sync and the async driver."""

    _asynchronous: bool

    def __init__(
        self,
        model: str,
        *,
        options: AdapterOptions | None = None,
        client: Any = None,
        providers: Providers | None = None,
        **settings: Any,
    ) -> None:
        """``model`` is provider:model. ``options`` are those of the requests that are counted. ``client`` is a `Client`
        or an `AsyncClient`, whose settings hold here too; the default is that of `set_default_client`. Other
        ``settings`` are those of the model's provider, as in ``providers``.

        Raises ConfigurationError if the adapter supports no services, and UnknownProviderError.
        """
        settings = seal_keys(settings)
        self.adapter = get_adapter(model)
        provider = self.adapter.provider
        config, own = read_call_settings(provider, client, providers, settings)
        self._lifetime = config.lifetime
        if self.adapter.services is None:
            raise ConfigurationError(f"{self.adapter.model_id}: its adapter supports no services")
        self._api: ServiceApi = self.adapter.services
        self.losses: tuple[Loss, ...] = ()
        """What the request that was counted last could not hold."""
        self._options = options or config.options or AdapterOptions()
        if not self._asynchronous and config.policy is not None and (names := config.policy.async_names):
            raise ConfigurationError(f"{', '.join(names)}: coroutines need AsyncServices")
        self._judge = None if config.policy is None and config.router is None else BatchJudge(config, self.adapter)
        self._settings = merge_providers(config.providers or {}, own).get(provider, {})
        self._transport: TransportT = self._create_transport()

    @property
    def offers(self) -> frozenset[str]:
        """The services that the provider has: ``count_tokens``, ``files``, ``models``."""
        return self._api.offers

    def _create_transport(self, **changes: Any) -> TransportT:
        created: Any = transport_for(self.adapter, asynchronous=self._asynchronous, **{**self._settings, **changes})
        transport: TransportT = created
        return transport

    def _upload_transport(self) -> TransportT:
        """A second attempt could store a second file."""
        return self._create_transport(retry=RetryPolicy(max_retries=0))

    def _count(
        self, prompt: Prompt, system: str | None, tools: Iterable["Tool | Callable[..., Any] | ToolDefinition"]
    ) -> Work[Steps[int]]:
        self._lifetime.check()
        definitions = _definitions(tools)
        request = yield from self._judged(to_messages(prompt, system), definitions)
        context = RequestContext.for_model(str(self.adapter.model_id), prices=None)
        options = replace(request.options, stream=False, context=context)
        wire = self.adapter.to_wire(request.messages, request.tools, options)
        log_losses(wire.losses, session_id=context.session_id, adapter=self.adapter.provider)
        self.losses = wire.losses
        return self._api.count_tokens(wire)

    def _upload(self, file: FileContent) -> Work[Steps[ProviderFile]]:
        self._lifetime.check()
        if self._judge is not None:
            block = to_block(file)
            request = yield from self._judged((Message.user([block]),), ())
            file = apply_judgement(file, block, request.messages)
        return self._api.upload(file)

    def _judged(self, messages: tuple[Message, ...], tools: Iterable[ToolDefinition]) -> Work[PreparedRequest]:
        """Return what may be sent. Raises PolicyDeniedError."""
        name = new_session_id()
        request = PreparedRequest(
            custom_id=name,
            wire_id=name,
            session_id=name,
            messages=messages,
            tools=tuple(tools),
            options=self._options,
            labels=labels_of_messages(messages),
        )
        if self._judge is None:
            return request
        judged: PreparedRequest = yield perform(self._judge.prompt(request))
        return judged


class Services(_Services[Transport]):
    """The services of a model's provider.

        with Client() as client:
            claude = client.services("anthropic:claude-opus-5-5")
            report = claude.upload("report.pdf")
            print(claude.count_tokens(Message.user([TextBlock(text="Summarize it."), report.block])))

    A policy of the client judges what is counted and uploaded before it is sent. Counts and lists are retried as all
    requests are; an upload is not. Methods raise ConfigurationError for a service that the provider does not offer, and
    any ProviderError.
    """

    _asynchronous = False

    def count_tokens(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        tools: Iterable["Tool | Callable[..., Any] | ToolDefinition"] = (),
    ) -> int:
        """Return the input tokens that the provider counts for a text, a message or a history. It is not billed.

        `estimate_input_tokens` of an adapter estimates them without a request.
        """
        steps = carry_out(self._count(prompt, system, tools))
        return self._drive(steps, self._transport)

    def upload(
        self, file: str | Path | bytes, *, name: str | None = None, media_type: str | None = None
    ) -> ProviderFile:
        """Store a file with the provider; its ``block`` is content for messages to the same provider.

        ``file`` is a path, or the bytes of a file with a ``name``; it is read into memory. The media type follows from
        the name's ending if it is None. After a NetworkError the file may exist: `files` lists it.
        """
        steps = carry_out(self._upload(read_file(file, name, media_type)))
        return self._drive(steps, self._upload_transport())

    def files(self) -> tuple[ProviderFile, ...]:
        """Return all files that the key may see."""
        return self._drive(self._api.files(), self._transport)

    def delete_file(self, file: ProviderFile | str) -> None:
        """Delete a file, given by its id."""
        self._drive(self._api.delete_file(_file_id(file)), self._transport)

    def models(self) -> tuple[ProviderModel, ...]:
        """Return the models that the provider lists now."""
        return self._drive(self._api.models(), self._transport)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drive(self, steps: Steps[T], transport: Transport) -> T:
        self._lifetime.check()
        return drive(steps, partial(transport.send, self.adapter))


class AsyncServices(_Services[AsyncTransport]):
    """`Services`, async."""

    _asynchronous = True

    async def count_tokens(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        tools: Iterable["Tool | Callable[..., Any] | ToolDefinition"] = (),
    ) -> int:
        steps = await carry_out_async(self._count(prompt, system, tools))
        return await self._drive(steps, self._transport)

    async def upload(
        self, file: str | Path | bytes, *, name: str | None = None, media_type: str | None = None
    ) -> ProviderFile:
        import asyncio

        content = await asyncio.to_thread(read_file, file, name, media_type)
        steps = await carry_out_async(self._upload(content))
        return await self._drive(steps, self._upload_transport())

    async def files(self) -> tuple[ProviderFile, ...]:
        return await self._drive(self._api.files(), self._transport)

    async def delete_file(self, file: ProviderFile | str) -> None:
        await self._drive(self._api.delete_file(_file_id(file)), self._transport)

    async def models(self) -> tuple[ProviderModel, ...]:
        return await self._drive(self._api.models(), self._transport)

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _drive(self, steps: Steps[T], transport: AsyncTransport) -> T:
        self._lifetime.check()
        return await drive_async(steps, partial(transport.send, self.adapter))


def _definitions(tools: Iterable["Tool | Callable[..., Any] | ToolDefinition"]) -> list[ToolDefinition]:
    given = list(tools)
    functions: list[Any] = [each for each in given if not isinstance(each, ToolDefinition)]
    return [*(each for each in given if isinstance(each, ToolDefinition)), *Toolbox(functions).definitions]


def _file_id(file: ProviderFile | str) -> str:
    return file.id if isinstance(file, ProviderFile) else file
