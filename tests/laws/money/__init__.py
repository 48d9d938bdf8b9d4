"""Value that is delivered is booked: a caller who cuts, leaves and is served what it did not ask, on every road."""
