"""Data sets as experiments take them."""
