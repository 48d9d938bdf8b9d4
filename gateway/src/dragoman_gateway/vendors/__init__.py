"""The interfaces of vendors whose addresses have more than one purpose: Google's and Ollama's, and all embeddings."""
