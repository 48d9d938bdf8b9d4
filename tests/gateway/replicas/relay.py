"""A TCP relay on 127.0.0.1 in front of a server, which can part the server from its clients."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

_PIECE = 1 << 16


class Relay:
    """Passes bytes between clients and the server at an address.

    While it is parted, it accepts connections and passes nothing on, as a network that loses every packet. ``reset``
    breaks all connections off instead, and refuses new ones.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._passes = threading.Event()
        self._passes.set()
        self._refuses = False
        self._ended = False
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        self._passes.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._break_all()

    def part(self, *, reset: bool = False) -> None:
        """Part the server from its clients."""
        self._refuses = reset
        self._passes.clear()
        if reset:
            self._break_all()

    def heal(self) -> None:
        """Connect both sides again. Connections of the time before are lost, as after a long partition."""
        self._refuses = False
        self._break_all()
        self._passes.set()

    def _break_all(self) -> None:
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._ended:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refuses:
                client.close()
                continue
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._server, 5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        with self._lock:
            self._sockets |= {client, server}
        back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
        back.start()
        self._pump(client, server)
        back.join()
        for each in (client, server):
            each.close()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := source.recv(_PIECE):
                self._passes.wait()
                sink.sendall(piece)
        except OSError:
            pass
        finally:
            for each in (source, sink):
                with self._lock:
                    self._sockets.discard(each)
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
