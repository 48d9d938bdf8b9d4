"""OpenAI's two APIs: Responses, and Chat Completions with the endpoints that copy it."""
