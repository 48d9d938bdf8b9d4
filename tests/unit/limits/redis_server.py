"""Redis for the tests, if there is one: set DRAGOMAN_TEST_REDIS_URL to a server such as redis://127.0.0.1:6379/0.

Each test uses a name of its own, and its keys expire by themselves.
"""

import os
from uuid import uuid4

import pytest

REDIS_URL = "DRAGOMAN_TEST_REDIS_URL"
HOW_TO_RUN = f"no Redis: set {REDIS_URL} to the URL of a Redis or Valkey that the tests may fill"


def redis_url() -> str:
    url = os.environ.get(REDIS_URL)
    if not url:
        pytest.skip(HOW_TO_RUN)
    return url


def own_name() -> str:
    return f"dragoman_test_{uuid4().hex}"
