"""Sends attacks, in a process of its own."""

import http.client
import os
import socket
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from typing import Any

from tests.gateway.hostile.attacks import ATTACKS, Sent

_PARALLEL = 8
_NICE = 19
"""The attacker is another machine: it takes no CPU from the gateway here, and has one of its own if there are two."""


def send(name: str, url: str, secret: str, known: dict[str, str], cpu: int, results: Connection) -> None:
    """Send an attack until the other side closes the connection or says stop; then say how it was answered."""
    os.nice(_NICE)
    os.sched_setaffinity(0, {cpu})
    attack = next(each for each in ATTACKS if each.name == name)
    host, port = url.removeprefix("http://").split(":")
    sent, statuses, ends = attack.make(known), Counter[int](), threading.Event()
    results.send("ready")
    results.recv()
    with ExitStack() as stack:
        if attack.held:
            for number in range(attack.held):
                with suppress(OSError):
                    stack.enter_context(_hold((host, int(port)), sent[number % len(sent)], secret))
            results.recv()
        else:
            targets = [
                threading.Thread(target=_repeat, args=((host, int(port)), sent, secret, number, statuses, ends))
                for number in range(_PARALLEL)
            ]
            for target in targets:
                target.start()
            results.recv()
            ends.set()
            for target in targets:
                target.join()
    results.send(dict(statuses))


def _repeat(
    address: tuple[str, int], sent: list[Sent], secret: str, number: int, statuses: Counter[int], ends: threading.Event
) -> None:
    connection = http.client.HTTPConnection(*address, timeout=120)
    while not ends.is_set():
        request = sent[number % len(sent)]
        number += 1
        try:
            connection.request("POST", request.path or "/", request.body, _with_key(request, secret))
            reply = connection.getresponse()
            reply.read()
            statuses[reply.status] += 1
            if reply.status == 429:
                time.sleep(0.01)
        except (OSError, http.client.HTTPException):  # it may be refused before all of it was sent
            statuses[0] += 1
            connection.close()
    connection.close()


def _with_key(request: Sent, secret: str) -> dict[str, str]:
    return dict(request.headers) | ({"authorization": f"Bearer {secret}"} if secret else {})


def _hold(address: tuple[str, int], request: Sent, secret: str) -> Any:
    connection = socket.create_connection(address, timeout=10)
    if request.path is not None:
        lines = [f"POST {request.path} HTTP/1.1", "host: x", f"content-length: {request.length}"]
        lines += [f"{name}: {value}" for name, value in _with_key(request, secret).items()]
        connection.sendall("\r\n".join([*lines, "\r\n"]).encode())
    with suppress(OSError):  # it may be refused
        connection.sendall(request.body)
    return connection
