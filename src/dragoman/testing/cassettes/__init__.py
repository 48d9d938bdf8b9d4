"""Recording and replaying HTTP exchanges."""
