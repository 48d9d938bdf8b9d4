"""How all tests run: over the default engine, and property laws as `ci` (always the same examples) or `nightly`."""

import os

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
