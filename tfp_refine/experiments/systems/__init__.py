"""The systems that experiments fit, each defined once."""
