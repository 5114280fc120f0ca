"""Lists the experiments: `python -m tfp_refine.experiments`."""

import argparse
import ast
import pathlib


def main() -> None:
    """Prints the command and the first line of each experiment."""
    command = "python -m tfp_refine.experiments"
    argparse.ArgumentParser(
        prog=command, description="Lists the experiments."
    ).parse_args()
    print("Experiments, each with --help:")
    for path in sorted(pathlib.Path(__file__).parent.glob("*/__main__.py")):
        source = path.with_name("__init__.py").read_text(encoding="utf-8")
        title = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
        print(f"  {command}.{path.parent.name}\n    {title}")


if __name__ == "__main__":
    main()
