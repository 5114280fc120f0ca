"""Progress of long work: a bar on a terminal, lines elsewhere."""

import shutil
import sys
import time

_DRAW_SECONDS = 0.1  # Least time between two bars.
_BAR_WIDTH = 24


class Progress:
    """Shows on standard error how far a piece of work is.

    A terminal shows a bar. Elsewhere a line is written at each tenth that takes
    its time, and one at the end.

    Args:
        name: Name of the work, such as `"training"`.
        total: Number of steps.
        verbose: 0 is silent, 1 a bar on a terminal, 2 lines.
        unit: Name of the steps, in the plural.
        interval: Least time between two lines, in seconds.
    """

    def __init__(
        self,
        name: str,
        total: int,
        verbose: int = 1,
        *,
        unit: str = "steps",
        interval: float = 2.0,
    ) -> None:
        self._name, self._total, self._unit = name, total, unit
        self._is_silent = not verbose
        self._has_bar = verbose == 1 and sys.stderr.isatty()
        self._interval = _DRAW_SECONDS if self._has_bar else interval
        self._begin = self._shown = time.monotonic()
        self._first: tuple[int, float] | None = None
        self._done = self._tenth = 0
        self._is_closed = False

    def update(self, done: int, **values: float) -> None:
        """Shows that so many steps are done, those of earlier runs too.

        Args:
            done: Number of steps. The last one closes the progress.
            **values: Numbers to show, such as `loss`.
        """
        now = time.monotonic()
        if self._first is None:  # Steps before are an earlier run's, or slow.
            self._first = done, now
            self._tenth = self._tenths(done)
        self._done = done
        text = "".join(f", {name} {v:.5g}" for name, v in values.items())
        if done >= self._total:
            self.close(text)
        elif now - self._shown >= self._interval:
            self._show(f"{self._time_left(now)}{text}", now)

    def add(self, steps: int) -> None:
        """Adds steps that are done."""
        self.update(self._done + steps)

    def close(self, text: str = "") -> None:
        """Prints the duration of the work, if there was any."""
        if self._is_closed or self._first is None:
            return
        self._is_closed = True
        taken = duration(time.monotonic() - self._begin)
        erase = "\r\x1b[K" if self._has_bar else ""
        self._write(
            f"{erase}{self._name}: {self._done} {self._unit} in {taken}{text}\n"
        )

    def _show(self, text, now):
        count = f"{self._done} of {self._total} {self._unit}"
        tenth = self._tenths(self._done)
        if self._has_bar:
            full = _BAR_WIDTH * self._done // max(self._total, 1)
            bar = "━" * full + "─" * (_BAR_WIDTH - full)
            line = f"{self._name} {bar} {count}{text}"
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r{line[:width]}\x1b[K")
        elif tenth > self._tenth:
            self._tenth = tenth
            self._write(f"{self._name}: {10 * tenth}% ({count}){text}\n")
        else:
            return
        self._shown = now

    def _tenths(self, done):
        return 10 * done // max(self._total, 1)

    def _time_left(self, now):
        done, begin = self._first
        if self._done == done:
            return ""
        left = (self._total - self._done) * (now - begin) / (self._done - done)
        return f", {duration(left)} left"

    def _write(self, text):
        if not self._is_silent:
            sys.stderr.write(text)
            sys.stderr.flush()


def duration(seconds: float) -> str:
    """Returns a time to read: `"41 s"`, `"3 min 5 s"` or `"2 h 10 min"`."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
