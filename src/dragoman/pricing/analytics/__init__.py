"""Costs of many usages at once, in SQL."""
