"""The page of the gateway for holders of an admin key: its requests, its spend, and the stored conversations."""
