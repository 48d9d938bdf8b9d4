"""Mistral's chat API: its dialect and its models.

What is read and written, errors too, is the business of ``dragoman_adapters.openai_chat``: the rooms are there.
"""
