"""Anthropic's Messages API, versions 2026-10-21 and 2023-06-01."""
