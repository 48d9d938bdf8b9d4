"""How much of each provider's API a program can ask for, by evidence: `python -m tests.conformance.coverage`.

The official SDKs say what there is: their types name each parameter, header, part, tool, event and stop reason. Each
SDK sends samples of all of it to a server on loopback. Dragoman's request with the same meaning must have the same
value at the same place. A row is one of:

- typed: an option, a block or a tool of this library writes it, and the SDK sends that very value there;
- extra: the caller's ``extra`` or ``headers``, a native block or a `ProviderTool` writes it, at the same place;
- absent: a program cannot send it.
"""
