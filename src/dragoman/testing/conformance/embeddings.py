"""The kit for embedding adapters, as a test class with one test for each law."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, MalformedReplyError, ProviderError, RequestError
from dragoman.adapter.operations.embeddings import EmbeddingAdapter, EmbeddingOptions, plan_requests
from dragoman.adapter.registry import adapter_class
from dragoman.adapter.wire import WireResponse
from dragoman.testing.conformance.subject import parse_body

_TEXTS = ("first text", 'second "text" ß', "third 文本")
_PLAIN = EmbeddingOptions()


class EmbeddingConformance:
    """Base class of a suite: name the adapter and its models, and write `reply`; pytest runs every law on each model::

        class TestAcme(EmbeddingConformance):
            adapter = AcmeAdapter
            models = ("acme-embed",)

            def reply(self, vectors, tokens):
                data = {"vectors": vectors, "tokens": tokens}
                return WireResponse(200, json.dumps(data).encode())

    ``adapter`` is the class or its registered name. A law that does not apply to a model is skipped.
    """

    adapter: ClassVar[type[Adapter] | str]
    models: ClassVar[tuple[str, ...]] = ()
    """The names of the models to test, without the provider."""

    def reply(self, vectors: Sequence[Sequence[float]], tokens: int) -> WireResponse:
        """Return what the provider answers with these vectors, which cost these tokens."""
        raise NotImplementedError

    @classmethod
    def subject(cls, model: str) -> EmbeddingAdapter:
        """Return the embedding adapter of a model. Raises ConfigurationError if there is none."""
        kind = adapter_class(cls.adapter) if isinstance(cls.adapter, str) else cls.adapter
        found = kind(model).embeddings
        if found is None:
            raise ConfigurationError(f"{cls.__name__}: the adapter has no embeddings")
        return found

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Parametrize each test by the model."""
        if "subject" in metafunc.fixturenames:
            cls = type(self)
            if not cls.models:
                raise ConfigurationError(f"{cls.__name__} has nothing to test: set `models`")
            metafunc.parametrize("subject", [cls.subject(model) for model in cls.models], ids=cls.models)

    def test_the_facts_agree_with_each_other(self, subject: EmbeddingAdapter) -> None:
        """A model accepts its own dimensions, and each declaration can be read without contradiction."""
        facts = subject.capabilities
        if facts.dimensions is not None:
            assert facts.accepts_dimensions(facts.dimensions)
        assert all(facts.accepts_dimensions(each) for each in facts.dimension_choices)
        assert not facts.purposes.keys() & facts.prefixes.keys()
        assert facts.default_purpose is None or facts.default_purpose in facts.purposes

    def test_the_same_inputs_give_the_same_bytes(self, subject: EmbeddingAdapter) -> None:
        """A request depends on its inputs and options alone."""
        texts = _texts(subject)
        requests = [self.subject(subject.model).to_wire(texts, _PLAIN) for _ in range(2)]
        assert requests[0] == requests[1]
        assert requests[0].path.startswith("/")
        assert requests[0].method == "POST"

    def test_every_text_is_sent_in_its_place(self, subject: EmbeddingAdapter) -> None:
        """The body holds each text once, unchanged, in the order of the inputs."""
        texts = _texts(subject)
        found = [each for each in _values(parse_body(subject.to_wire(texts, _PLAIN).body)) if each in texts]
        assert found == list(texts)

    def test_dimensions_reach_the_wire(self, subject: EmbeddingAdapter) -> None:
        """Another length changes the request; a length that the model does not have is refused."""
        import pytest

        facts = subject.capabilities
        if not facts.can_shorten:
            pytest.skip("the model has one length")
        shorter = facts.dimension_choices[0] if facts.dimension_choices else (facts.dimension_range or (1, 1))[0]
        request = subject.to_wire(_texts(subject)[:1], EmbeddingOptions(dimensions=shorter))
        assert shorter in _values(parse_body(request.body))
        with pytest.raises(RequestError):
            subject.to_wire(_texts(subject)[:1], EmbeddingOptions(dimensions=10**9))

    def test_purposes_differ_or_are_a_loss(self, subject: EmbeddingAdapter) -> None:
        """A purpose that the model distinguishes changes the request; any other purpose is reported."""
        query, document = (
            subject.to_wire(_texts(subject)[:1], EmbeddingOptions(purpose=purpose)) for purpose in ("query", "document")
        )
        facts = subject.capabilities
        assert bool(query.losses) == ("query" not in {**facts.purposes, **facts.prefixes})
        assert bool(document.losses) == ("document" not in {**facts.purposes, **facts.prefixes})
        assert (query.body == document.body) == bool(query.losses and document.losses)

    def test_cutting_is_asked_for_only_if_wanted(self, subject: EmbeddingAdapter) -> None:
        """If the provider cuts inputs, the request says whether it may."""
        texts = _texts(subject)[:1]
        plain = subject.to_wire(texts, _PLAIN)
        for each in subject.capabilities.truncates:
            assert subject.to_wire(texts, EmbeddingOptions(truncate=each)).body != plain.body

    def test_fields_of_the_caller_win(self, subject: EmbeddingAdapter) -> None:
        """An extra field is in the body, and the value ``...`` removes one."""
        texts = _texts(subject)[:1]
        body = parse_body(subject.to_wire(texts, EmbeddingOptions(extra={"x_unknown": {"a": 1}})).body)
        assert body.pop("x_unknown") == {"a": 1}
        name = next(iter(body))
        assert name not in parse_body(subject.to_wire(texts, EmbeddingOptions(extra={name: ...})).body)

    def test_vectors_come_back_in_order(self, subject: EmbeddingAdapter) -> None:
        """One vector for each input, as 32-bit floats, with the tokens."""
        texts = _texts(subject)
        reply = subject.from_wire_response(self.reply(_vectors(subject, texts), 30), texts, _PLAIN)
        assert [list(each) for each in reply.vectors] == _vectors(subject, texts)
        assert {each.typecode for each in reply.vectors} == {"f"}
        assert reply.usage is None or reply.usage.input_tokens in (30, 30 * len(texts))

    def test_bad_vectors_are_refused(self, subject: EmbeddingAdapter) -> None:
        """Too few vectors, another length than asked for, an empty one, and infinity are each a MalformedReplyError."""
        import pytest

        texts = _texts(subject)
        good = _vectors(subject, texts)
        bad: list[list[list[float]]] = [[], [*good, good[0]], [*good[:-1], []], [*good[:-1], [1e300, *good[-1][1:]]]]
        bad.append([*good[:-1], good[-1][:-1]])
        asked = EmbeddingOptions(dimensions=len(good[0]))
        for vectors in bad:
            with pytest.raises(MalformedReplyError):
                subject.from_wire_response(self.reply(vectors, 30), texts, asked)

    def test_a_cut_reply_is_never_a_success(self, subject: EmbeddingAdapter) -> None:
        """A body that ends early, at any of a hundred places, is an error."""
        import pytest

        texts = _texts(subject)
        whole = self.reply(_vectors(subject, texts), 30)
        for cut in range(0, len(whole.body), max(1, len(whole.body) // 100)):
            with pytest.raises(MalformedReplyError):
                subject.from_wire_response(WireResponse(200, whole.body[:cut], whole.headers), texts, _PLAIN)

    def test_a_failure_is_an_error_of_the_provider(self, subject: EmbeddingAdapter) -> None:
        """Whatever the body of a failed reply is."""
        import pytest

        for status in (400, 401, 404, 429, 500, 503):
            for body in (b"", b"{}", b'{"error": {"message": "no"}}', b"<html>", b"[]", b'"no"', b"null"):
                with pytest.raises(ProviderError) as raised:
                    subject.from_wire_response(WireResponse(status, body), _texts(subject), _PLAIN)
                assert raised.value.status == status

    def test_requests_keep_within_the_limits(self, subject: EmbeddingAdapter) -> None:
        """Many inputs are split, each of them is in one request, and none is missing."""
        facts = subject.capabilities
        many = [f"text {number}" for number in range(2 * facts.max_inputs + 1)]
        plan = plan_requests(subject, many, _PLAIN)
        assert [number for request in plan.requests for number in request] == list(range(len(many)))
        assert max(map(len, plan.requests)) <= facts.max_inputs


def _texts(subject: EmbeddingAdapter) -> tuple[str, ...]:
    return _TEXTS[: subject.capabilities.max_inputs]


def _vectors(subject: EmbeddingAdapter, texts: Sequence[str]) -> list[list[float]]:
    length = subject.capabilities.dimensions or 4
    return [[float(number + 1), *[0.5] * (length - 1)] for number in range(len(texts))]


def _values(value: Any) -> list[Any]:
    """Return all values at any depth, in order."""
    if isinstance(value, Mapping):
        value = list(value.values())
    return [each for item in value for each in _values(item)] if isinstance(value, list) else [value]
