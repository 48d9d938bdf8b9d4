"""The adapter for Bedrock's runtime, and the signing of its requests."""
