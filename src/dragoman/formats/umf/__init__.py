"""The Unified Message Format."""
