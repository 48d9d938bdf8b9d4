"""How all tests run: over the default engine, and property laws as `ci` (always the same examples) or `nightly`."""

import importlib.util
import os

import pytest
from hypothesis import HealthCheck, settings

# What the default install uses; tests of the engines name theirs.
os.environ.setdefault("DRAGOMAN_ENGINE", "httpx")

# The strategies build whole histories: drawing them takes longer than checking most laws.
_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile(
    "ci", derandomize=True, database=None, deadline=None, max_examples=100, suppress_health_check=_PATIENT
)
settings.register_profile("nightly", deadline=None, max_examples=10_000, suppress_health_check=_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that run the embedded model are marked live_local; they skip if it is not installed."""
    live = [item for item in items if item.get_closest_marker("live_local")]
    if live and (reason := _missing_model()):
        for item in live:
            item.add_marker(pytest.mark.skip(reason=reason))


def _missing_model() -> str | None:
    """Why the embedded model cannot run; None if it can."""
    from dragoman.adapter.errors import MissingExtraError
    from dragoman.transport.local.files import model_file

    if importlib.util.find_spec("openvino_genai") is None:
        return "openvino-genai is not installed: pip install 'dragoman[local]'"
    try:
        model_file("smollm2-135m")
    except MissingExtraError as error:
        return str(error)
    return None
