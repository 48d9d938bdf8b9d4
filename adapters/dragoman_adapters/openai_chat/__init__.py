"""Chat Completions, OpenAI's and that of many others. A `Dialect` has the differences."""
