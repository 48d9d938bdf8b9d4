"""OpenAI's words for service tiers, by ours and by its own."""

_OWN = ("auto", "default", "flex", "scale", "priority", "fast", "ultrafast")
SERVICE_TIERS: dict[str, str | bool] = {"auto": "auto", "standard": "default", **{word: word for word in _OWN}}
