"""The history as a request sends it: whole pairs, ids and names that the provider accepts, and what was sent before."""
