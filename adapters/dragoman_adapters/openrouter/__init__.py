"""OpenRouter: its dialect, and the facts about its models by vendor.

``dragoman_adapters.openai_chat`` encodes and decodes, errors included; ``dragoman_adapters.openai_responses`` does so
for conversations in that API.
"""
