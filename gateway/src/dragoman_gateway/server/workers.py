"""Runs several processes that answer requests on one address, with one board and one configuration."""

import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType

from dragoman_gateway.log import logger
from dragoman_gateway.running.board import VARIABLE, Board, Status, total

_CHECK_SECONDS = 0.5
_READY_SECONDS = 0.05
_RELOAD_SECONDS = 45.0
"""How long the workers may take to read the configuration. A server that is away is asked again meanwhile."""
_SETTLE_SECONDS = 10.0
"""How long after the start of a worker its configuration is compared with that of the others."""
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGBREAK") if hasattr(signal, name))


class Workers:
    """Starts the processes, passes the signals on to them, and replaces one that dies. ``work`` serves a socket.

    SIGHUP lets all of them read the configuration. They adopt it only if each has read the same.
    """

    def __init__(self, number: int, work: Callable[[socket.socket], None], listener: socket.socket) -> None:
        self._number = number
        self._work = work
        self._listener = listener
        self._context = multiprocessing.get_context("spawn")
        self._processes: list[SpawnProcess] = []
        self._ends = threading.Event()
        self._folder = Path(tempfile.mkdtemp(prefix="dragoman-gateway-"))
        self._board = Board(self._folder)
        self._orders = 0
        self._reloads = threading.Event()
        self._compare_at: float | None = None
        """When the configuration of a new worker is compared with that of the others."""

    def run(self) -> None:
        """Return when all processes have ended."""

        def end(number: int, frame: FrameType | None) -> None:
            self._ends.set()
            self._pass_on(number)

        for number in _ENDING:
            signal.signal(number, end)
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, lambda *_: self._reloads.set())
        os.environ[VARIABLE] = str(self._folder)
        try:
            self._processes = [self._start() for _ in range(self._number)]
            while not self._ends.wait(_CHECK_SECONDS):
                self._replace_dead()
                # A worker that was started later may have read another configuration than the others.
                if self._compare_at is not None and time.monotonic() >= self._compare_at:
                    self._compare_at = None
                    others = total([Status.model_validate(each) for each in self._board.others()])
                    if len(set(others.workers.values())) > 1:
                        self._reloads.set()
                while self._reloads.is_set() and not self._ends.is_set():
                    self._reloads.clear()
                    self._reload()
            for process in self._processes:
                process.join()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> SpawnProcess:
        """Start a process. It gets a signal to reload when it is able to: until then, the signal waits."""
        process = self._context.Process(target=_work_with_parent, args=(self._work, self._listener))
        if hasattr(signal, "SIGHUP"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        try:
            process.start()
        finally:
            if hasattr(signal, "SIGHUP"):
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        return process

    def _replace_dead(self) -> None:
        for index, process in enumerate(self._processes):
            if not process.is_alive() and not self._ends.is_set():
                logger.error("a worker ended with the code %s: another one starts", process.exitcode)
                worker = str(process.pid)  # what it had counted stays
                known = (self._board.ended(), self._board.status_of(worker))
                counted = total([Status.model_validate(each).counted() for each in known]).counted()
                self._board.retire(worker, counted.model_dump(mode="json"))
                self._processes[index] = self._start()
                self._compare_at = time.monotonic() + _SETTLE_SECONDS

    def _reload(self) -> None:
        """Let all workers read the configuration, and then take it, if each has read the same."""
        self._orders += 1
        self._board.order({"number": self._orders})
        self._pass_on(signal.SIGHUP)
        version, deadline = None, time.monotonic() + _RELOAD_SECONDS
        while time.monotonic() < deadline and not self._ends.wait(_READY_SECONDS):
            living = [str(each.pid) for each in self._processes if each.is_alive()]
            prepared = [self._board.status_of(each).get("prepared") or {} for each in living]
            ready = [each for each in prepared if each.get("number") == self._orders]
            if any("error" in each for each in ready):
                break
            if living and len(ready) == len(living):
                versions = {each.get("version") for each in ready}
                version = versions.pop() if len(versions) == 1 else None
                if versions:  # the file was changed in between
                    self._reloads.set()
                break
        self._board.order({"number": self._orders, "take": version})

    def _pass_on(self, number: int) -> None:
        for process in self._processes:
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, number)


def _work_with_parent(work: Callable[[socket.socket], None], listener: socket.socket) -> None:
    """Work, and end in order if the first process was killed: nothing could reload, replace or end this one any more,
    and it would keep the address.
    """

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            shutil.rmtree(os.environ[VARIABLE], ignore_errors=True)
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, name="gateway-parent", daemon=True).start()
    work(listener)
