"""OpenRouter: its dialect and what is known of the models behind it, by vendor.

What is read and written, errors too, is the business of ``dragoman_adapters.openai_chat`` and, where a conversation
was had in that API, of ``dragoman_adapters.openai_responses``: the rooms are there.
"""
