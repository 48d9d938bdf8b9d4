"""Sets the precision of the runtime: 32-bit floats, on every CPU.

By default the runtime uses what is fastest on the CPU: bfloat16 with AVX512_BF16 or AMX, float16 on ARM, 8-bit
activations with VNNI, and an 8-bit key-value cache. Each of them rounds differently, so the same question gets
different words on the next machine. With 32-bit floats only the order of additions depends on the CPU; that rarely
changes a word, but it can.

The hints are described at
https://docs.openvino.ai/2025/openvino-workflow/running-inference/optimize-inference/precision-control.html.
"""

import os
from collections.abc import Mapping
from typing import Any

from dragoman.adapter.errors import ConfigurationError

PRECISION_VARIABLE = "DRAGOMAN_LOCAL_PRECISION"
"""Selects another precision. If the CPU lacks it, the runtime uses 32-bit floats."""
THREADS_VARIABLE = "DRAGOMAN_LOCAL_THREADS"
"""The number of threads that compute; by default the runtime decides."""

PRECISIONS = ("f32", "bf16", "f16")


def runtime_properties(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the properties that a pipeline is made with. Raises ConfigurationError if a variable makes no sense."""
    precision = environ.get(PRECISION_VARIABLE, "").strip() or "f32"
    if precision not in PRECISIONS:
        raise ConfigurationError(f"{PRECISION_VARIABLE} is {precision!r}; use one of {', '.join(PRECISIONS)}")
    properties: dict[str, Any] = {"INFERENCE_PRECISION_HINT": precision}
    if precision == "f32":
        # The precision does not cover 8-bit activations and the 8-bit cache: this turns them off.
        properties["EXECUTION_MODE_HINT"] = "ACCURACY"
    threads = environ.get(THREADS_VARIABLE, "").strip()
    if threads:
        if not threads.isdecimal() or int(threads) == 0:
            raise ConfigurationError(f"{THREADS_VARIABLE} is {threads!r}; it must be a whole number of at least 1")
        properties["INFERENCE_NUM_THREADS"] = int(threads)
    return properties
