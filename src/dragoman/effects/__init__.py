"""The language between work that does no I/O and the code that does it.

Work is a generator: it yields effects, and receives the outcome of each. `drive` and `drive_async` carry them out.
"""
