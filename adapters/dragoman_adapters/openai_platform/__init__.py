"""OpenAI's two APIs: Responses, and Chat Completions with the endpoints that copy it."""

from dragoman.adapter.contract import Endpoint

ENDPOINT = Endpoint(
    base_url="https://api.openai.com/v1",
    key_variables=("OPENAI_API_KEY",),
    base_url_variable="OPENAI_BASE_URL",
    priced_hosts=".api.openai.com",
)
"""The address of both."""
