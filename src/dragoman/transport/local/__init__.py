"""A model in this process: the transport behind the provider `local`.

`carrier` is the transport; `model` loads and runs, `compute` says how precisely; `prompt` and `examples` say what the
model reads, `choice` and `spans` help a model too small to choose by itself, `reply` turns its text into the wire's
lines; `files`, `gguf` and `install` look after the file.
"""

from dragoman.transport.local.transport import AsyncLocalTransport, LocalTransport, notify_terminal

__all__ = ["AsyncLocalTransport", "LocalTransport", "notify_terminal"]
