"""A model in this process: the transport behind the provider `local`.

`transport` is the transport; `model` loads and runs, `compute` sets the precision; `prompt` and `examples` build the
model's input, `tool_selection` and `argument_choices` help a model that is too small to choose by itself, `reply` turns
its text into lines; `files`, `gguf` and `install` handle the model file.
"""

from dragoman.transport.local.transport import AsyncLocalTransport, LocalTransport, notify_terminal

__all__ = ["AsyncLocalTransport", "LocalTransport", "notify_terminal"]
