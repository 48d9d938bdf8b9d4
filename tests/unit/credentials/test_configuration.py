"""dragoman.toml alone: it names where secrets are, and holds none. Without trust it runs nothing and sends no key."""

import asyncio
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from dragoman import AsyncClient, Client
from dragoman.adapter.errors import AuthenticationError, ConfigurationError, CredentialsError, NetworkError
from dragoman.cli.app import app
from dragoman.configuration.file import build_settings, read_configuration
from dragoman_gateway import GatewaySettings, create_app
from dragoman_gateway.configuration import read_generation, read_settings
from tests.gateway.serving import serving
from tests.unit.credentials.servers import CHAT_REPLY, CONVERSE_REPLY, Answer, Server, accepting
from tests.unit.transport.loopback_servers import Authority, authority

__all__ = ["authority"]

MODEL = "openai-chat:gpt-4o-mini"
KEY = "canary-key-of-the-file-77"
PRINT_KEY = f"[{sys.executable!r}, '-c', 'print(\"{KEY}\")']"


@pytest.fixture
def provider() -> Iterator[Server]:
    with Server(accepting(CHAT_REPLY, lambda got: got.headers.get("authorization") == f"Bearer {KEY}")) as server:
        yield server


def write(folder: Path, table: str, server: Server | None = None, provider: str = "openai-chat") -> Path:
    path = folder / "dragoman.toml"
    address = "" if server is None else f'base_url = "{server.url}"\n'
    path.write_text(f"[providers.{provider}]\nmax_retries = 0\n{address}{table}\n")
    return path


SOURCES = {
    "a variable": 'api_key_variable = "CORP_KEY"',
    "a file": 'api_key_file = "key.txt"',
    "a command": f"api_key_command = {PRINT_KEY}",
}


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CORP_KEY", KEY)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "key.txt").write_text(f"{KEY}\n")
    (tmp_path / "key.txt").chmod(0o600)
    return tmp_path


@pytest.mark.parametrize("source", SOURCES)
def test_a_key_that_the_file_names(source: str, named: Path, provider: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It serves a program, the command line and a gateway."""
    path = write(named, SOURCES[source], provider)
    with Client.from_config(path) as client:
        assert client.ask(MODEL, "Hi").text == "Yes."

    async def main() -> None:
        async with AsyncClient.from_config(path) as client:
            assert (await client.ask(MODEL, "Hi")).text == "Yes."

    asyncio.run(main())
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(path))
    run = CliRunner().invoke(app, ["ask", MODEL, "Hi"])
    assert "Yes." in run.output, run.output
    gateway = create_app(read_settings(path), client=AsyncClient.from_config(path))
    with serving(gateway) as url:
        question = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
        assert httpx.post(f"{url}/v1/chat/completions", json=question, timeout=60).status_code == 200
    assert len(provider.requests) == 4
    assert KEY not in path.read_text() or source == "a command"


BROKEN: dict[str, tuple[str, str]] = {
    "an unset variable": ('api_key_variable = "CORP_KEY_2"', "the environment variable CORP_KEY_2 is not set"),
    "no file": ('api_key_file = "gone.txt"', r"gone\.txt cannot be read"),
    "a folder": ('api_key_file = "."', "is not a regular file|cannot be read"),
    "an empty file": ('api_key_file = "empty.txt"', "is empty or holds characters"),
    "no program": ('api_key_command = ["no-such-program-of-ours"]', "no-such-program-of-ours cannot be run"),
    "a program that fails": (
        f"api_key_command = [{sys.executable!r}, '-c', 'print(\"{KEY}\"); exit(3)']",
        "failed with exit code 3",
    ),
    "a program that prints bytes": (
        f"api_key_command = [{sys.executable!r}, '-c', 'import sys; sys.stdout.buffer.write(bytes([255]))']",
        "printed bytes",
    ),
    "a program that prints nothing": (f"api_key_command = [{sys.executable!r}, '-c', '']", "is empty"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_source_that_fails(case: str, named: Path, provider: Server) -> None:
    """The error names the source, and shows nothing of what it printed. Nothing is sent."""
    (named / "empty.txt").write_text("\n")
    table, message = BROKEN[case]
    failing = pytest.raises((ConfigurationError, CredentialsError), match=message)
    with Client.from_config(write(named, table, provider)) as client, failing as caught:
        client.ask(MODEL, "Hi")
    assert KEY not in str(caught.value)
    assert not provider.requests


def test_a_command_that_hangs_ends_at_the_deadline(named: Path, provider: Server) -> None:
    table = f"api_key_command = [{sys.executable!r}, '-c', 'import time; time.sleep(5)']\ntimeout = 0.5"
    late = pytest.raises(NetworkError, match="no credentials in time")
    with Client.from_config(write(named, table, provider)) as client, late:
        client.ask(MODEL, "Hi")


def test_a_command_runs_without_a_shell(named: Path, provider: Server) -> None:
    """Its arguments are what they are. It runs once for many requests."""
    count = named / "count"
    program = f"import sys, pathlib; pathlib.Path(r'{count}').open('a').write('x'); print(sys.argv[1])"
    (named / "program.py").write_text(program)
    table = f"api_key_command = [{sys.executable!r}, {str(named / 'program.py')!r}, '$(echo${{IFS}}no);{KEY}']"
    provider.rule = lambda _: Answer(200, CHAT_REPLY)
    with Client.from_config(write(named, table, provider)) as client:
        for _ in range(3):
            client.ask(MODEL, "Hi")
    assert provider.requests[0].headers["authorization"] == f"Bearer $(echo${{IFS}}no);{KEY}"
    assert count.read_text() == "x"


WRONG: dict[str, tuple[str, str]] = {
    "a key": ('api_key = "canary-key"', "a key does not belong in this file.*api_key_command"),
    "two sources": ('api_key_variable = "A"\napi_key_file = "b"', "there is api_key_variable already"),
    "an empty command": ("api_key_command = []", "at least 1 item"),
    "a command as a text": ('api_key_command = "op read x"', "api_key_command"),
    "a secret header": ('headers = { "x-corp-token" = "canary-key" }', "x-corp-token holds a secret"),
    "a header of no variable": (
        'headers = { "x-corp-token" = { variable = "CORP_GONE" } }', "the environment variable CORP_GONE",
    ),
    "a header of the transport": ('headers = { host = "x" }', "belongs to the transport"),
    "a setting of a cloud": ('profile = "work"', "openai-chat has no setting profile"),
    "a key without a certificate": ('client_key = "k.pem"', "client_key needs client_certificate"),
    "no certificate": ('client_certificate = "gone.pem"', "No such file"),
    "no certificate in the file": ('client_certificate = "key.txt"', "holds no usable key and certificate"),
    "no authority": ('ca_file = "gone.pem"', "No such file"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_table(case: str, named: Path) -> None:
    """The file is refused with its line, and no value that may be secret is shown."""
    table, message = WRONG[case]
    with pytest.raises(ConfigurationError, match=message) as caught:
        build_settings(read_configuration(write(named, table)), trusted=True)
    assert "dragoman.toml:" in str(caught.value)
    assert "canary" not in str(caught.value)


def test_all_mistakes_of_a_table_at_once(named: Path) -> None:
    table = 'api_key_variable = "A"\napi_key_file = "b"\nprofile = "p"\nheaders = { host = "x" }'
    with pytest.raises(ConfigurationError, match="the configuration has 3 mistakes"):
        build_settings(read_configuration(write(named, table)), trusted=True)


CLOUD_TABLES = {
    "bedrock": 'profile = "work"\nregion = "eu-central-1"\nrole_arn = "arn:aws:iam::1:role/a"',
    "google-vertex": 'project = "p-1"\nlocation = "eu"\ncredentials_file = "key.json"\nimpersonate = "a@b.iam"',
    "azure-openai": 'tenant = "t"\nclient_id = "c"\nmanaged_identity = true',
}


@pytest.mark.parametrize("name", CLOUD_TABLES)
def test_the_settings_of_a_cloud(name: str, tmp_path: Path) -> None:
    """A path is relative to the file."""
    path = write(tmp_path, CLOUD_TABLES[name], provider=name)
    built: Any = build_settings(read_configuration(path), trusted=True)["providers"]
    if name == "google-vertex":
        assert built[name]["credentials_file"] == str(tmp_path / "key.json")
    with Client.from_config(path):
        pass


UNTRUSTED = {
    "api_key_variable": ("openai-chat", 'api_key_variable = "AWS_SECRET_ACCESS_KEY"'),
    "api_key_file": ("openai-chat", 'api_key_file = "/etc/passwd"'),
    "api_key_command": ("openai-chat", f"api_key_command = [{sys.executable!r}, '-c', 'open(\"ran\", \"w\")']"),
    "headers": ("openai-chat", 'headers = { "x-a" = { variable = "HOME" } }'),
    "ca_file": ("openai-chat", 'ca_file = "ca.pem"'),
    "client_certificate": ("openai-chat", 'client_certificate = "c.pem"'),
    "proxy": ("openai-chat", 'proxy = "http://evil.example"'),
    "base_url": ("openai-chat", 'base_url = "http://evil.example"'),
    "profile": ("bedrock", 'profile = "work"'),
    "role_arn": ("bedrock", 'role_arn = "arn:aws:iam::1:role/a"'),
    "credentials_file": ("google-vertex", 'credentials_file = "key.json"'),
    "impersonate": ("google-vertex", 'impersonate = "a@b.iam"'),
    "tenant": ("azure-openai", 'tenant = "t"'),
    "client_id": ("azure-openai", 'client_id = "c"'),
    "managed_identity": ("azure-openai", "managed_identity = true"),
}


@pytest.mark.parametrize("setting", UNTRUSTED)
def test_a_project_must_be_trusted_first(setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloned repository runs nothing, reads no file and sends no key elsewhere, as a file or as a gateway's place."""
    monkeypatch.chdir(tmp_path)
    provider, table = UNTRUSTED[setting]
    write(tmp_path, table, provider=provider)
    with pytest.raises(ConfigurationError, match=rf"sets providers\.{provider}\.{setting}.*dragoman config trust"):
        Client.from_config()
    line = ", ".join(table.splitlines())
    (tmp_path / "dragoman.toml").write_text(
        f'[gateway.models]\nm = [{{ model = "{provider}:m", provider = {{ {line} }} }}]\n'
    )
    with pytest.raises(ConfigurationError, match=f"sets {setting} of deployments.*dragoman config trust"):
        read_generation()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("setting", ['region = "eu-central-1"', "timeout = 5"])
def test_what_needs_no_trust(setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, setting, provider="bedrock")
    with Client.from_config():
        pass


@pytest.mark.parametrize("region", ["s3", "evil.example/x", "eu-central-1.evil.example#", "EU-CENTRAL-1"])
def test_a_region_does_not_become_another_host(region: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not the name of a region"):
        build_settings(read_configuration(write(tmp_path, f'region = "{region}"', provider="bedrock")), trusted=False)


def test_a_client_certificate(named: Path, authority: Authority) -> None:
    """A server that asks for one gets it, on sync and async calls; without it there is no connection."""
    context = authority.server()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.certificate)
    trust = f'api_key_variable = "CORP_KEY"\nca_file = "{authority.certificate}"'
    with Server(lambda _: Answer(200, CHAT_REPLY), tls=context) as server:
        own = f'{trust}\nclient_certificate = "{authority.leaf}"'
        with Client.from_config(write(named, own, server)) as client:
            assert client.ask(MODEL, "Hi").text == "Yes."

        async def main() -> None:
            async with AsyncClient.from_config(named / "dragoman.toml") as client:
                assert (await client.ask(MODEL, "Hi")).text == "Yes."

        asyncio.run(main())
        with Client.from_config(write(named, trust, server)) as client, pytest.raises(NetworkError):
            client.ask(MODEL, "Hi")


def test_a_key_with_a_password_is_refused(named: Path, authority: Authority) -> None:
    """OpenSSL would ask for it in the terminal."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(authority.leaf.read_bytes(), None)
    (named / "locked.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"canary"),
        )
    )
    table = f'client_certificate = "{authority.leaf}"\nclient_key = "locked.pem"'
    with pytest.raises(ConfigurationError, match="has a password"):
        build_settings(read_configuration(write(named, table)), trusted=True)


def test_headers_of_a_file(named: Path, provider: Server) -> None:
    table = 'api_key_variable = "CORP_KEY"\nheaders = { "x-team" = "a", "x-corp-token" = { variable = "CORP_KEY" } }'
    with Client.from_config(write(named, table, provider)) as client:
        client.ask(MODEL, "Hi")
    assert provider.requests[0].headers["x-team"] == "a"
    assert provider.requests[0].headers["x-corp-token"] == KEY


def test_config_show_hides_headers(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(named, 'headers = { "x-team" = "a-value-of-ours" }\nprofile = "work"')
    run = CliRunner().invoke(app, ["config", "show", str(path)])
    assert "a-value-of-ours" not in run.output
    assert "work" in run.output


def test_each_place_of_a_gateway_has_its_own(provider: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two regions and two accounts of one provider; if one is refused, the other is asked."""
    secret = "wJalrXUtnFEMI/bPxRfiCYEXAMPLEKEY"
    credentials = tmp_path / "credentials"
    credentials.write_text(
        "".join(f"[{n}]\naws_access_key_id = AKIA{n.upper()}\naws_secret_access_key = {secret}\n" for n in ("a", "b"))
    )
    credentials.chmod(0o600)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    refused: set[str] = set()
    seen: list[tuple[str, str]] = []

    def answer(received: Any) -> Answer:
        who, _, region = received.headers["authorization"].partition("Credential=")[2].split("/")[:3]
        seen.append((who, region))
        return Answer(403, {"message": "no"}) if who in refused else Answer(200, CONVERSE_REPLY)

    with Server(answer) as bedrock:
        places = [
            {"model": "bedrock:amazon.nova-lite-v1:0", "provider": {"profile": "a", "region": "eu-west-1"}},
            {"model": "bedrock:amazon.nova-lite-v1:0", "provider": {"profile": "b", "region": "us-east-2"}},
        ]
        for place in places:
            place["provider"]["base_url"] = bedrock.url  # type: ignore[index]
        settings = GatewaySettings.model_validate({"models": {"m": places}})
        with serving(create_app(settings, client=AsyncClient())) as url:
            question = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
            for _ in range(20):
                assert httpx.post(f"{url}/v1/chat/completions", json=question, timeout=60).status_code == 200
            assert set(seen) == {("AKIAA", "eu-west-1"), ("AKIAB", "us-east-2")}
            refused.add("AKIAA")
            for _ in range(10):
                assert httpx.post(f"{url}/v1/chat/completions", json=question, timeout=60).status_code == 200


@pytest.mark.parametrize("broken", ["profile", "api_key_command", "api_key_file"])
def test_a_place_without_usable_credentials_is_passed_over(
    broken: str, named: Path, provider: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile or a file that is gone is the trouble of one place; another one answers."""
    monkeypatch.chdir(named)
    wrong: dict[str, Any] = {
        "profile": {"model": "bedrock:amazon.nova-lite-v1:0", "provider": {"profile": "gone", "region": "eu-west-1"}},
        "api_key_command": {"model": MODEL, "provider": {"api_key_command": ["no-such-program-of-ours"]}},
        "api_key_file": {"model": MODEL, "provider": {"api_key_file": "gone.txt"}},
    }[broken]
    right = {"model": MODEL, "weight": 0, "provider": {"api_key_variable": "CORP_KEY", "base_url": provider.url}}
    settings = GatewaySettings.model_validate({"models": {"m": [wrong, right]}})
    with serving(create_app(settings, client=AsyncClient())) as url:
        question = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        for _ in range(3):
            reply = httpx.post(f"{url}/v1/chat/completions", json=question, timeout=60)
            assert reply.status_code == 200, reply.text
    assert len(provider.requests) == 3


def test_a_command_that_prints_a_refused_key_runs_again(named: Path) -> None:
    """The second run is the last one for a while."""
    table = f"api_key_command = {PRINT_KEY}"
    with Server(accepting(CHAT_REPLY, lambda _: False)) as server:
        with Client.from_config(write(named, table, server)) as client, pytest.raises(AuthenticationError):
            client.ask(MODEL, "Hi")
        assert len(server.requests) == 2
