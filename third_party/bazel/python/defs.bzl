"""Stands in for @rules_python: the rules that ../../../BUILD loads."""

py_library = native.py_library
py_test = native.py_test
