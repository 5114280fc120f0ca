"""Tests of the source tree itself: imports, `BUILD`, public names."""
