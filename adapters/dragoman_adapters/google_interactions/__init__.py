"""Google's Interactions API: a conversation as steps, kept at Google or sent along."""
