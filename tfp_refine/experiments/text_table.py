"""Tables as text."""


def lines(rows):
    """Formats rows: the first is the head, first cells are at the left.

    Args:
        rows: List of lists of strings, all of one length.

    Returns:
        lines: List of strings, with a rule below the head.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return [text[0], "-" * len(text[0]), *text[1:]]
