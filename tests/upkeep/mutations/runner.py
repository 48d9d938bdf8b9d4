"""Runs tests against mutants: each in a forked process, which ends at the first failure or after a time limit.

A mutant in the body of a function is fast: one process imports everything and collects the tests, and each fork of it
replaces the code of the function. For other mutants, a fork imports the changed module from the beginning. Needs a
system with fork.
"""

import gc
import importlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from _pytest.main import pytest_runtestloop as run_tests

from tests.upkeep.mutations.operators import Mutant, compile_mutant
from tests.upkeep.repository import ROOT

SURVIVED, KILLED, TIMED_OUT = "survived", "killed", "timed out"
_SOURCE_ROOTS = ("src", "adapters", "gateway/src")
_UNREPLACEABLE = 9
"""The exit code of a fork if a function cannot be replaced while the program runs."""
_ARGUMENTS = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
# Imported once, before any fork: most of a short run would be spent on them. None of them imports the library.
_PRELOADED = ("anyio", "httpx", "hypothesis", "jsonschema_rs", "pydantic", "pytest_examples", "xdist")


def run(path: str, tests: Sequence[str], mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """Yield each mutant with its outcome. Raises RuntimeError if the tests fail without any."""
    for name in _PRELOADED:
        importlib.import_module(name)
    source = (ROOT / path).read_text(encoding="utf-8")
    began = time.monotonic()
    if _run_fork(lambda: pytest.main([*_ARGUMENTS, *tests]), 600) != 0:
        raise RuntimeError(f"the tests of {path} fail without any mutant: {' '.join(tests)}")
    limit = 10 + 5 * (time.monotonic() - began)
    slow = [mutant for mutant in mutants if not mutant.in_function]
    for mutant, result in _run_replaced(path, source, tests, [each for each in mutants if each.in_function], limit):
        if result == _UNREPLACEABLE:
            slow.append(mutant)
        else:
            yield mutant, _outcome(result)
    for mutant in slow:
        code = compile_mutant(source, str(ROOT / path), mutant.index)
        yield mutant, _outcome(_run_fork(partial(_run_planted, path, code, tests), limit))


def _outcome(result: int | None) -> str:
    return TIMED_OUT if result is None else KILLED if result else SURVIVED


def _run_replaced(
    path: str, source: str, tests: Sequence[str], mutants: Sequence[Mutant], limit: float
) -> Iterator[tuple[Mutant, int | None]]:
    """Collect the tests once, in a fork, and run them in a fork of that for each mutant."""
    if not mutants:
        return
    reading, writing = os.pipe()

    class ForEachMutant:
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            importlib.import_module(_module_name(path))
            for mutant in mutants:
                code = compile_mutant(source, str(ROOT / path), mutant.index)
                result = _run_fork(partial(_run_collected, session, code), limit)
                os.write(writing, f"{result}\n".encode())
            return True

    host = os.fork()
    if host == 0:
        os.close(reading)
        _silence()
        with suppress(BaseException):
            pytest.main([*_ARGUMENTS, *tests], plugins=[ForEachMutant()])
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="ascii") as lines:  # noqa: PTH123 - a file descriptor
        results = iter(lines)
        for mutant in mutants:
            result = next(results, None)
            if result is None:
                raise RuntimeError(f"the process that collected the tests of {path} ended early")
            yield mutant, None if result == "None\n" else int(result)
    os.waitpid(host, 0)


def _run_collected(session: pytest.Session, code: CodeType) -> int:
    if not _replace_functions(code):
        return _UNREPLACEABLE
    try:
        run_tests(session)
    except (session.Failed, session.Interrupted):
        return 1
    return 1 if session.testsfailed else 0


def _replace_functions(module: CodeType) -> bool:
    """Give each function of that file its code in this module. Return False if that is impossible."""
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _inner_codes(module)}
    replaced = False
    gc.unfreeze()  # tests/conftest.py froze what was collected, and frozen objects are not listed
    for function in gc.get_objects():
        if type(function) is not FunctionType or function.__code__.co_filename != module.co_filename:
            continue
        code = codes.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
        if code is None or code == function.__code__:
            continue
        try:
            function.__code__ = code
        except ValueError:  # it closes over other variables
            return False
        replaced = True
    return replaced


def _inner_codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inner_codes(constant)


def _run_planted(path: str, code: CodeType, tests: Sequence[str]) -> int:
    sys.meta_path.insert(0, _Planter(_module_name(path), code))
    return int(pytest.main([*_ARGUMENTS, *tests]))


class _Planter:
    """Finds one module with other code."""

    def __init__(self, name: str, code: CodeType) -> None:
        self._name = name
        self._code = code

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if name != self._name or (spec := PathFinder.find_spec(name, path)) is None or spec.origin is None:
            return None
        spec.loader = _PlantedLoader(name, spec.origin, self._code)
        return spec


class _PlantedLoader(SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


def _module_name(path: str) -> str:
    """Return the dotted name of a file of one of the source roots."""
    root = next(root for root in _SOURCE_ROOTS if Path(path).is_relative_to(root))
    name = ".".join(Path(path).relative_to(root).with_suffix("").parts)
    return name.removesuffix(".__init__")


def _run_fork(work: Callable[[], int], limit: float) -> int | None:
    """Return the exit code of this work in a fork, or None after so many seconds."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            _silence()
            code = int(work())
        except BaseException:  # a fork never returns to the code that made it
            code = 1
        finally:
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _silence() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
