"""OpenAI's words for service tiers, by ours and by its own."""

_OWN = ("auto", "default", "flex", "scale", "priority", "fast", "ultrafast")
SERVICE_TIERS: dict[str, str | bool] = {"auto": "auto", "standard": "default", **{word: word for word in _OWN}}

MAX_USER_LENGTH = 64
"""The characters that ``safety_identifier`` may have (https://platform.openai.com/docs/api-reference/responses)."""
