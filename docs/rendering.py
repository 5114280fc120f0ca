"""Docstrings on the site: a Griffe extension, see `mkdocs.yml`."""

import re

import griffe

# An argument that is described in the section `Call arguments`.
_ARGUMENT = re.compile(r"^( {4})(\*{0,2}\w+): ", re.MULTILINE)
_CALL_ARGUMENTS = re.compile(
    r"(?<=^Call arguments:\n)(?: {4}.*\n?)+", re.MULTILINE
)


def list_call_arguments(text):
    """Makes a list of the arguments in Keras' section `Call arguments`.

    Google style has no such section: they would be one paragraph.
    """
    return _CALL_ARGUMENTS.sub(
        lambda section: _ARGUMENT.sub(r"\1- `\2`: ", section.group()), text
    )


class AsImported(griffe.Extension):
    """Shows names, docstrings and call arguments as a user gets them."""

    def on_instance(self, *, node, obj, **kwargs):
        if obj.docstring is not None:
            obj.docstring.value = list_call_arguments(obj.docstring.value)

    def on_attribute_instance(self, *, node, attr, **kwargs):
        # A constant has the docstring of its type.
        if "property" not in attr.labels:
            attr.docstring = None

    def on_package(self, *, pkg, loader, **kwargs):
        # A function replaces the module of the same name that it is imported
        # from.
        for room in pkg.modules.values():
            for name, module in room.modules.items():
                if name in module.functions:
                    function = module.functions[name]
                    function.parent = room
                    room.members[name] = function
