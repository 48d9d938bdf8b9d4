"""Servers between a client and a provider: a proxy, a TLS front with its own authority, an HTTP/2 server."""

import base64
import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

HOST = "127.0.0.1"


class LoopbackServer:
    """A server on loopback with a thread for each connection; ``heads`` holds the first request head of each."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.heads: list[bytes] = []
        self._tls = tls
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone would leave the thread in accept(), which still holds the socket.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_safely, args=(connection,), daemon=True).start()

    def _serve_safely(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection:
            if self._tls is None:
                self.serve(connection)
            else:
                with self._tls.wrap_socket(connection, server_side=True) as secured:
                    self.serve(secured)

    def serve(self, connection: socket.socket) -> None:
        raise NotImplementedError


class TlsFront(LoopbackServer):
    """Terminates TLS and forwards the content to a server on loopback."""

    def __init__(self, target: int, tls: ssl.SSLContext) -> None:
        super().__init__(tls=tls)
        self._target = target
        self.url = f"https://{HOST}:{self.port}"

    def serve(self, connection: socket.socket) -> None:
        with socket.create_connection((HOST, self._target)) as upstream:
            _relay(connection, upstream)


class Proxy(LoopbackServer):
    """Forwards requests as proxies do: those for http with the whole address, those for https through a tunnel.

    ``credential`` is the required ``user:password``.
    """

    def __init__(self, credential: str = "") -> None:
        super().__init__()
        self._credential = credential
        self.url = f"http://{credential}{'@' if credential else ''}{HOST}:{self.port}"

    def serve(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1)
        self.heads.append(head)
        expected = b"basic " + base64.b64encode(self._credential.encode()).lower()
        if self._credential and expected not in head.lower():
            connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            return
        method, target, _ = head.split(b" ", 2)
        if method == b"CONNECT":
            host, _, port = target.partition(b":")
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            first = b""
        else:
            host, _, port = target.removeprefix(b"http://").partition(b"/")[0].partition(b":")
            path = b"/" + target.removeprefix(b"http://").partition(b"/")[2]
            first = head.replace(target, path, 1)
        with socket.create_connection((host.decode(), int(port))) as upstream:
            upstream.sendall(first)
            _relay(connection, upstream)


def _relay(one: socket.socket, other: socket.socket) -> None:
    """Forwards bytes both ways until both sides have ended."""
    back = threading.Thread(target=_copy, args=(other, one), daemon=True)
    back.start()
    _copy(one, other)
    back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError, ValueError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError, ValueError):
        socket.socket.shutdown(target, socket.SHUT_RDWR)


class Http2Server(LoopbackServer):
    """Answers every HTTP/2 request with the body of the request. ``connections`` counts the connections it served."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        tls.set_alpn_protocols(["h2"])
        super().__init__(tls=tls)
        self.url = f"https://{HOST}:{self.port}"
        self.connections = 0

    def serve(self, connection: socket.socket) -> None:
        from h2.config import H2Configuration
        from h2.connection import H2Connection
        from h2.events import DataReceived, StreamEnded

        self.connections += 1
        bodies: dict[int, bytes] = {}
        state = H2Connection(H2Configuration(client_side=False))
        state.initiate_connection()
        connection.sendall(state.data_to_send())
        while data := connection.recv(65536):
            for event in state.receive_data(data):
                if isinstance(event, DataReceived):
                    bodies[event.stream_id] = bodies.get(event.stream_id, b"") + event.data
                elif isinstance(event, StreamEnded):
                    state.send_headers(event.stream_id, [(":status", "200")])
                    state.send_data(event.stream_id, bodies.pop(event.stream_id), end_stream=True)
            connection.sendall(state.data_to_send())


@dataclass(frozen=True)
class Authority:
    """A certificate authority that no client trusts by default. ``server()`` and ``client()`` return its contexts."""

    certificate: Path
    leaf: Path

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.leaf)
        return context

    def client(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.certificate))
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # which Python sets by default from 3.13 on
        return context


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority with a certificate for loopback."""
    pytest.importorskip("cryptography", reason="certificates are made with cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def common_name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    root_key, leaf_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .issuer_name(common_name("An authority for tests"))
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    usage = x509.KeyUsage(
        key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    root = (
        builder.subject_name(common_name("An authority for tests"))
        .public_key(root_key.public_key())
        .serial_number(1)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(root_key.public_key()), critical=False)
        .add_extension(usage, critical=True)
        .sign(root_key, hashes.SHA256())
    )
    leaf = (
        builder.subject_name(common_name("loopback"))
        .public_key(leaf_key.public_key())
        .serial_number(2)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("authority")
    paths = Authority(folder / "authority.pem", folder / "leaf.pem")
    paths.certificate.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    paths.leaf.write_bytes(
        leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + leaf.public_bytes(serialization.Encoding.PEM)
    )
    return paths
