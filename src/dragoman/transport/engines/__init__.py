"""The HTTP engines: httpx and aiohttp."""
