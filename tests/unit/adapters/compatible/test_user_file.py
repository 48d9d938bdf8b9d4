"""A user's own endpoints, from a file or at run time, and the errors of a wrong table."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import Message, get_adapter
from dragoman.adapter import registry
from dragoman.adapter.errors import ConfigurationError, UnknownProviderError
from dragoman.adapter.registry import adapter_class, providers, register_adapter
from dragoman_adapters.compatible import adapter as built
from dragoman_adapters.compatible import register_endpoint
from dragoman_adapters.compatible.adapter import FILE_VARIABLE, user_endpoints
from dragoman_adapters.mistral.adapter import MistralAdapter
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from tests.unit.adapters.openai_chat.wire import encode_request

Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Only the test's own configuration, which does not outlive the test."""
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    monkeypatch.setattr(built, "user_config_path", lambda name: tmp_path / "config" / name)
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_load_sources", lambda: (user_endpoints,))
    adapter_class.cache_clear()
    yield
    adapter_class.cache_clear()


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Write:
    """Writes the file that the environment names."""

    def write_table(text: str) -> Path:
        path = tmp_path / "mine.toml"
        path.write_text(text)
        monkeypatch.setenv(FILE_VARIABLE, str(path))
        return path

    return write_table


TABLE = """
[house]
base_url = "http://gpu-box:8000/v1"
like = "vllm"
key_variables = ["HOUSE_KEY"]

[house.dialect]
max_tokens = "limit"

[house.default]
max_context_tokens = 4096

[[house.model]]
match = "small*"
listed = ["small-1"]
supports_images = "absent"
"""


def test_a_file_adds_an_endpoint(write: Write) -> None:
    """It is found by its name, listed, and has the facts of its table and of the table that it extends."""
    write(TABLE + '\n[other]\nbase_url = "https://other.test"\n')
    assert {"house", "other"} <= set(providers())
    adapter = get_adapter("house:small-1")
    assert (adapter.provider, adapter.endpoint.base_url) == ("house", "http://gpu-box:8000/v1")
    assert (adapter.endpoint.key_variables, adapter.endpoint.key_required) == (("HOUSE_KEY",), False)
    assert adapter.listed_models == ("small-1",)
    assert adapter.capabilities.max_context_tokens == 4096
    assert not adapter.capabilities.supports_images
    assert get_adapter("house:large").capabilities.supports_images
    body, _ = encode_request([Message.user("Hi")], adapter, max_output_tokens=5, top_k=3)
    assert body == {"model": "small-1", "messages": [{"role": "user", "content": "Hi"}], "limit": 5, "top_k": 3}


def test_the_configuration_folder_is_searched(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "dragoman"
    folder.mkdir(parents=True)
    (folder / "endpoints.toml").write_text(TABLE)
    assert get_adapter("house:x").provider == "house"


def test_an_endpoint_like_another_reads_only_its_own_thinking(write: Write) -> None:
    """Thinking of the endpoint that it extends is foreign to it."""
    write('[house]\nbase_url = "https://house.test"\nlike = "vercel"\n')
    policy = get_adapter("house:openai/gpt-5").capabilities.thinking_policy
    assert policy.can_read("house:openai/gpt-5-mini")
    assert not policy.can_read("house:google/gemini-3")
    assert not policy.can_read("vercel:openai/gpt-5")


def test_without_a_file_nothing_is_added() -> None:
    """An unknown name raises the usual error."""
    with pytest.raises(UnknownProviderError, match="no provider 'house'"):
        get_adapter("house:x")


def test_a_file_changes_a_built_in_endpoint(write: Write) -> None:
    """The entries of its table apply, and the others stay."""
    write('[together]\nbase_url = "https://proxy.test/v1"\n')
    import dragoman_adapters.compatible.adapter as rooms

    adapter = rooms.together("m")
    assert adapter.endpoint.base_url == "https://proxy.test/v1"
    assert adapter.endpoint.key_variables == ("TOGETHER_API_KEY",)
    assert user_endpoints() == {}


def make_all() -> None:
    for make in user_endpoints().values():
        make()


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("[house\n", "mine.toml: "),
        ("house = 1\n", "house: a file of endpoints has one table for each endpoint"),
        ("[house]\n", "house.base_url: Field required"),
        ('[house]\nbase_url = "x"\nkeys = ["A"]\n', "house.keys: Extra inputs are not permitted"),
        ('[house]\nbase_url = "x"\napis = []\n', "house.apis: "),
        ('[house]\nbase_url = "x"\napis = ["messages"]\n', "house.apis.0: "),
        ('[house]\nbase_url = "x"\ndialect = { max_token = "n" }\n', "house.dialect.max_token: "),
        ('[house]\nbase_url = "x"\ndefault = { supports_image = "native" }\n', "house.default.supports_image: "),
        ('[house]\nbase_url = "x"\nmodel = [{ listed = ["a"] }]\n', "house.model.0.match: "),
        ('[house]\nbase_url = "x"\nmodel = [{ match = "a", sampling = "no" }]\n', "house.model.0.sampling: "),
        ('[house]\nbase_url = "x"\nlike = "nobody"\n', "house.like: 'nobody' is not another endpoint"),
        ('[house]\nbase_url = "x"\nlike = "house"\n', "house.like: 'house' is not another endpoint"),
        ('[house]\nbase_url = "x"\nlike = ["vllm"]\n', "house.like: ['vllm'] is not another endpoint"),
        ('["*"]\nbase_url = "x"\n', "'*' is not a provider name"),
        ('["ho:use"]\nbase_url = "x"\n', "'ho:use' is not a provider name"),
    ],
)
def test_errors_in_a_file_are_named(write: Write, text: str, pattern: str) -> None:
    path = write(text)
    with pytest.raises(ConfigurationError) as caught:
        make_all()
    assert pattern in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_invalid_table_is_reported_on_use(write: Write) -> None:
    """Through the registry too, and the value itself is not repeated: it may be a key."""
    write('[house]\nbase_url = "x"\nkey_variables = "sk-very-secret"\n')
    with pytest.raises(ConfigurationError, match=r"house\.key_variables") as caught:
        get_adapter("house:x")
    assert "sk-very-secret" not in str(caught.value)


def test_a_missing_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A path in the environment has to exist."""
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "gone.toml"))
    with pytest.raises(ConfigurationError, match=r"DRAGOMAN_ENDPOINTS names .*gone\.toml"):
        get_adapter("house:x")


def test_an_endpoint_is_registered_at_run_time() -> None:
    """It is known at once, and replaced by the next one of its name."""
    kind = register_endpoint("house", {"base_url": "http://a.test", "like": "vllm"})
    assert type(get_adapter("house:x")) is kind
    assert "house" in providers()
    register_endpoint("house", {"base_url": "http://b.test", "like": "vllm"})
    assert get_adapter("house:x").endpoint.base_url == "http://b.test"


@pytest.mark.parametrize(
    ("table", "pattern"),
    [
        ({}, r"register_endpoint\('house'\): house.base_url"),
        ({"base_url": "x", "like": "nobody"}, "house.like"),
        ({"base_url": "x", "dialect": {"seed": 1}}, "house.dialect.seed"),
    ],
)
def test_an_invalid_table_is_not_registered(table: dict[str, Any], pattern: str) -> None:
    """The field is named, and the name stays unknown."""
    with pytest.raises(ConfigurationError, match=pattern):
        register_endpoint("house", table)
    with pytest.raises(UnknownProviderError):
        get_adapter("house:x")


def test_installed_names_are_not_taken_over() -> None:
    """The key of one provider must not be sent to another."""
    with pytest.raises(ConfigurationError, match="'anthropic' is installed"):
        register_endpoint("anthropic", {"base_url": "https://evil.test"})
    with pytest.raises(ConfigurationError, match="'openai' is installed"):
        register_adapter("openai", MistralAdapter)


def test_any_adapter_can_be_registered() -> None:
    """By its class, or by a callable that returns it on first use; a callable that returns none is reported."""
    made: list[str] = []

    def make() -> type[ChatAdapter]:
        made.append("once")
        return ChatAdapter

    register_adapter("later", make)
    register_adapter("now", MistralAdapter)
    register_adapter("never", lambda: object)  # type: ignore[arg-type, return-value]
    assert made == []
    assert isinstance(get_adapter("later:x"), ChatAdapter)
    assert isinstance(get_adapter("later:y"), ChatAdapter)
    assert made == ["once"]
    assert isinstance(get_adapter("now:x"), MistralAdapter)
    with pytest.raises(ConfigurationError, match="'never', is not an Adapter class"):
        get_adapter("never:x")


def test_adapter_sources_of_other_packages_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that cannot be loaded is named."""
    from importlib.metadata import EntryPoint

    monkeypatch.undo()
    group = registry.SOURCES_GROUP
    registry._load_sources.cache_clear()
    try:
        gone = EntryPoint("gone", "no.such.module:adapters", group)
        monkeypatch.setattr(registry, "entry_points", lambda group: (gone,))
        with pytest.raises(ConfigurationError, match=r"the adapters of no\.such\.module:adapters cannot be loaded"):
            get_adapter("house:x")
        ours = EntryPoint("ours", "dragoman_adapters.compatible.adapter:user_endpoints", group)
        monkeypatch.setattr(registry, "entry_points", lambda group: (ours,))
        assert registry._load_sources() == (user_endpoints,)
    finally:
        registry._load_sources.cache_clear()
    assert registry.GROUP == "dragoman.adapters"
