"""A gateway of two workers under full load: budgets, stored responses, notes and reloads, with kills."""
