"""TensorZero's gateway from its Python wheel: ``python tensorzero_gateway.py CONFIG``. It prints its address.

It runs in an environment that has tensorzero, without Dragoman.
"""

import signal
import sys

from tensorzero import _start_http_gateway  # type: ignore[import-not-found]  # in its own environment

gateway = _start_http_gateway(
    config_file=sys.argv[1], clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False
)
print(gateway.base_url, flush=True)
signal.pause()
