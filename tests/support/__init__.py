"""Checks that tests of several rooms share."""
