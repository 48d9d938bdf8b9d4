"""One question, in a session of its own."""

from typing import Any, Unpack, overload

from typing_extensions import TypeForm

from dragoman.session.config import OutputT, QuestionSettings, UserInput, split_question
from dragoman.session.reply import Reply
from dragoman.session.session import Session
from dragoman.transport.settings import seal_keys


@overload
def ask(model: str | None, prompt: UserInput | None = None, **settings: Unpack[QuestionSettings]) -> Reply[str]: ...


@overload
def ask(
    model: str | None,
    prompt: UserInput | None = None,
    *,
    output: TypeForm[OutputT],
    **settings: Unpack[QuestionSettings],
) -> Reply[OutputT]: ...


def ask(
    model: str | None, prompt: UserInput | None = None, *, output: Any = None, **settings: Unpack[QuestionSettings]
) -> Reply[Any]:
    """Return the answer to one question, in a new session that is closed afterwards.

    ``settings`` are those of `Session`, such as ``system`` and ``tools``, and the options of its turn, such as
    ``max_output_tokens``. ``output`` is as in `Session.ask`. Without a prompt, ``messages`` end with what the model
    answers. Raises ConfigurationError, and what `Session.ask` raises.

    Args:
        max_output_tokens: The most tokens of a reply, reasoning included.
        temperature: How random the choice of each token is: from 0, the least, up to 1 or 2, by provider.
        top_p: Choose among the most likely tokens only: those that together have this probability.
        top_k: Choose among this many of the most likely tokens.
        frequency_penalty: Makes tokens less likely the more often they occurred, usually from -2 to 2.
        presence_penalty: Makes tokens less likely that occurred at all, usually from -2 to 2.
        seed: Makes replies repeatable, as far as the provider can.
        stop_sequences: Texts that end the reply when the model writes one of them.

        tool_choice: Whether the model may call tools, must not or must; a `NamedTool` must be called.
        parallel_tool_calls: Whether one reply may call several tools.
        output_schema: A JSON Schema that the answer's text obeys.

        effort: Reasoning effort: none, minimal, low, medium, high, xhigh or max.
        thinking: Whether to reason, and to return the reasoning if the model hides it by default.
        thinking_budget: The limit of reasoning tokens, for models that accept a budget.

        prompt_cache: Request prompt caching with that lifetime, if caching is not automatic.
        service_tier: How fast and at which price to serve: auto, standard, flex or priority, or a word of the
            provider's own.
        verbosity: How long the answer should be.
        reasoning_summary: How much of the reasoning to return as a summary: auto, concise or detailed.

        user: An id of your end user by which a provider recognises abuse.
        metadata: Labels that the provider stores with the request, such as for its bill.
        safety: How much the provider's own filter of harmful content blocks.
        logprobs: Return the log probability of each token of the answer, and of this many alternatives to it.

        server_state: Continue the history that the provider stores, and send only what is new.
        background: Let the provider work on the reply without an open connection, and ask for it until it has ended.
        n: How many answers to the same prompt to return: the first one is the message, the others are its
            `alternatives`.
        num_ctx: The context window that a local server reserves, in tokens.
        keep_alive: How long a local server keeps the model in memory, such as ``10m``, or seconds.

        strict_prefix: Raise ProjectionError for a request that would void signed thinking of earlier turns.
        headers: Headers by provider name.
        extra: Body fields by provider name; no other provider receives them.

        output_retries: How often a model is asked again if its answer is not of the requested type, by default once.
        partial_strings: Whether a stream shows the strings of a typed answer as they arrive, and not only at their end.

        system: The system prompt, which precedes ``messages``.
        messages: A history to continue.
        session_id: The id of the session; by default a new one.
        tool_ids: The ids that tool calls of the history have at each provider.
        store: Saves each step of a turn when it happens.

        tools: What the model may call: functions, `Tool` objects and tools of `dragoman.server_tools`.
        context: The value that tools with a `Context` receive.
        max_parallel_tools: The most calls of tools that run at the same time, at least 1.

        options: The options of every turn that does not override them.
        client: The client of the session, whose settings hold here too; by default the one of `set_default_client`, if
            any.
        providers: The settings of each provider, such as its key; see `ProviderSettings`.

        workspace: The folder with the media of the kind ``file_ref``.
        fetch: Fetches media if the model does not accept their URLs, once for each URL.
        approve: Decides before each call of a tool.
        max_rounds: The rounds of tools in one turn, at least 1.

        budgets: Limits on what the session may spend, checked before each request.
        limits: Delay each request until it may start (see `dragoman.limits`).
        router: Chooses the model of each turn, and a fallback if one fails before the caller receives anything.
        events: Receives the events of each turn.

        policy: Its plugins see what goes in and out of models, tools, prompts and resources, and may change or deny it.
        extensions: The program's facts for the plugins, such as the user.
        labels: Security labels of the data that the session starts with, besides those that its messages carry.
        labels_without_policy: Whether a session with labels is refused if nothing reads them: neither a policy nor a
            router.

        middleware: Wrappers of each turn, the outermost first (see `dragoman.session.middleware`).
        governors: What each attempt needs before it is sent, behind the labels, the budgets and the limits.
        durability: When a turn is saved: each step when it happens, or all of them at its end.
        prices: The price table; None is the bundled one.
        new_id: Creates ids.
        clock: Returns the time, with its zone.

        user_id: The user's id, which is written to each message.
        team_id: The team's id, as ``user_id``.
        pseudonyms: Turns the ids of users and teams into pseudonyms, with a key of the program.

        api_key: The key of the model's provider, or a function that returns it.
        base_url: The address of the model's provider, with its scheme.
    """
    settings = seal_keys(settings)  # type: ignore[assignment]  # the same settings, before anything can fail
    given, options = split_question(model, settings)
    with Session(model, **given) as session:
        return session.ask(prompt, output=output, **options)
