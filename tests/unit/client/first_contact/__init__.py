"""What a newcomer types first, copied from the guides of other libraries."""
