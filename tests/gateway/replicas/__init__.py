"""Several gateways that share only PostgreSQL and Redis: kills, partitions, and two versions beside each other."""
