"""Checks names and arguments in code that is not run."""

import ast
import inspect

import keras
import numpy as np
import tensorflow as tf

import tfp_refine as tfr

_MODULES = {"keras": keras, "np": np, "tf": tf, "tfr": tfr}


def check_calls(code: str) -> int:
    """Checks attributes and calls of modules in Python code.

    Args:
        code: The code, which calls modules by the names that are usual here:
            `tfr.refine`, `keras.Input`.

    Returns:
        Number of the calls of `tfp_refine` that were checked.

    Raises:
        AssertionError: If a module has no such name, or a function of
            `tfp_refine` takes no such arguments.
    """
    num_calls = 0
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute):
            _resolve(node)
        if not isinstance(node, ast.Call):
            continue
        function = _resolve(node.func)
        if function is None or not ast.unparse(node.func).startswith("tfr."):
            continue
        unpacked = any(isinstance(a, ast.Starred) for a in node.args) or any(
            keyword.arg is None for keyword in node.keywords
        )
        signature = inspect.signature(function)
        bind = signature.bind_partial if unpacked else signature.bind
        arguments = [a for a in node.args if not isinstance(a, ast.Starred)]
        try:
            bind(*arguments, **{k.arg: k for k in node.keywords if k.arg})
        except TypeError as error:
            raise AssertionError(f"{ast.unparse(node)}: {error}") from error
        num_calls += 1
    return num_calls


def _resolve(node):
    """Returns the object of `tfr.a.b`, or None if it is of no module."""
    if isinstance(node, ast.Name):
        return _MODULES.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    owner = _resolve(node.value)
    if owner is None:
        return None
    if not hasattr(owner, node.attr):
        raise AssertionError(f"There is no {ast.unparse(node)}.")
    return getattr(owner, node.attr)
