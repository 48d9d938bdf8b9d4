"""The speed of embeddings, compared with other clients: `python -m tests.benchmarks.embeddings`."""
