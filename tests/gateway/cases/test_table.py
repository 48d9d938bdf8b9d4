"""The table of cases names tests that exist, and enough of them."""

from tests.gateway.cases.table import read_cases


def test_every_case_has_tests_that_exist() -> None:
    cases = read_cases()
    assert [(case.id, case.missing) for case in cases if case.missing or not case.tests] == []
    assert len(cases) >= 60
