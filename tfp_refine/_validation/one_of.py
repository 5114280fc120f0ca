"""Check of an argument that names one of several things."""


def one_of(name, value, known):
    """Checks that an argument is one of the known strings, and returns it."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(
            f"`{name}` must be one of {', '.join(map(repr, known))}. "
            f"Received: {name}={value!r}"
        )
    return value
