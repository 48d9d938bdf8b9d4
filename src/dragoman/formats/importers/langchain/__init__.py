"""LangChain's messages, and what LangGraph and LangSmith keep them in."""
