"""The files that run the gateway as containers: each is read by its own program, or checked against the code."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from dragoman import Loss, Usage
from dragoman.answers import LossKind
from dragoman_gateway.configuration import read_settings
from dragoman_gateway.endpoints.pages import metrics_page
from dragoman_gateway.running.board import Status
from dragoman_gateway.running.metrics import Metrics, RequestRecord
from dragoman_gateway.running.state_keys import VARIABLE

FOLDER = Path(__file__).parents[2] / "gateway" / "deploy"
PINNED = re.compile(r":[\w.-]*\d[\w.-]*@sha256:[0-9a-f]{64}$")
"""A version, and the digest of the image that is meant."""
NAMED = re.compile(r"dragoman_\w+")
LABELS = re.compile(r"by \(([\w, ]+)\)|{(\w+)=")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    return found


def test_the_dockerfile_has_no_fault() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint has no package for this system")
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [hadolint, FOLDER / "Dockerfile"], capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_docker_accepts_the_compose_file(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    version = docker and subprocess.run([docker, "compose", "version"], capture_output=True, check=False)
    if not docker or not version or version.returncode != 0:
        pytest.skip("docker compose is not installed")
    given = re.sub("=$", "=given", (FOLDER / "example.env").read_text(), flags=re.MULTILINE)
    for file in FOLDER.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / ".env").write_text(given)
    for profile in ((), ("--profile", "metrics")):
        command = [docker, "compose", "-f", tmp_path / "compose.yaml", *profile, "config", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_image_runs_without_root_and_waits_for_signals_itself() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    *_, last_stage = text.split("\nFROM ")
    (user,) = re.findall(r"^USER (\d+):\d+$", last_stage, re.MULTILINE)
    assert int(user) > 0
    assert json.loads(re.findall(r"^ENTRYPOINT (.+)$", last_stage, re.MULTILINE)[0]) == ["dragoman"]
    assert json.loads(re.findall(r"^CMD (.+)$", last_stage, re.MULTILINE)[0])[0] == "serve"
    assert f"DRAGOMAN_CONFIG={_mounted_configuration()}" in text
    (base,) = re.findall(r"^ARG PYTHON=(.+)$", text, re.MULTILINE)
    assert base.startswith("python:3.")
    assert PINNED.search(base)


def _mounted_configuration() -> str:
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    (volume,) = services["gateway"]["volumes"]
    source, target, mode = volume.split(":")
    assert (FOLDER / source).is_file()
    assert mode == "ro"
    return str(target)


def test_every_service_is_pinned_and_hardened(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert "build" in service or PINNED.search(service["image"]), f"{name} is not pinned"
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert set(service["networks"]) <= set(compose["networks"]), name
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (FOLDER / source).is_file() if source.startswith(".") else source in compose["volumes"], volume
        assert set(service.get("depends_on", ())) <= set(compose["services"])
    built = compose["services"]["gateway"]["build"]
    assert (FOLDER / built["context"] / built["dockerfile"]).samefile(FOLDER / "Dockerfile")


def test_the_configuration_names_the_services(compose: dict[str, Any]) -> None:
    settings = read_settings(FOLDER / "dragoman.toml")
    database, counters = urlsplit(settings.database or ""), urlsplit(settings.keys.counters or "")
    postgres = compose["services"]["postgres"]["environment"]
    assert (database.hostname, counters.hostname) == ("postgres", "redis")
    assert database.password is None
    assert (database.username, database.path) == (postgres["POSTGRES_USER"], f"/{postgres['POSTGRES_DB']}")
    assert settings.keys.required
    assert VARIABLE in compose["services"]["gateway"]["environment"]


def test_the_gateway_is_not_killed_before_it_has_booked_what_it_answered(compose: dict[str, Any]) -> None:
    """Behind the drain, streams are cut, and what waits is stored."""
    minutes = re.fullmatch(r"(\d+)m", compose["services"]["gateway"]["stop_grace_period"])
    assert minutes is not None
    assert 60 * int(minutes[1]) >= read_settings(FOLDER / "dragoman.toml").drain_seconds + 60


def test_every_variable_that_is_needed_is_in_the_example() -> None:
    needed = set(re.findall(r"\$\{(\w+)", (FOLDER / "compose.yaml").read_text()))
    lines = (FOLDER / "example.env").read_text().splitlines()
    given = {line.partition("=")[0]: line.partition("=")[2] for line in lines if line and not line.startswith("#")}
    assert needed <= set(given)
    assert set(given.values()) == {""}


def _exposed() -> dict[str, set[str]]:
    """Return the names of all counts of a gateway that has had a request, each with its labels."""
    metrics, record = Metrics(), RequestRecord("messages")
    record.model, record.status, record.broken, record.first_at = "anthropic:m", 200, True, record.started_at
    record.losses = [Loss(LossKind.OPTION, "", -1, "r")]
    record.usages = [Usage(input_tokens=1), Usage(input_tokens=1, cost_usd="1", cost_status="priced")]
    metrics.end(record)
    found: dict[str, set[str]] = {}
    status = Status(
        workers={"1": "v"},
        dropped={"spend": 1},
        available={"database": True},
        waiting={"spend": 1},
        busy={"ledger": {"lock": 1}},
        metrics=metrics.dump(),
    )
    for line in metrics_page(status).decode().splitlines():
        if line.startswith("dragoman_"):
            name = re.match(r"\w+", line)
            assert name is not None
            found[name[0]] = set(re.findall(r"(\w+)=", line))
    return found


def test_the_dashboard_shows_counts_that_exist() -> None:
    dashboard = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    exposed = _exposed()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            names = NAMED.findall(target["expr"])
            assert names, panel["title"]
            assert set(names) <= set(exposed), panel["title"]
            asked = {each.strip() for groups in LABELS.findall(target["expr"]) for each in "".join(groups).split(",")}
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert asked | shown <= exposed[names[0]], panel["title"]
            assert shown <= asked | {"status"}, panel["title"]
    shown_counts = {
        name for panel in dashboard["panels"] for each in panel["targets"] for name in NAMED.findall(each["expr"])
    }
    families = {re.sub(r"_(bucket|sum|count|created|total)$", "", name) for name in exposed}
    assert {re.sub(r"_(bucket|total)$", "", name) for name in shown_counts} == families
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)


def test_prometheus_finds_every_replica_and_grafana_its_source(compose: dict[str, Any]) -> None:
    (job,) = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    (place,) = job["dns_sd_configs"]
    assert set(place["names"]) <= set(compose["services"])
    assert place["port"] == 8080
    (source,) = yaml.safe_load((FOLDER / "grafana-sources.yaml").read_text())["datasources"]
    assert urlsplit(source["url"]).hostname in compose["services"]
    (folder,) = yaml.safe_load((FOLDER / "grafana-folders.yaml").read_text())["providers"]
    mounted = [volume.split(":")[1] for volume in compose["services"]["grafana"]["volumes"]]
    assert any(target.startswith(folder["options"]["path"]) for target in mounted)
