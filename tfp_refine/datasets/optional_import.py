"""Imports packages that only some installations have."""

import importlib


def import_optional(module, extra, purpose):
    """Imports a package of an extra of this library.

    Args:
        module: Name of the module, such as `"cv2"`.
        extra: Extra of `tfp_refine` that installs it.
        purpose: What it is needed for, the beginning of the error.

    Returns:
        module: The imported module.

    Raises:
        ValueError: If it is not installed, with the command that does.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"{purpose} must have the package `{module}`: "
            f"pip install 'tfp_refine[{extra}]'. Received: {error}"
        ) from error
