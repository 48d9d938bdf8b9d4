"""Chat Completions, as OpenAI speaks it and as many others do: what differs between them is a `Dialect`."""
