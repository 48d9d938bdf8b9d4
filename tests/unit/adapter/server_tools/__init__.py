"""Server tools: the values, and what each wire makes of them."""
