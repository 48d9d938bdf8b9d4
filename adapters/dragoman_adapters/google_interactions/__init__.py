"""Google's Interactions API: a conversation as steps, stored by Google or sent with each request."""
