"""The cost of many usages at once, in SQL."""
