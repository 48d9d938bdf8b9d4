"""OpenRouter: its dialect and what is known of the models behind it, by vendor.

``dragoman_adapters.openai_chat`` encodes and decodes, errors included; so does ``dragoman_adapters.openai_responses``
for conversations in that API.
"""
