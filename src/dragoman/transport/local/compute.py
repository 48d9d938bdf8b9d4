"""How the runtime computes: in 32-bit floats, on every CPU.

Left alone, the runtime takes whatever is fastest on the CPU that it finds: bfloat16 with AVX512_BF16 or AMX, float16
on ARM, activations rounded to 8 bits with VNNI, and a cache of keys and values in 8 bits. Each of them rounds in its
own way, so the same question gets other words on the next machine. With 32-bit floats only the order of additions is
left to the CPU, which rarely changes a word, but may.

The hints are described at
https://docs.openvino.ai/2025/openvino-workflow/running-inference/optimize-inference/precision-control.html.
"""

import os
from collections.abc import Mapping
from typing import Any

from dragoman.adapter.errors import ConfigurationError

PRECISION_VARIABLE = "DRAGOMAN_LOCAL_PRECISION"
"""Names another precision. If the CPU lacks it, the runtime takes 32-bit floats."""
THREADS_VARIABLE = "DRAGOMAN_LOCAL_THREADS"
"""How many threads compute; by default the runtime decides."""

PRECISIONS = ("f32", "bf16", "f16")


def runtime_properties(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the properties that a pipeline is made with. Raises ConfigurationError if a variable makes no sense."""
    precision = environ.get(PRECISION_VARIABLE, "").strip() or "f32"
    if precision not in PRECISIONS:
        raise ConfigurationError(f"{PRECISION_VARIABLE} is {precision!r}; there are {', '.join(PRECISIONS)}")
    properties: dict[str, Any] = {"INFERENCE_PRECISION_HINT": precision}
    if precision == "f32":
        # The precision does not cover the rounding to 8 bits, of activations and of the cache: this turns it off.
        properties["EXECUTION_MODE_HINT"] = "ACCURACY"
    threads = environ.get(THREADS_VARIABLE, "").strip()
    if threads:
        if not threads.isdecimal() or int(threads) == 0:
            raise ConfigurationError(f"{THREADS_VARIABLE} is {threads!r}; it is a whole number of at least 1")
        properties["INFERENCE_NUM_THREADS"] = int(threads)
    return properties
