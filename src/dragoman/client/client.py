"""Client: one place for the settings of all sessions, questions, bulk runs and batches of a program."""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from typing_extensions import TypeForm

from dragoman.client.shared import ClientBase
from dragoman.configuration.session_store import SessionStore
from dragoman.session import Reply, ReplyStream, Session
from dragoman.session.config import (
    NewSessionSettings,
    OutputT,
    QuestionSettings,
    SessionSettings,
    UserInput,
    split_question,
)
from dragoman.transport import close_idle_connections

if TYPE_CHECKING:  # bulk runs, batches, embeddings and services are loaded when they are first used
    from dragoman.batch import Batches
    from dragoman.bulk import BulkReport, BulkSettings
    from dragoman.bulk.rows import Prompts
    from dragoman.embeddings import EmbeddingInput, Embeddings, Purpose, Truncate
    from dragoman.services import Services


class Client(ClientBase):
    """The settings of a program, and the connections that all its sessions share.

        client = Client(store=Store("sqlite:///chats.db"), budgets=[Budget(usd=5)])
        with client.session("anthropic:claude-opus-5-5") as session:
            print(session.ask("Hello!"))

    Policy, limits, budgets, events and store hold for everything that the client does, and a session cannot replace
    them. One client may serve several threads.
    """

    def session(self, model: str | None = None, **settings: Unpack[NewSessionSettings]) -> Session:
        """Return a new session; ``settings`` are those of `Session`.

        Raises ConfigurationError if one of them contradicts the client, or if the client is closed.
        """
        settings = self._own(settings)
        return Session(model, **settings)

    def resume(
        self,
        session_id: str,
        store: SessionStore | None = None,
        *,
        model: str | None = None,
        **settings: Unpack[SessionSettings],
    ) -> Session:
        """Return a stored session, by default of the client's store; see `Session.resume`."""
        settings = self._own(settings)
        return Session.resume(session_id, self._store(store), model=model, **settings)

    def load(self, data: bytes | str, *, model: str | None = None, **settings: Unpack[SessionSettings]) -> Session:
        """Return the session of a `Session.dump`; see `Session.load`."""
        settings = self._own(settings)
        return Session.load(data, model=model, **settings)

    @overload
    def ask(
        self, model: str | None, prompt: UserInput | None = None, **settings: Unpack[QuestionSettings]
    ) -> Reply[str]: ...

    @overload
    def ask(
        self,
        model: str | None,
        prompt: UserInput | None = None,
        *,
        output: TypeForm[OutputT],
        **settings: Unpack[QuestionSettings],
    ) -> Reply[OutputT]: ...

    def ask(
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
        with Session(model, **given) as session:
            return session.ask(prompt, output=output, **options)

    @overload
    def stream(
        self, model: str | None, prompt: UserInput | None = None, **settings: Unpack[QuestionSettings]
    ) -> ReplyStream[str]: ...

    @overload
    def stream(
        self,
        model: str | None,
        prompt: UserInput | None = None,
        *,
        output: TypeForm[OutputT],
        **settings: Unpack[QuestionSettings],
    ) -> ReplyStream[OutputT]: ...

    def stream(
        self,
        model: str | None,
        prompt: UserInput | None = None,
        *,
        output: Any = None,
        **settings: Unpack[QuestionSettings],
    ) -> ReplyStream[Any]:
        """Return the answer to one question as a stream, in a session of its own."""
        settings = self._own(settings)
        given, options = split_question(model, settings)
        return Session(model, **given).stream(prompt, output=output, **options)

    def bulk(self, prompts: "Prompts", model: str | Sequence[str], **settings: Unpack["BulkSettings"]) -> "BulkReport":
        """Run many prompts under the settings of the client; see `dragoman.bulk.bulk`. It needs ``dragoman[store]``."""
        from dragoman.bulk import bulk

        settings = self._own(settings)
        return bulk(prompts, model, **settings)

    def batches(self, model: str, **settings: Any) -> "Batches":
        """Return the batches of a model, under the settings of the client; see `dragoman.batch.Batches`."""
        from dragoman.batch import Batches

        settings = self._own(settings)
        return Batches(model, **settings)

    def embed(
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
        from dragoman.embeddings import embed

        settings = self._own(settings)
        with self._count_embeddings(settings.get("resume")) as count:
            return count(embed(model, inputs, dimensions=dimensions, purpose=purpose, truncate=truncate, **settings))

    def services(self, model: str, **settings: Any) -> "Services":
        """Return the services of a model's provider, under the settings of the client: token counts, files, models;
        see `dragoman.services.Services`."""
        from dragoman.services import Services

        settings = self._own(settings)
        return Services(model, **settings)

    def close(self) -> None:
        """Close the client and its idle connections. Its sessions cannot ask any more, and stay readable."""
        self._config.lifetime.end()
        close_idle_connections()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
