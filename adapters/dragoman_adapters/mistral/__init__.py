"""Mistral's chat API: its dialect and its models.

``dragoman_adapters.openai_chat`` encodes and decodes, errors included.
"""
