"""What agents cost: tools, long histories with rounds of tools, events, budgets, options, and large requests."""
