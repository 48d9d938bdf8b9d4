"""A model in this process: loaded once, one generation at a time, run by openvino-genai.

`import openvino` starts its telemetry, which writes an id into the home folder and reports the import to an analytics
server from a forked child, unless the telemetry package cannot be imported; openvino then uses a stub. So that package
is hidden during the import.
"""

import importlib
import json
import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import MALFORMED_ERRORS, ConfigurationError, MissingExtraError
from dragoman.adapter.replies.error_context import malformed_request
from dragoman.canonical.forks import reset_after_fork
from dragoman.canonical.log import get_logger
from dragoman.local.files import context_length, model_file
from dragoman.local.prompt import AllowedOutput, Json, build_prompt
from dragoman.local.reply import CALL_OPEN, CALL_TAIL, LocalRequestError, Splitter, StopFilter, call_head

_OPENINGS = ("<", "[")
"""How special tokens begin, in all vocabularies in use; the check of each takes time."""
_FIRST_MARK, _LAST_MARK = 0xE000, 0xF8FF
"""Characters that Unicode leaves to private use."""


def special_tokens(tokenizer: Any) -> tuple[str, ...]:
    """Return the special tokens of a vocabulary: those that the tokenizer leaves out of decoded text."""
    found: list[str] = []
    for token, number in tokenizer.get_vocab().items():
        text = token.decode("utf-8", "ignore") if isinstance(token, bytes) else token
        if len(text) > 1 and text.startswith(_OPENINGS) and tokenizer.decode([number]) == "":
            found.append(text)
    return tuple(sorted(found))


class SpecialTokenFilter:
    """Splits special tokens in the contents of messages."""

    def __init__(self, tokens: Iterable[str]) -> None:
        # The longest first: one may begin another.
        names = sorted(tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, names))) if names else None

    def protect(self, messages: Sequence[Mapping[str, str]]) -> tuple[list[dict[str, str]], str]:
        """Return the messages with a mark inside each special token, and the mark; it is empty if there are none."""
        texts = [message["content"] for message in messages]
        pattern = self._pattern
        if pattern is None or not any(map(pattern.search, texts)):
            return [dict(message) for message in messages], ""
        used = set().union(*texts)
        mark = next(character for code in range(_FIRST_MARK, _LAST_MARK) if (character := chr(code)) not in used)

        def split(text: str) -> str:
            # Splitting one token may leave another, that begins inside it.
            while pattern.search(text):
                text = pattern.sub(lambda found: found[0][0] + mark + found[0][1:], text)
            return text

        return [{**message, "content": split(message["content"])} for message in messages], mark


PRECISION_VARIABLE = "DRAGOMAN_LOCAL_PRECISION"
"""Selects another precision. If the CPU lacks it, the runtime uses 32-bit floats."""
THREADS_VARIABLE = "DRAGOMAN_LOCAL_THREADS"
"""The number of threads that compute; by default the runtime decides."""

PRECISIONS = ("f32", "bf16", "f16")


def runtime_properties(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the properties that a pipeline is made with. Raises ConfigurationError if a variable makes no sense."""
    precision = environ.get(PRECISION_VARIABLE, "").strip() or "f32"
    if precision not in PRECISIONS:
        raise ConfigurationError(f"{PRECISION_VARIABLE} is {precision!r}; use one of {', '.join(PRECISIONS)}")
    properties: dict[str, Any] = {"INFERENCE_PRECISION_HINT": precision}
    if precision == "f32":
        # The precision does not cover 8-bit activations and the 8-bit cache: this turns them off.
        properties["EXECUTION_MODE_HINT"] = "ACCURACY"
    threads = environ.get(THREADS_VARIABLE, "").strip()
    if threads:
        if not threads.isdecimal() or int(threads) == 0:
            raise ConfigurationError(f"{THREADS_VARIABLE} is {threads!r}; it must be a whole number of at least 1")
        properties["INFERENCE_NUM_THREADS"] = int(threads)
    return properties


logger = get_logger("dragoman.transport.local")

DEFAULT_MAX_TOKENS = 512
"""The maximum of output tokens if a request sets no limit: a small model can repeat itself endlessly."""

_TELEMETRY = "openvino_telemetry"
_SOURCE = re.compile(r"^.*\.(?:cpp|cc|hpp|h):\d+:?")
_SAMPLING = ("temperature", "top_p", "top_k")

Emit = Callable[[Json], None]
ShouldContinue = Callable[[], bool]


class LocalModel:
    """One loaded model. Generations run one after the other: they would only share the processor."""

    def __init__(self, path: Path) -> None:
        """Takes seconds, and the size of the file in memory. Raises MissingExtraError and ConfigurationError."""
        properties = runtime_properties()
        self._genai = _import_runtime()
        try:
            self._window = context_length(path)
            self._pipeline = self._genai.LLMPipeline(str(path), "CPU", **properties)
        except (RuntimeError, ValueError, IndexError, KeyError) as error:
            raise ConfigurationError(
                f"{path} cannot be loaded ({_first_line(error)}): the runtime reads GGUF files of the kinds Q4_0, Q4_1,"
                " Q8_0 and F16"
            ) from None
        self._tokenizer = self._pipeline.get_tokenizer()
        self._special_tokens = SpecialTokenFilter(special_tokens(self._tokenizer))
        self._lock = threading.Lock()

    def run(self, body: Json, emit: Emit, should_continue: ShouldContinue, deadline: float) -> None:
        """Serve a request line by line, up to the end line. Stops when ``should_continue`` returns False, or at the
        deadline.

        ``deadline`` is a time of `time.monotonic`. Raises LocalRequestError, also after lines were emitted.
        """
        try:
            model_prompt = build_prompt(body)
        except MALFORMED_ERRORS as error:
            raise malformed_request("local", error) from error
        options = body.get("options") or {}
        try:
            config = self._config(options, model_prompt.allowed)
        except (RuntimeError, TypeError, ValueError) as error:
            raise LocalRequestError(
                "invalid_request", f"the runtime refuses the options: {_first_line(error)}"
            ) from None
        # Before the lock: a prompt that is too long is refused at once, although the model is busy.
        tokens = self._tokens(model_prompt.messages, config)
        if not self._lock.acquire(timeout=max(0.0, min(deadline - time.monotonic(), threading.TIMEOUT_MAX))):
            raise LocalRequestError("timeout", "the model was busy with other requests of this process")
        try:
            if should_continue():
                writer = _LineWriter(body["model"], options.get("stop") or (), model_prompt.allowed, emit)
                self._generate(tokens, config, writer, should_continue, deadline)
        finally:
            self._lock.release()

    def _tokens(self, messages: list[dict[str, str]], config: Any) -> Any:
        contents, mark = self._special_tokens.protect(messages)
        try:
            text = self._tokenizer.apply_chat_template(contents, add_generation_prompt=True)
        except RuntimeError as error:
            raise LocalRequestError(
                "invalid_request", f"the chat template refuses the messages: {_first_line(error)}"
            ) from None
        pieces = text.split(mark) if mark else [text]
        tokens = self._encode(pieces)
        if self._window is not None:
            room = self._window - tokens.shape[1]
            # The tokenizer truncates to the context length, so a prompt that fills it is refused as well.
            if room <= 0:
                raise LocalRequestError(
                    "context_overflow",
                    f"the prompt has {self._count(pieces, self._window)} tokens, and the model's window has room for"
                    f" {self._window - 1}",
                )
            config.max_new_tokens = min(config.max_new_tokens, room)
        return tokens

    def _count(self, pieces: Iterable[str], window: int) -> int:
        """Return the number of tokens of a prompt that fills the window, which the tokenizer would truncate."""
        # A token has at least one byte and a character at most four, so no part is truncated. A part ends before a
        # space, as tokens do.
        size = max(1, window // 4)
        parts = re.compile(rf".{{1,{size}}}(?=\s|\Z)|.{{1,{size}}}", re.DOTALL)
        count: int = sum(self._encode([part]).shape[1] for piece in pieces for part in parts.findall(piece))
        return max(window, count)

    def _encode(self, pieces: list[str]) -> Any:
        """Return the tokens of a prompt; no token spans two pieces."""
        encoded = [self._tokenizer.encode(piece, add_special_tokens=False).input_ids for piece in pieces]
        if len(encoded) == 1:
            return encoded[0]
        numpy, openvino = importlib.import_module("numpy"), importlib.import_module("openvino")
        return openvino.Tensor(numpy.concatenate([each.data for each in encoded], axis=1))

    def _generate(
        self, tokens: Any, config: Any, writer: "_LineWriter", should_continue: ShouldContinue, deadline: float
    ) -> None:
        status = self._genai.StreamingStatus
        is_late = False
        failure: Exception | None = None

        def on_text(piece: str) -> Any:
            nonlocal is_late, failure
            is_late = time.monotonic() > deadline
            if is_late or failure or not should_continue():
                return status.CANCEL
            try:
                writer.feed(piece)
            except Exception as error:  # the runtime would print it and continue
                failure = error
            return status.RUNNING

        try:
            result = self._pipeline.generate(tokens, config, on_text)
        except RuntimeError as error:
            kind = "invalid_request" if "grammar" in str(error) or "schema" in str(error) else "runtime"
            raise LocalRequestError(kind, f"the runtime refuses the request: {_first_line(error)}") from None
        if failure is not None:
            raise failure
        if is_late:
            raise LocalRequestError("timeout", "the reply was not complete in time")
        if should_continue():
            counts = result.perf_metrics
            cut = result.finish_reasons[0] == self._genai.GenerationFinishReason.LENGTH
            writer.finish(counts.get_num_input_tokens(), counts.get_num_generated_tokens(), cut=cut)

    def _config(self, options: Json, allowed: AllowedOutput) -> Any:
        config = self._pipeline.get_generation_config()
        config.apply_chat_template = False
        config.max_new_tokens = options.get("max_tokens", DEFAULT_MAX_TOKENS)
        temperature, seed = options.get("temperature"), options.get("seed")
        # A temperature other than 0 enables sampling; without one, top_p and top_k do.
        if temperature is None:
            config.do_sample = options.get("top_p") is not None or options.get("top_k") is not None
        else:
            config.do_sample = bool(temperature != 0)
        if config.do_sample:
            for name in _SAMPLING:
                if options.get(name) is not None:
                    setattr(config, name, options[name])
            if not (seed is None or (isinstance(seed, int) and 0 <= seed < 1 << 64)):
                raise ValueError("a seed must be a whole number of at least 0")
            # The runtime's own seed is the same in every process, so a request without a seed gets a random one.
            config.rng_seed = random.getrandbits(32) if seed is None else seed
        if options.get("stop"):
            config.stop_strings = set(options["stop"])
            config.include_stop_str_in_output = True
        constraint = self._constraint(allowed)
        if constraint is not None:
            config.structured_output_config = self._genai.StructuredOutputConfig(structural_tags_config=constraint)
        config.validate()
        return config

    def _constraint(self, allowed: AllowedOutput) -> Any:
        """Return the grammar of the allowed output; None if any text is allowed."""
        formats = self._genai.StructuredOutputConfig
        schema = None if allowed.schema is None else formats.JSONSchema(json.dumps(allowed.schema))
        if not allowed.calls:
            return schema
        tags = [
            formats.Tag(call_head(tool["name"]), formats.JSONSchema(json.dumps(tool["parameters"])), CALL_TAIL)
            for tool in allowed.calls
        ]
        if allowed.text and schema is not None:
            # The runtime has no alternative between a finished text and an open list of calls: one call only.
            return formats.Union(schema, *tags)
        single = not allowed.parallel
        if allowed.text:
            return formats.TriggeredTags([CALL_OPEN], tags, at_least_one=False, stop_after_first=single)
        return formats.TagsWithSeparator(tags, "\n", at_least_one=True, stop_after_first=single)


class _LineWriter:
    """Turns the model's text into lines."""

    def __init__(self, name: str, stops: Iterable[str], allowed: AllowedOutput, emit: Emit) -> None:
        self._name = name
        self._stops = StopFilter(stops)
        self._splitter = Splitter(calls=bool(allowed.calls))
        self._emit = emit
        self._started = False

    def feed(self, piece: str) -> None:
        self._emit_all(self._splitter.feed(self._stops.feed(piece)))

    def finish(self, input_tokens: int, output_tokens: int, *, cut: bool) -> None:
        self._emit_all(self._splitter.feed(self._stops.finish()))
        self._emit_all(self._splitter.finish())
        stop = "tool_use" if self._splitter.call_count else "end_turn"
        if self._stops.is_stopped:
            stop = "stop_sequence"
        elif cut:
            stop = "max_tokens"
        usage = {"input_tokens": input_tokens, "output_tokens": output_tokens}
        self._emit_all([{"type": "end", "stop": stop, "usage": usage}])

    def _emit_all(self, lines: list[Json]) -> None:
        if lines and not self._started:
            self._started = True
            self._emit({"type": "start", "model": self._name})
        for line in lines:
            self._emit(line)


class _Models:
    """The models that this process has loaded. A forked child loads its own: it has not the runtime's threads."""

    def __init__(self) -> None:
        self._paths: dict[str, Path] = {}
        self._loaded: dict[Path, LocalModel] = {}
        self._loading = threading.Lock()
        self._inherited: list[dict[Path, LocalModel]] = []
        reset_after_fork(self)

    def after_fork(self) -> None:
        self._inherited.append(self._loaded)  # ending them would wait for threads that do not exist
        self._loaded, self._loading = {}, threading.Lock()

    def get(self, name: str, notify: Callable[[str], None]) -> LocalModel:
        with self._loading:
            if name not in self._paths:
                self._paths[name] = model_file(name).resolve()
            path = self._paths[name]
            if path not in self._loaded:
                notify(f"loading {name}, which takes a few seconds")
                started_at = time.monotonic()
                self._loaded[path] = LocalModel(path)
                logger.info("loaded %s in %.1f s", name, time.monotonic() - started_at)
            return self._loaded[path]


_models = _Models()


def get_model(name: str, notify: Callable[[str], None]) -> LocalModel:
    """Return the model of that name, loaded at the first call in this process. ``notify`` is called before the loading.

    Raises MissingExtraError, NotFoundError and ConfigurationError.
    """
    return _models.get(name, notify)


def _import_runtime() -> Any:
    """Import the runtime without its telemetry, unless the program has imported that already: then it wants it."""
    is_hidden = _TELEMETRY not in sys.modules
    if is_hidden:
        sys.modules[_TELEMETRY] = None  # type: ignore[assignment]
    try:
        return importlib.import_module("openvino_genai")
    except ImportError as error:
        raise MissingExtraError(
            f"local models need an extra: pip install 'dragoman[local]' ({_first_line(error)})"
        ) from None
    finally:
        if is_hidden:
            del sys.modules[_TELEMETRY]


def _first_line(error: Exception) -> str:
    """Return the first line of an error's text; the runtime's messages include source locations and run for pages."""
    messages = (_SOURCE.sub("", line).strip() for line in str(error).splitlines())
    return next(filter(None, messages), type(error).__name__)[:200]
