"""JSON of clients, however it is nested."""

import pytest

from dragoman_gateway.json import loads


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":', b'["\\ud83d\\ude00",'])
@pytest.mark.parametrize("levels", [700, 100_000])
def test_what_is_nested_too_deeply_does_not_reach_the_end_of_the_stack(opening: bytes, levels: int) -> None:
    """A RecursionError comes where finalizers of other objects have no stack left: this is another one."""
    with pytest.raises(ValueError, match="nested too deeply"):
        loads(opening * levels)


def test_many_values_beside_each_other_are_read() -> None:
    """Long conversations are wide, and not deep."""
    assert loads(b'{"messages":[' + b'{"content":[{"a":1}]},' * 2_000 + b"{}]}")["messages"][-1] == {}
