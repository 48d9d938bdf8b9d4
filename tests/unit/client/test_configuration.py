"""The configuration file: where it is found, what it sets, what is wrong with it, and who trusts it."""

import re
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from dragoman import AdapterOptions, Budget, Client, Limits, Router
from dragoman.adapter.errors import ConfigurationError
from dragoman.configuration.file import (
    Origin,
    build,
    build_settings,
    find_configuration,
    is_trusted,
    read_configuration,
    trust,
)
from dragoman.policy import Pipeline, hook

WHOLE = """
store = "sqlite:///chats.db"
default_model = "quick"

[options]
max_output_tokens = 500
temperature = 0.5

[aliases]
quick = "anthropic:claude-haiku-4-5"

[[rules]]
model = "quick"
when = { tokens_under = 1000 }

[providers.anthropic]
timeout = 60
max_retries = 0

[[limits]]
models = "anthropic:*"
requests = 50

[[budgets]]
usd = "5.00"

[[budgets]]
tokens = 1000
per = "user"
"""


def settings(text: str, folder: Path, *, trusted: bool = True) -> Any:
    path = folder / "dragoman.toml"
    path.write_text(text, encoding="utf-8")
    return build_settings(read_configuration(path), trusted=trusted)


def mistakes(text: str, folder: Path) -> list[str]:
    """What is wrong with a file, as ``line: place: problem``."""
    with pytest.raises(ConfigurationError) as found:
        settings(text, folder)
    return [line.strip().partition("dragoman.toml:")[2] for line in str(found.value).splitlines()[1:]]


def test_every_table_becomes_a_setting(tmp_path: Path) -> None:
    """Each with the class that a program would write, and with its values."""
    found = settings(WHOLE, tmp_path)
    assert found["options"] == AdapterOptions(max_output_tokens=500, temperature=0.5)
    assert found["providers"] == {"anthropic": {"timeout": 60.0, "max_retries": 0}}
    assert isinstance(found["router"], Router)
    assert found["router"].aliases.resolve("quick") == "anthropic:claude-haiku-4-5"
    assert isinstance(found["limits"], Limits)
    assert [repr(each) for each in found["budgets"]] == [
        repr(Budget(usd="5.00", per="client")),
        repr(Budget(tokens=1000, per="user")),
    ]
    assert found["store"] == "sqlite:///chats.db"


def test_a_client_reads_the_file_that_applies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program asks for it; its own settings are merged into those of the file."""
    (tmp_path / "dragoman.toml").write_text("[providers.anthropic]\ntimeout = 60\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)
    assert Client().config.providers == {}
    client = Client.from_config(providers={"anthropic": {"max_retries": 1}}, budgets=[Budget(usd=1)])
    assert client.config.providers["anthropic"]["timeout"] == 60
    assert client.config.providers["anthropic"]["retry"].max_retries == 1
    assert len(tuple(client.config.budgets)) == 1
    other = tmp_path / "other.toml"
    other.write_text("[options]\nmax_output_tokens = 7\n", encoding="utf-8")
    assert Client.from_config(other).config.options == AdapterOptions(max_output_tokens=7)


def test_the_nearest_file_applies(tmp_path: Path) -> None:
    """That of the environment, else that of the folder or one above, else the user's; none is fine."""
    deep, user = tmp_path / "project" / "a" / "b", tmp_path / "user"
    deep.mkdir(parents=True)
    user.mkdir()

    def found(**environ: str) -> object:
        return find_configuration(deep, environ=environ, user_folder=user)

    assert found() is None
    (user / "dragoman.toml").touch()
    assert found() == (user / "dragoman.toml", Origin.USER)
    (tmp_path / "project" / "dragoman.toml").touch()
    assert found() == ((tmp_path / "project" / "dragoman.toml").resolve(), Origin.PROJECT)
    assert found(DRAGOMAN_CONFIG="elsewhere.toml") == (Path("elsewhere.toml"), Origin.NAMED)


def test_all_mistakes_are_listed_with_their_lines(tmp_path: Path) -> None:
    """What has no word of its own, what is not a value, and what names nothing: at once, and without a value."""
    text = """
stor = "sqlite:///x"
[providers.anthropic]
timeout = "x"
api_key = "sk-canary"
[[budgets]]
usd = 5.5
[[limits]]
requests = 1
[[limits]]
requests = 0
"""
    found = mistakes(text, tmp_path)
    assert {line.partition(": ")[0] for line in found} == {"2", "4", "5", "7", "11"}
    assert "did you mean 'store'?" in "\n".join(found)
    assert "a key does not belong in this file" in "\n".join(found)
    assert "canary" not in "\n".join(found)


def test_what_names_nothing_is_listed_too(tmp_path: Path) -> None:
    """Unknown providers, options, aliases and plugins, with the nearest names."""
    text = """
[options]
max_tokens = 5
[providers.antropic]
timeout = 5
[aliases]
quick = "claude"
[[plugins]]
name = "no_such_plugin"
"""
    found = "\n".join(mistakes(text, tmp_path))
    assert "3: options.max_tokens: an unknown option; did you mean" in found
    assert "4: providers.antropic: an unknown provider; did you mean 'anthropic'?" in found
    assert "aliases" in found
    assert "8: plugins.0: no plugin 'no_such_plugin' is installed" in found


@pytest.mark.parametrize(
    "setting", ['base_url = "https://evil.example"', 'proxy = "http://evil.example:1"', 'ca_file = "x"']
)
def test_a_project_cannot_redirect_a_key(setting: str, tmp_path: Path) -> None:
    """Until its file is trusted as it is, it sets nothing that decides where a key is sent."""
    path, user = tmp_path / "dragoman.toml", tmp_path / "user"
    path.write_text(f"[providers.anthropic]\n{setting}\n", encoding="utf-8")
    file = read_configuration(path, Origin.PROJECT)
    assert not is_trusted(file, user_folder=user)
    with pytest.raises(ConfigurationError, match=r"providers\.anthropic\.\w+, which decide.*dragoman config trust"):
        build_settings(file, trusted=False)
    trust(file, user_folder=user)
    assert is_trusted(file, user_folder=user)
    path.write_text(path.read_text(encoding="utf-8") + "timeout = 5\n", encoding="utf-8")
    assert not is_trusted(read_configuration(path, Origin.PROJECT), user_folder=user)
    assert is_trusted(read_configuration(path, Origin.USER), user_folder=user)


def test_a_home_that_is_no_folder_trusts_nothing(tmp_path: Path) -> None:
    """Services often have one. It is not an error to read a project's file there."""
    (tmp_path / "home").touch()
    path = tmp_path / "dragoman.toml"
    path.write_text("", encoding="utf-8")
    file = read_configuration(path, Origin.PROJECT)
    assert not is_trusted(file, user_folder=tmp_path / "home" / ".config")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        trust(file, user_folder=tmp_path / "home" / ".config")


def test_a_plugin_comes_from_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With settings it is called with them; plugins run code, so they need trust."""
    made: list[dict[str, Any]] = []

    def factory(**given: Any) -> Any:
        made.append(given)

        @hook("cmf.llm_input")
        def nothing(step: Any) -> None:
            """Allow everything."""

        return nothing

    entry = EntryPoint("quiet", "quiet_plugin:factory", build.PLUGINS)
    monkeypatch.setitem(sys.modules, "quiet_plugin", type(sys)("quiet_plugin"))
    monkeypatch.setattr(sys.modules["quiet_plugin"], "factory", factory, raising=False)
    monkeypatch.setattr(build, "entry_points", lambda group: EntryPoints([entry]))
    text = '[[plugins]]\nname = "quiet"\nsettings = { level = 3 }\n'
    assert len(settings(text, tmp_path)["policy"]) == 1
    assert made == [{"level": 3}]
    assert isinstance(Client(**settings(text, tmp_path)).config.policy, Pipeline)
    with pytest.raises(ConfigurationError, match="plugins, which decide"):
        settings(text, tmp_path, trusted=False)


def test_what_is_no_configuration_is_refused(tmp_path: Path) -> None:
    """Half a file, another encoding, a folder, a device and a huge file raise a typed error with the path."""
    path = tmp_path / "dragoman.toml"
    for content, problem in (
        (b"[providers", "not valid TOML"),
        (b"store = '\xff'", "not in UTF-8"),
        (b"#" * 1_100_000, "larger than"),
    ):
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match=problem):
            read_configuration(path)
    for other in (tmp_path, tmp_path / "missing.toml", *filter(Path.exists, [Path("/dev/zero")])):
        with pytest.raises(ConfigurationError, match=re.escape(str(other))):
            read_configuration(other)
