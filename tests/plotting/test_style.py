"""Habits that all figures share."""

import inspect
import io
import pathlib
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib import colors
from matplotlib import pyplot
from matplotlib.figure import Figure

from tfp_refine import plotting
from tfp_refine.plotting import style

GRID = np.linspace(-3.0, 3.0, 31)
BELL = np.exp(-0.5 * GRID**2)
BINS = ([4, 5, 9], [0.2, 0.6, 0.9], [0.2, 0.5, 0.9], [0.0, 0.3, 0.6, 1.0])
DRAWS = np.random.default_rng(0).normal(size=(50, 2))
ENTROPIES = {"a": {"b": [0.0, 0.5, 1.0], "c": [0.3]}, "d": {"b": [0.1]}}
MANY = {
    name: [1, 2]
    for name in ("accuracy", "depth", "entropy", "epsilon", "length", "nll",
                 "removed", "step", "strength", "test_accuracy",
                 "train_accuracy")
} | {"pruned": 1, "values": [[1], [2]]}  # fmt: skip
LENGTHS = {"length": [1, 2], "mmd": [1.0, 0.5]}
STAIRCASE = {"steps": [2], "trace_step": [1, 2], "trace_elbo": [[-9.0, -7.0]],
             "elbo_init": [-8.0], "elbo_aux": [[-6.0]]}  # fmt: skip
STRENGTHS = {"a": {"strength": [1, 2], "nll": [1, 2], "ece": [0, 1]}}
WEIGHTS = {"loc": GRID, "scale": BELL, "bias_loc": [0.1], "bias_scale": [0.2]}
TABLE = np.full((2, 2), 0.1)
# Arguments and the number of axes.
CASES = {
    "attack_curves": (({"a": MANY},), 2),
    "convergence": (({"a": [MANY]}, {"nll": "NLL (nats)"}), 1),
    "densities": ((GRID, {"exact": BELL, "fit": 0.9 * BELL}), 1),
    "depth_sweep": (({"a": MANY}, "y"), 1),
    "elbo_staircase": ((STAIRCASE,), 1),
    "entropy_cdf": ((ENTROPIES,), 2),
    "entropy_histogram": ((ENTROPIES,), 2),
    "flow_length": (({"a": LENGTHS},), 1),
    "integration_errors": (([0.0, 1.0], [1.0, 2.0], TABLE, TABLE), 3),
    "learning_curves": (({"nll": [2, 1], "val_nll": [3, 2], "kl": [1]},), 2),
    "memorization": (({"a": MANY}, 0.1), 2),
    "posterior_contours": (
        (GRID, GRID, np.log(np.outer(BELL, BELL)), {"a": DRAWS, "b": DRAWS}),
        2,
    ),
    "posterior_histograms": (({"w": {"VI": WEIGHTS}},), 2),
    "posterior_scatter": (({"w": WEIGHTS, "v": WEIGHTS}, {"w": 0.1}), 2),
    "predictive_bands": (
        (GRID, {"a": {"mean": GRID, "scale": BELL}}, (GRID, GRID), GRID),
        1,
    ),
    "prediction_intervals": (
        (
            {
                "a": {
                    "target": [1.0, 2.0],
                    "mean": [1.1, 3.0],
                    "low": [0.9, 2.9],
                    "high": [1.2, 3.1],
                }
            },
        ),
        1,
    ),
    "pruning_curve": (({"a": MANY},), 1),
    "ranking": (({"a": [1.0, 2.0], "b": [0.5]}, "NLL (nats)"), 1),
    "reliability_diagram": (({"a": BINS},), 2),
    "rotated_digit": (
        (np.ones((2, 4, 4)), [0, 90], {"a": np.full((3, 2, 2), 0.5)}),
        2,
    ),
    "shift_curves": (({"rotation": STRENGTHS, "fog": STRENGTHS},), 4),
}
# Their arguments are arrays, or a history that always holds something.
_NEVER_EMPTY = {"densities", "elbo_staircase", "integration_errors"}
of_every_figure = pytest.mark.parametrize("name", CASES)


def draw(name, **options):
    arguments, _ = CASES[name]
    return np.ravel(getattr(plotting, name)(*arguments, **options))


def test_every_function_has_a_case():
    assert {*CASES, "save"} == set(plotting.__all__)


@of_every_figure
def test_a_new_figure_is_drawn_and_all_its_axes_are_labelled(name):
    drawn = draw(name)
    assert len(drawn) == CASES[name][1]
    assert len(pyplot.get_fignums()) == 1
    shown = [axes for axes in drawn if axes.axison]
    for shared, label in (
        ("get_shared_x_axes", "get_xlabel"),
        ("get_shared_y_axes", "get_ylabel"),
    ):
        for axes in shown:
            siblings = getattr(axes, shared)().get_siblings(axes)
            assert any(getattr(one, label)() for one in siblings)
    stream = io.BytesIO()
    plotting.save(drawn, stream, close=True)
    assert stream.getvalue().startswith(b"\x89PNG")
    assert pyplot.get_fignums() == []


@of_every_figure
def test_given_axes_are_drawn_on_without_pyplot(name):
    before = dict(matplotlib.rcParams)
    count = CASES[name][1]
    given = Figure().subplots(count, squeeze=False)
    drawn = draw(name, ax=given[0, 0] if count == 1 else given)
    assert list(drawn) == list(given.ravel())
    assert all(axes.has_data() for axes in drawn)
    assert all(axes.get_xlabel() for axes in drawn if axes.axison)
    assert pyplot.get_fignums() == []
    assert dict(matplotlib.rcParams) == before
    default = inspect.signature(getattr(plotting, name)).parameters["ax"]
    assert default.default is None


@pytest.mark.parametrize(("count", "columns"), [(2, 3), (3, 3), (4, 3), (3, 1)])
def test_a_new_figure_fits_on_a_page(count, columns):
    drawn = style.panels(None, count, columns, width=5.0, margin=1.0)
    assert len(drawn) == count
    assert drawn[0].get_figure().get_figwidth() <= style.PAGE
    pyplot.close()


@of_every_figure
def test_another_number_of_axes_is_refused(name):
    with pytest.raises(ValueError, match=r"`ax` must hold . axes.*Received: 7"):
        draw(name, ax=Figure().subplots(7))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        *((name, {}) for name in CASES if name not in _NEVER_EMPTY),
        ("convergence", {"a": []}),
        ("entropy_cdf", {"a": {}}),
        ("entropy_cdf", {"a": {"b": []}}),
        ("entropy_histogram", {"a": {"b": [0.1]}, "c": {}}),
        ("learning_curves", {"nll": [1.0], "kl": []}),
        ("posterior_histograms", {"a": {}}),
        ("ranking", {"a": []}),
        ("shift_curves", {"a": {}}),
    ],
)
def test_nothing_to_draw_is_refused(name, data):
    function = getattr(plotting, name)
    position = {
        "predictive_bands": 1,
        "posterior_contours": 3,
        "rotated_digit": 2,
    }
    arguments = list(CASES[name][0])
    arguments[position.get(name, 0)] = data
    with pytest.raises(ValueError, match="must hold.*Received: "):
        function(*arguments)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("attack_curves", {"a": {"epsilon": [1], "accuracy": [1]}}),
        ("convergence", {"a": [{"step": [1]}]}),
        ("depth_sweep", {"a": {"depth": [1]}}),
        ("elbo_staircase", {"steps": [1]}),
        ("flow_length", {"a": {"b": [1]}}),
        ("memorization", {"a": {"step": [1]}}),
        ("posterior_histograms", {"w": {"VI": {"loc": [1]}}}),
        ("posterior_scatter", {"w": {"loc": [1], "scale": [1]}}),
        ("prediction_intervals", {"a": {"target": [1]}}),
        ("pruning_curve", {"a": {"removed": [1], "nll": [1]}}),
        ("shift_curves", {"a": {"b": {"nll": [1]}}}),
    ],
)
def test_the_name_of_a_missing_curve_is_shown(name, data):
    arguments = [data, *CASES[name][0][1:]]
    first = next(iter(inspect.signature(getattr(plotting, name)).parameters))
    with pytest.raises(ValueError, match=f"`{first}.* must be a dict with '"):
        getattr(plotting, name)(*arguments)
    assert pyplot.get_fignums() == []


def test_colors_differ_in_grey_and_lines_without_colors():
    linear = np.array([colors.to_rgb(color) for color in style.COLORS]) ** 2.2
    lightness = 116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16
    assert np.all(np.diff(np.sort(lightness)) > 5.0)
    looks = [style.series(index) for index in range(30)]
    assert len({(str(s["linestyle"]), s["marker"]) for s in looks}) == 30


def test_saving_writes_a_file_of_axes_or_a_figure(tmp_path):
    axes = Figure().subplots()
    for drawn in (axes, axes.figure, np.array([[axes]])):
        plotting.save(drawn, tmp_path / "figure.pdf")
        assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
        (tmp_path / "figure.pdf").unlink()


def test_a_figure_that_cannot_be_drawn_leaves_the_old_file(tmp_path):
    path = tmp_path / "figure"
    axes = Figure().subplots()
    plotting.save(axes, path)
    (whole,) = tmp_path.iterdir()
    assert whole.name == "figure.png"
    contents = whole.read_bytes()
    axes.set_title("$\\unknown$")
    with pytest.raises(ValueError, match="unknown"):
        plotting.save(axes, path)
    assert list(tmp_path.iterdir()) == [whole]
    assert whole.read_bytes() == contents


def test_a_figure_in_no_folder_is_named(tmp_path):
    path = tmp_path / "absent" / "figure.png"
    with pytest.raises(OSError, match=f"Cannot write '{path}'"):
        plotting.save(Figure().subplots(), path)


@pytest.mark.slow
def test_the_room_needs_only_numpy_and_matplotlib():
    package = pathlib.Path(plotting.__path__[0]).parent
    program = f"""
import sys
import types

root = sys.modules["tfp_refine"] = types.ModuleType("tfp_refine")
root.__path__ = [{str(package)!r}]
import tfp_refine.plotting

assert "tensorflow" not in sys.modules
assert "keras" not in sys.modules
assert "scipy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
