"""The contract between inputs to embed and any wire: requests, replies and what each model can do. No I/O."""
