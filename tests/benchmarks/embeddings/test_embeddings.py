"""The benchmark of embeddings gets all vectors from its provider."""

import threading
from http.server import ThreadingHTTPServer

from tests.benchmarks.embeddings.__main__ import Handler, answer, ours


def test_our_client_embeds_all_texts() -> None:
    """No time is asserted: it belongs to the machine. The provider answers in both encodings."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            embed = ours(f"http://127.0.0.1:{server.server_port}/v1")
            assert embed([f"text {number}" for number in range(40)]) == 40
        finally:
            server.shutdown()
            thread.join()
    assert set(Handler.prepared) == {(40, "base64")}
    assert b'"embedding": "' in answer(1, "base64")
    assert b'"embedding": [1.0,' in answer(1, "float")
