"""Chat Completions of OpenAI and of many other providers. A `Dialect` describes the differences."""
