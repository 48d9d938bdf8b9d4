"""One precision on every CPU, unless the environment names another."""

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.transport.local.compute import runtime_properties


def test_without_a_word_everything_is_computed_in_32_bits() -> None:
    """The second hint is what turns off the rounding of activations and of the cache to 8 bits."""
    assert runtime_properties({}) == {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}


def test_another_precision_and_a_number_of_threads_come_from_the_environment() -> None:
    """An empty variable is none."""
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
def test_a_value_without_sense_is_named(name: str, value: str, error: str) -> None:
    """The runtime itself would say nothing, or show a page of its source."""
    with pytest.raises(ConfigurationError, match=error):
        runtime_properties({name: value})
