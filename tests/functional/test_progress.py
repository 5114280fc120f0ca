import pytest

from tfp_refine.functional import progress


def lines(capsys):
    return capsys.readouterr().err.splitlines()


def test_each_tenth_has_a_line(capsys):
    bar = progress.Progress("training", 30000, interval=0)
    for done in range(0, 30001, 100):
        bar.update(done, loss=0.5)
    written = lines(capsys)
    assert [line.split(" of ")[0] for line in written[:-1]] == [
        f"training: {tenth}0% ({3000 * tenth}" for tenth in range(1, 10)
    ]
    assert all(line.endswith(" s left, loss 0.5") for line in written[:-1])
    assert written[-1].startswith("training: 30000 steps in ")
    assert written[-1].endswith(", loss 0.5")


def test_quick_work_has_one_line(capsys):
    bar = progress.Progress("sampling", 10, unit="draws")
    for _ in range(10):
        bar.add(1)
    bar.close()
    assert lines(capsys) == ["sampling: 10 draws in 0 s"]


def test_silent_work_writes_nothing(capsys):
    progress.Progress("sampling", 10, verbose=0).update(10)
    assert lines(capsys) == []


@pytest.mark.parametrize("verbose", [1, 2])
def test_only_a_terminal_has_a_bar(capsys, monkeypatch, verbose):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "_DRAW_SECONDS", 0)
    bar = progress.Progress("sampling", 10, verbose, interval=0)
    bar.update(5)
    assert ("━" in capsys.readouterr().err) == (verbose == 1)


def test_work_of_earlier_runs_is_not_counted_for_the_time_left(
    capsys, monkeypatch
):
    now = iter([0.0, 100.0, 110.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    bar = progress.Progress("training", 1000, interval=0)
    bar.update(800)  # A restart, which takes 100 s.
    bar.update(900)
    assert lines(capsys) == [
        "training: 90% (900 of 1000 steps), 10 s left",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (40.6, "41 s"),
        (59.6, "1 min 0 s"),
        (185, "3 min 5 s"),
        (3600, "1 h 0 min"),
        (7805, "2 h 10 min"),
    ],
)
def test_durations_are_readable(seconds, text):
    assert progress.duration(seconds) == text


def test_work_that_was_not_done_is_not_told(capsys):
    progress.Progress("training", 5).close()
    assert not capsys.readouterr().err
