"""Several processes that answer requests on one address."""

import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from types import FrameType

from dragoman.logs import get_logger

logger = get_logger("dragoman.gateway")

_CHECK_SECONDS = 0.5
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGBREAK") if hasattr(signal, name))


class Workers:
    """Starts the processes, passes the signals on to them, and replaces one that dies. ``work`` serves a socket."""

    def __init__(self, number: int, work: Callable[[socket.socket], None], listener: socket.socket) -> None:
        self._number = number
        self._work = work
        self._listener = listener
        self._context = multiprocessing.get_context("spawn")
        self._processes: list[SpawnProcess] = []
        self._ends = threading.Event()

    def run(self) -> None:
        """Return when all processes have ended."""
        for number in _ENDING:
            signal.signal(number, self._end)
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, self._pass_on)
        self._processes = [self._start() for _ in range(self._number)]
        while not self._ends.wait(_CHECK_SECONDS):
            self._replace_dead()
        for process in self._processes:
            process.join()

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
                self._processes[index] = self._start()

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ends.set()
        self._pass_on(number, frame)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        for process in self._processes:
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, number)


def _work_with_parent(work: Callable[[socket.socket], None], listener: socket.socket) -> None:
    """Work, and end in order if the first process was killed: nobody could reload, replace or end this one any more,
    and it would keep the address.
    """
    threading.Thread(target=_end_with_parent, name="gateway-parent", daemon=True).start()
    work(listener)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
