"""AsyncClient: the async twin of `Client`."""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from typing_extensions import TypeForm

from dragoman.client.shared import ClientBase
from dragoman.configuration.session_store import SessionStore
from dragoman.session import AsyncReplyStream, AsyncSession, Reply
from dragoman.session.config import (
    NewSessionSettings,
    OutputT,
    QuestionSettings,
    SessionSettings,
    UserInput,
    split_question,
)
from dragoman.transport import close_idle_connections_async

if TYPE_CHECKING:  # bulk runs, batches, embeddings and services are loaded when they are first used
    from dragoman.batch import AsyncBatches
    from dragoman.bulk import BulkReport, BulkSettings
    from dragoman.bulk.rows import Prompts
    from dragoman.embeddings import EmbeddingInput, Embeddings, Purpose, Truncate
    from dragoman.services import AsyncServices


class AsyncClient(ClientBase):
    """The async twin of `Client`. One client may serve several event loops.

    client = AsyncClient(budgets=[Budget(usd=5)])
    async with client.session("anthropic:claude-opus-5-5") as session:
        print(await session.ask("Hello!"))
    """

    def session(self, model: str | None = None, **settings: Unpack[NewSessionSettings]) -> AsyncSession:
        """Return a new session; ``settings`` are those of `AsyncSession`.

        Raises ConfigurationError if one of them contradicts the client, or if the client is closed.
        """
        settings = self._own(settings)
        return AsyncSession(model, **settings)

    async def resume(
        self,
        session_id: str,
        store: SessionStore | None = None,
        *,
        model: str | None = None,
        **settings: Unpack[SessionSettings],
    ) -> AsyncSession:
        """Return a stored session, by default of the client's store; see `AsyncSession.resume`."""
        settings = self._own(settings)
        return await AsyncSession.resume(session_id, self._store(store), model=model, **settings)

    def load(self, data: bytes | str, *, model: str | None = None, **settings: Unpack[SessionSettings]) -> AsyncSession:
        """Return the session of a `Session.dump`; see `Session.load`."""
        settings = self._own(settings)
        return AsyncSession.load(data, model=model, **settings)

    @overload
    async def ask(
        self, model: str | None, prompt: UserInput | None = None, **settings: Unpack[QuestionSettings]
    ) -> Reply[str]: ...

    @overload
    async def ask(
        self,
        model: str | None,
        prompt: UserInput | None = None,
        *,
        output: TypeForm[OutputT],
        **settings: Unpack[QuestionSettings],
    ) -> Reply[OutputT]: ...

    async def ask(
        self,
        model: str | None,
        prompt: UserInput | None = None,
        *,
        output: Any = None,
        **settings: Unpack[QuestionSettings],
    ) -> Reply[Any]:
        """Return the answer to one question, in a session of its own. The arguments are those of `dragoman.ask`."""
        settings = self._own(settings)
        given, options = split_question(model, settings)
        async with AsyncSession(model, **given) as session:
            return await session.ask(prompt, output=output, **options)

    @overload
    def stream(
        self, model: str | None, prompt: UserInput | None = None, **settings: Unpack[QuestionSettings]
    ) -> AsyncReplyStream[str]: ...

    @overload
    def stream(
        self,
        model: str | None,
        prompt: UserInput | None = None,
        *,
        output: TypeForm[OutputT],
        **settings: Unpack[QuestionSettings],
    ) -> AsyncReplyStream[OutputT]: ...

    def stream(
        self,
        model: str | None,
        prompt: UserInput | None = None,
        *,
        output: Any = None,
        **settings: Unpack[QuestionSettings],
    ) -> AsyncReplyStream[Any]:
        """Return the answer to one question as a stream, in a session of its own."""
        settings = self._own(settings)
        given, options = split_question(model, settings)
        return AsyncSession(model, **given).stream(prompt, output=output, **options)

    async def bulk(
        self, prompts: "Prompts", model: str | Sequence[str], **settings: Unpack["BulkSettings"]
    ) -> "BulkReport":
        """Run many prompts under the settings of the client; see `dragoman.bulk.bulk`. It needs ``dragoman[store]``."""
        from dragoman.bulk import bulk_async

        settings = self._own(settings)
        return await bulk_async(prompts, model, **settings)

    def batches(self, model: str, **settings: Any) -> "AsyncBatches":
        """Return the batches of a model, under the settings of the client; see `dragoman.batch.AsyncBatches`."""
        from dragoman.batch import AsyncBatches

        settings = self._own(settings)
        return AsyncBatches(model, **settings)

    async def embed(
        self,
        model: str,
        inputs: "Sequence[EmbeddingInput] | EmbeddingInput",
        *,
        dimensions: int | None = None,
        purpose: "Purpose | None" = None,
        truncate: "Truncate | None" = None,
        **settings: Any,
    ) -> "Embeddings":
        """Return one vector for each text or image, under the settings of the client; see
        `dragoman.embeddings.embed`."""
        from dragoman.embeddings import embed_async

        settings = self._own(settings)
        with self._count_embeddings(settings.get("resume")) as count:
            return count(
                await embed_async(model, inputs, dimensions=dimensions, purpose=purpose, truncate=truncate, **settings)
            )

    def services(self, model: str, **settings: Any) -> "AsyncServices":
        """Return the services of a model's provider, under the settings of the client: token counts, files, models;
        see `dragoman.services.AsyncServices`."""
        from dragoman.services import AsyncServices

        settings = self._own(settings)
        return AsyncServices(model, **settings)

    async def close(self) -> None:
        """Close the client and its idle connections. Its sessions cannot ask any more, and stay readable."""
        self._config.lifetime.end()
        await close_idle_connections_async()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
