"""Every member of the SDKs' block, item and part unions: constructed, read, kept and sent back.

`python -m tests.conformance.unions` prints what does not come back, with its reason, and exits with 1 if one has none.
"""
