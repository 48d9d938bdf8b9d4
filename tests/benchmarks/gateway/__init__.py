"""The gateway's speed beside other gateways, in one run: `python -m tests.benchmarks.gateway`."""
