"""Counts of attacks that tests try, and their table at the end of a run."""

_PROPERTY = "attacks"


class Attacks:
    """Counts attacks of a test: those tried, and those that were survived.

    Args:
        record: `record_property` of pytest, which other processes pass on.
    """

    def __init__(self, record):
        self._counts = {}
        record(_PROPERTY, self._counts)

    def tried(self, kind, target, count=1):
        """Counts attacks of a kind on a target, at first as failed."""
        self._entry(kind, target)[0] += count

    def survived(self, kind, target, count=1):
        """Counts those of them that did no harm."""
        self._entry(kind, target)[1] += count

    def _entry(self, kind, target):
        return self._counts.setdefault(f"{kind}|{target}", [0, 0])


def table(reports):
    """Returns the lines of a table: kind, target, tried, survived, failed.

    A test without counts is one attack, of those of its file.
    """
    rows = {}
    for report in reports:
        counts = dict(report.user_properties).get(_PROPERTY) or {
            f"{report.nodeid.partition('::')[0]}|": [1, int(report.passed)]
        }
        for key, added in counts.items():
            row = rows.setdefault(key, [0, 0])
            row[0] += added[0]
            row[1] += added[1]
    width = max([16, *map(len, rows)]) + 3
    lines = [f"{'attack on target':{width}}   tried survived  failed"]
    for key, (tried, survived) in sorted(rows.items()):
        name = key.replace("|", " on ").removesuffix(" on ")
        lines.append(f"{name:{width}}{tried:8}{survived:9}{tried - survived:8}")
    return lines
