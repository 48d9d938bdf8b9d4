"""How all tests run: with the default engine, and property laws by a profile.

`sample` is the default, `ci` belongs to the marker `exhaustive`; both always draw the same examples. `nightly` draws
others each time. HYPOTHESIS_PROFILE names another one.
"""

import atexit
import contextlib
import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import certifi
import platformdirs
import pytest
from hypothesis import HealthCheck, settings

from dragoman.testing.fixed_draws import fixed_draws

pytest_plugins = ["tests.exchanges.plugin"]

# The engine of the default install; tests of engines name theirs.
os.environ.setdefault("DRAGOMAN_ENGINE", "httpx")

# The strategies build whole histories: drawing them takes longer than checking most laws.
_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large]

for _name, _examples in (("sample", 10), ("ci", 100)):
    settings.register_profile(
        _name,
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=_examples,
        suppress_health_check=_PATIENT,
    )
settings.register_profile("nightly", deadline=None, max_examples=10_000, suppress_health_check=_PATIENT)


_NO_CLOUD = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "{folder}/aws-config",
    "AWS_SHARED_CREDENTIALS_FILE": "{folder}/aws-credentials",
    "NO_GCE_CHECK": "true",
    "CLOUDSDK_CONFIG": "{folder}/gcloud",
    "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
}
"""Keeps the libraries of clouds from the files of whoever runs the tests, and from servers of machines in a cloud."""


def _is_exhaustive(config: pytest.Config) -> bool:
    return config.getoption("markexpr") == "exhaustive"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes for each core, at most four: two fifths of the time, tests wait for servers and deadlines."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(2 * cores, 4)


def pytest_configure(config: pytest.Config) -> None:
    """Loads the profile before any test module asks for the number of examples."""
    profile = os.environ.get("HYPOTHESIS_PROFILE", "ci" if _is_exhaustive(config) else "sample")
    settings.load_profile(profile)
    if settings().derandomize:  # else the order of the tests in this process would change the examples
        draws = fixed_draws()
        draws.__enter__()
        config.add_cleanup(lambda: draws.__exit__(None, None, None))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts laws into both runs: the exhaustive one draws more examples. Tests of the embedded model skip without it."""
    if _is_exhaustive(config):
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker("exhaustive")
    live = [item for item in items if item.get_closest_marker("live_local")]
    if live and (reason := _missing_model()):
        for item in live:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True, scope="session")
def _own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Empty folders of the user: no test finds the stored keys and conversations of the person who runs it.

    A test whose variables name another folder for data gets that one.
    """
    folder = tmp_path_factory.mktemp("user")
    data_path = platformdirs.user_data_path
    theirs = data_path("dragoman", appauthor=False)

    def own_data_path(*names: str, **options: bool) -> Path:
        path = data_path(*names, **options)
        return folder / "data" if path == theirs else path

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("platformdirs.user_config_path", lambda name, *_, **__: folder / "configuration" / name)
        patch.setattr("platformdirs.user_data_path", own_data_path)
        for variable, value in _NO_CLOUD.items():
            patch.setenv(variable, value.format(folder=folder))
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One certificate authority instead of all: a client takes 20 ms to read them, and no test connects to a public
    server.
    """
    end = "-----END CERTIFICATE-----"
    file = tmp_path_factory.mktemp("authorities") / "one.pem"
    file.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        patch.delenv("SSL_CERT_DIR", raising=False)
        yield


def pytest_runtest_teardown() -> None:
    """Closes the connections that the test has left open, and forgets the width of its terminal: all tests of a process
    share its pools and its console.
    """
    if pools := sys.modules.get("dragoman.transport.engines.shared_pools"):
        pools.close_idle_connections()
    if terminal := sys.modules.get("dragoman.cli.io.console"):
        terminal.console.cache_clear()


def pytest_collection(session: pytest.Session) -> None:
    """Imports and collects without garbage collection: nothing of it is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Takes the collected tests out of garbage collection: every full collection would visit millions of objects."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Collects what the tests have left, once: pytest does so ten more times, and would visit millions of objects."""
    gc.enable()  # also after a collection that failed
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # It has reported everything. Taking its modules apart lasts longer than pytest-xdist waits for its end.
        atexit.register(os._exit, 0)
    else:
        atexit.register(gc.unfreeze)  # extension modules complain if they are not collected in the end


@pytest.fixture
def quick_gc() -> None:
    """Lets a test that collects garbage visit only the objects that it creates itself."""
    gc.freeze()


@pytest.fixture(scope="session")
def _numpy() -> None:
    """Loads NumPy for good. The imports of a pytester run are forgotten after it, and NumPy can only be loaded once."""
    with contextlib.suppress(ImportError):
        importlib.import_module("numpy")


@pytest.fixture
def pytester(_numpy: None, pytester: pytest.Pytester) -> pytest.Pytester:
    """pytest's own, after `_numpy`."""
    return pytester


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["sample", "all"])
def exhaustive(request: pytest.FixtureRequest) -> bool:
    """Whether to try everything. A test with this fixture runs twice: on a sample by default, and exhaustively."""
    return bool(request.param)


def _missing_model() -> str | None:
    """Why the embedded model cannot run; None if it can."""
    from dragoman.adapter.errors import MissingExtraError
    from dragoman.local.files import model_file

    if importlib.util.find_spec("openvino_genai") is None:
        return "openvino-genai is not installed: pip install 'dragoman[local]'"
    try:
        model_file("smollm2-135m")
    except MissingExtraError as error:
        return str(error)
    return None
