"""One precision on every CPU, unless the environment names another."""

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.local.model import runtime_properties


def test_the_default_precision_is_32_bits() -> None:
    """The second hint turns off the rounding of activations and of the cache to 8 bits."""
    assert runtime_properties({}) == {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}


def test_precision_and_threads_come_from_the_environment() -> None:
    """An empty variable counts as unset."""
    assert runtime_properties({"DRAGOMAN_LOCAL_PRECISION": " bf16 ", "DRAGOMAN_LOCAL_THREADS": "2"}) == {
        "INFERENCE_PRECISION_HINT": "bf16",
        "INFERENCE_NUM_THREADS": 2,
    }
    assert runtime_properties({"DRAGOMAN_LOCAL_PRECISION": "", "DRAGOMAN_LOCAL_THREADS": ""}) == runtime_properties({})


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("DRAGOMAN_LOCAL_PRECISION", "float32", "DRAGOMAN_LOCAL_PRECISION is 'float32'; use one of f32, bf16, f16"),
        ("DRAGOMAN_LOCAL_THREADS", "0", "DRAGOMAN_LOCAL_THREADS is '0'; it must be a whole number of at least 1"),
        ("DRAGOMAN_LOCAL_THREADS", "-1", "DRAGOMAN_LOCAL_THREADS is '-1'"),
        ("DRAGOMAN_LOCAL_THREADS", "two", "DRAGOMAN_LOCAL_THREADS is 'two'"),
    ],
)
def test_an_invalid_value_is_named(name: str, value: str, error: str) -> None:
    """The runtime itself would report nothing, or a page of its source."""
    with pytest.raises(ConfigurationError, match=error):
        runtime_properties({name: value})
