"""Services of providers beside the conversation: exact token counts, stored files, the models that they list."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.losses import Loss, log_losses
from dragoman.adapter.operations.service_api import FileContent, ProviderFile, ProviderModel, ServiceApi
from dragoman.adapter.registry import get_adapter
from dragoman.attempt.governance import Governance, read_call_settings
from dragoman.canonical.blocks import ContentBlock, DocumentBlock, ImageBlock, MediaSource, TextBlock
from dragoman.canonical.extensions.message_labels import labels_of_messages
from dragoman.canonical.ids import new_session_id
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman.effects import Work, drive, drive_async, in_thread
from dragoman.session.judge import Judge
from dragoman.session.judge import Prompt as JudgedPrompt
from dragoman.session.media import media_type_of
from dragoman.tools.tool import Tool
from dragoman.tools.toolbox import Toolbox
from dragoman.transport.settings import Providers, seal_keys

__all__ = ["AsyncServices", "ProviderFile", "ProviderModel", "Services"]

UNKNOWN_TYPE = "application/octet-stream"

Prompt = str | Message | Iterable[Message]


def to_messages(prompt: Prompt, system: str | None) -> tuple[Message, ...]:
    """Return the messages to count. Raises RequestError if there are none."""
    if isinstance(prompt, str):
        prompt = Message.user(prompt)
    messages: Sequence[Message] = (prompt,) if isinstance(prompt, Message) else tuple(prompt)
    if not messages or not all(isinstance(each, Message) for each in messages):
        raise RequestError("a count needs a text, a Message, or a list of at least one Message")
    instructions = () if system is None else (Message(role=Role.SYSTEM, content=system),)
    return (*instructions, *messages)


def read_file(file: str | Path | bytes, name: str | None, media_type: str | None) -> FileContent:
    """Return the content of a file, from its path or its bytes.

    Raises RequestError for a path that is not a readable file, and for bytes without a name.
    """
    if isinstance(file, bytes):
        if name is None:
            raise RequestError("bytes have no name: pass name='report.pdf'")
        data = file
    else:
        path = Path(file)
        if not path.is_file():  # a device may be endless
            raise RequestError(f"{path} is not a file that can be uploaded")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise RequestError(f"{path} cannot be read: {error.strerror}") from None
        name = path.name if name is None else name
    return FileContent(name, media_type or media_type_of(name) or UNKNOWN_TYPE, data)


def to_block(file: FileContent) -> ContentBlock:
    """Return the file as content that a policy can judge: text is readable."""
    kind = file.media_type.partition("/")[0]
    if kind == "text" or file.media_type == "application/json":
        return TextBlock(text=file.data.decode("utf-8", "replace"))
    import base64

    source = MediaSource(kind="base64", data=base64.b64encode(file.data).decode("ascii"))
    if kind == "image":
        return ImageBlock(source=source, media_type=file.media_type)
    return DocumentBlock(source=source, media_type=file.media_type, title=file.name)


def apply_judgement(file: FileContent, before: ContentBlock, judged: Sequence[Message]) -> FileContent:
    """Return the file as a policy leaves it. Raises RequestError if it is not text any more."""
    content = judged[-1].content if judged else ()
    if content == (before,):
        return file
    if isinstance(before, TextBlock) and all(isinstance(block, TextBlock) for block in content):
        return file._replace(data="".join(getattr(block, "text", "") for block in content).encode())
    raise RequestError(f"{file.name}: the policy changed the file in a way that cannot be uploaded")


class _Services:
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
        """The adapter of the model."""
        config, own = read_call_settings(self.adapter.provider, client, providers, settings)
        if self.adapter.services is None:
            raise ConfigurationError(f"{self.adapter.model_id}: its adapter supports no services")
        self._api: ServiceApi = self.adapter.services
        self.losses: tuple[Loss, ...] = ()
        """What the request that was counted last could not hold."""
        self._options = options or config.options or AdapterOptions()
        transports = config.new_transports(own, asynchronous=self._asynchronous)
        self._governance = Governance(config, self.adapter, transports)
        if not self._asynchronous:
            self._governance.check_coroutines("AsyncServices")
        self._judge = Judge(config, self.adapter, self._governance.reports)

    @property
    def offers(self) -> frozenset[str]:
        """The services that the provider has: ``count_tokens``, ``files``, ``models``."""
        return self._api.offers

    def _count(
        self, prompt: Prompt, system: str | None, tools: Iterable["Tool | Callable[..., Any] | ToolDefinition"]
    ) -> Work[int]:
        self._governance.client.lifetime.check()
        given = list(tools)
        functions: list[Any] = [each for each in given if not isinstance(each, ToolDefinition)]
        definitions = [each for each in given if isinstance(each, ToolDefinition)]
        definitions += Toolbox(functions).definitions
        request = yield from self._judged(to_messages(prompt, system), definitions)
        context = RequestContext.for_model(str(self.adapter.model_id), prices=None)
        options = replace(request.options, stream=False, context=context)
        wire = self.adapter.to_wire(request.messages, request.tools, options)
        log_losses(wire.losses, session_id=context.session_id, adapter=self.adapter.provider)
        self.losses = wire.losses
        return (yield from self._governance.run(self._api.count_tokens(wire)))

    def _upload(self, source: str | Path | bytes, name: str | None, media_type: str | None) -> Work[ProviderFile]:
        self._governance.client.lifetime.check()
        file: FileContent = yield in_thread(read_file, source, name, media_type)
        if self._governance.client.policy is not None or self._governance.client.router is not None:
            block = to_block(file)
            judged = yield from self._judged((Message.user([block]),), ())
            file = apply_judgement(file, block, judged.messages)
        # A second attempt could store a second file.
        return (yield from self._governance.run(self._api.upload(file), once=True))

    def _judged(self, messages: tuple[Message, ...], tools: Iterable[ToolDefinition]) -> Work[JudgedPrompt]:
        """Return what may be sent. Raises PolicyDeniedError."""
        return self._judge.prompt(
            JudgedPrompt(
                session_id=new_session_id(),
                messages=messages,
                tools=tuple(tools),
                options=self._options,
                labels=labels_of_messages(messages),
            )
        )


class Services(_Services):
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
        return drive(self._count(prompt, system, tools))

    def upload(
        self, file: str | Path | bytes, *, name: str | None = None, media_type: str | None = None
    ) -> ProviderFile:
        """Store a file with the provider; its ``block`` is content for messages to the same provider.

        ``file`` is a path, or the bytes of a file with a ``name``; it is read into memory. The media type follows from
        the name's ending if it is None. After a NetworkError the file may exist: `files` lists it.
        """
        return drive(self._upload(file, name, media_type))

    def files(self) -> tuple[ProviderFile, ...]:
        """Return all files that the key may see."""
        return drive(self._governance.run(self._api.files()))

    def delete_file(self, file: ProviderFile | str) -> None:
        """Delete a file, given by its id."""
        drive(self._governance.run(self._api.delete_file(_file_id(file))))

    def models(self) -> tuple[ProviderModel, ...]:
        """Return the models that the provider lists now."""
        return drive(self._governance.run(self._api.models()))

    def close(self) -> None:
        """Release the connections."""
        drive(self._governance.transports.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncServices(_Services):
    """`Services`, async."""

    _asynchronous = True

    async def count_tokens(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        tools: Iterable["Tool | Callable[..., Any] | ToolDefinition"] = (),
    ) -> int:
        """Await `Services.count_tokens`."""
        return await drive_async(self._count(prompt, system, tools))

    async def upload(
        self, file: str | Path | bytes, *, name: str | None = None, media_type: str | None = None
    ) -> ProviderFile:
        """Await `Services.upload`."""
        return await drive_async(self._upload(file, name, media_type))

    async def files(self) -> tuple[ProviderFile, ...]:
        """Await `Services.files`."""
        return await drive_async(self._governance.run(self._api.files()))

    async def delete_file(self, file: ProviderFile | str) -> None:
        """Await `Services.delete_file`."""
        await drive_async(self._governance.run(self._api.delete_file(_file_id(file))))

    async def models(self) -> tuple[ProviderModel, ...]:
        """Await `Services.models`."""
        return await drive_async(self._governance.run(self._api.models()))

    async def close(self) -> None:
        """Await `Services.close`."""
        await drive_async(self._governance.transports.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _file_id(file: ProviderFile | str) -> str:
    return file.id if isinstance(file, ProviderFile) else file
