"""Adapters are found by name, ours and third parties' alike; the error for an unknown name suggests near ones."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

import pytest

from dragoman.adapter import registry
from dragoman.adapter.errors import ConfigurationError, UnknownProviderError
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.registry import GROUP, adapter_class, get_adapter, providers, register_adapter
from tests.tables import each_row
from tests.unit.adapter.toy_adapter import ToyAdapter

OURS = {entry.name for entry in entry_points(group=GROUP) if entry.value.startswith("dragoman_adapters.")}


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if another distribution had registered these."""

    def installed(*, group: str) -> tuple[EntryPoint, ...]:
        return tuple(
            EntryPoint(name, value, group)
            for name, value in (
                ("toy", "tests.unit.adapter.toy_adapter:ToyAdapter"),
                ("toytown", "tests.unit.adapter.toy_adapter:ToyAdapter"),
                ("gone", "no.such.module:Adapter"),
                ("empty", "tests.unit.adapter.toy_adapter:NoSuchName"),
                ("wrong", "tests.unit.adapter.toy_adapter:ToyDecoder"),
                ("instance", "tests.unit.adapter.toy_adapter:lines"),
            )
        )

    monkeypatch.setattr(registry, "entry_points", installed)
    monkeypatch.setattr(registry, "_registered", {})
    registry._entries.cache_clear()
    adapter_class.cache_clear()
    yield
    monkeypatch.undo()
    registry._entries.cache_clear()
    adapter_class.cache_clear()


def test_our_adapters_are_found_by_entry_point() -> None:
    """The core finds them only through their entry points."""
    assert set(providers()) >= OURS
    assert list(providers()) == sorted(providers())
    assert GROUP == "dragoman.adapters"


@pytest.mark.usefixtures("_installed")
def test_a_third_party_adapter_is_found() -> None:
    """Bound to the model, whose name may hold colons."""
    adapter = get_adapter("toy:family/model:8b")
    assert isinstance(adapter, ToyAdapter)
    assert adapter.model == "family/model:8b"
    assert str(adapter.model_id) == "toy:family/model:8b"
    assert repr(adapter) == "ToyAdapter('toy:family/model:8b')"
    assert adapter_class("toy") is ToyAdapter


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("toi:m", "no provider 'toi': did you mean 'toy'?"),
        ("Toy:m", "did you mean 'toy' or 'toytown'"),
        ("toytow:m", "did you mean 'toytown' or 'toy'?"),
        ("zzzzzzzz:m", "installed are: empty, gone, instance, toy, toytown, wrong"),
    ],
)
def test_an_unknown_provider_lists_near_names(model: str, hint: str) -> None:
    """It lists all names if none is near."""
    with pytest.raises(UnknownProviderError) as caught:
        get_adapter(model)
    assert hint in str(caught.value)


@pytest.mark.parametrize("model", ["", "nothing", "openai:", ":gpt-6", "openai:gpt\n6", "openai"])
def test_a_malformed_id_names_the_format(model: str) -> None:
    """A malformed id names the format: the same class of error as an unknown provider."""
    with pytest.raises(UnknownProviderError, match="write it as 'provider:model'"):
        get_adapter(model)


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("gone", r"the adapter 'gone' \(no.such.module:Adapter\) cannot be loaded: No module named 'no'"),
        ("empty", "cannot be loaded"),
        ("wrong", "installed as the adapter 'wrong', is not an Adapter class"),
        ("instance", "is not an Adapter class"),
    ],
)
def test_a_faulty_installation_is_named(name: str, pattern: str) -> None:
    """The path of the entry point shows which distribution is at fault."""
    with pytest.raises(ConfigurationError, match=pattern):
        get_adapter(f"{name}:m")


@each_row("provider", sorted(OURS))
def test_each_of_our_adapters_loads(provider: str) -> None:
    """Each has the name under which it is installed."""
    assert adapter_class(provider).provider == provider


def test_a_class_that_declares_nothing_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its models would get the defaults, which may be wrong; a table with one row is a declaration."""
    monkeypatch.setattr(registry, "_registered", {})
    for name, table in (("silent", {}), ("honest", {"default": {"supports_images": "native"}})):
        kind = type(name, (adapter_class("anthropic"),), {"provider": name, "models": ModelTable(table)})
        register_adapter(name, kind)
    assert [record.args for record in caplog.records] == [("silent",)]
