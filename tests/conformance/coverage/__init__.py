"""How much of each provider's requests a program can ask for: `python -m tests.conformance.coverage`.

The parameters, content parts and tools come from the newest types of the official SDKs. Each of them is one of:

- typed: an option, a block or a tool of this library writes it;
- extra: the caller's ``extra``, a native block or a `ProviderTool` writes it, unchanged;
- absent: a program cannot send it. `absent.toml` has the reason.
"""
