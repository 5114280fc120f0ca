"""Commands of maintainers, run in the root of the repository."""
