import numpy as np
import pytest

from tfp_refine import plotting

S, A, C = 6, 5, 10
ANGLES = [0, 30, 60, 90, 120.5]


@pytest.fixture
def images(rng):
    return rng.uniform(size=(A, 8, 8))


@pytest.fixture
def probs(rng):
    """Class 3 turns into class 7; other classes share 5%."""
    share = np.clip(
        np.linspace(0.95, 0.0, A) + rng.normal(0, 0.1, (S, A)), 0, 1
    )
    draws = np.full((S, A, C), 0.05 / (C - 2))
    draws[..., 3] = 0.95 * share
    draws[..., 7] = 0.95 * (1.0 - share)
    return draws


def classes_of(axes):
    return [text.get_text() for text in axes[1].get_legend().texts]


def test_images_stand_above_their_angles(images, probs, tmp_path):
    for num in (1, 2, A):
        top, panel = plotting.rotated_digit(
            images[:num], ANGLES[:num], {"VI": probs[:, :num]}
        )
        plotting.save(top, tmp_path / "figure.png")  # Lays the axes out.
        assert len(top.images) == num
        ticks = panel.get_xticks()
        for image, shown, tick in zip(images, top.images, ticks, strict=False):
            np.testing.assert_array_equal(shown.get_array(), image)
            left, right, bottom, height = shown.get_extent()
            corners = top.transData.transform([(left, bottom), (right, height)])
            pixel = panel.transData.transform((tick, 0.0))[0]
            assert abs(corners[:, 0].mean() - pixel) < 2.0
            widths = corners[1] - corners[0]
            np.testing.assert_allclose(widths[0], widths[1], rtol=1e-3)
    labels = [label.get_text() for label in panel.get_xticklabels()]
    assert labels == ["0°", "30°", "60°", "90°", "120.5°"]


def test_dots_are_draws_and_lines_are_their_means(images, probs):
    _, *panels = plotting.rotated_digit(
        images, ANGLES, {"VI": probs, "refined VI": probs[:2]}
    )
    assert [axes.get_title(loc="left") for axes in panels] == [
        "VI",
        "refined VI",
    ]
    for axes, draws in zip(panels, (probs, probs[:2]), strict=True):
        for label, dots, line in zip(
            (3, 7), axes.lines[0:4:2], axes.lines[1:4:2], strict=True
        ):
            # Each dot belongs to the angle that it is nearest to.
            for angle in range(A):
                near = np.rint(dots.get_xdata()) == angle
                np.testing.assert_array_equal(
                    np.sort(dots.get_ydata()[near]),
                    np.sort(draws[:, angle, label]),
                )
            np.testing.assert_allclose(
                line.get_ydata(), draws[..., label].mean(axis=0)
            )
            assert line.get_label() == str(label)


def test_classes_that_matter_are_shown_by_name(images, probs):
    names = [f"n{label}" for label in range(C)]
    axes = plotting.rotated_digit(images, ANGLES, {"VI": probs}, names)
    assert classes_of(axes) == ["n3", "n7"]
    axes = plotting.rotated_digit(images, ANGLES, {"VI": probs}, min_prob=0.001)
    assert classes_of(axes) == [str(label) for label in range(C)]
    # The most probable class is shown even if it is not probable.
    even = np.full((A, C), 1 / C)
    axes = plotting.rotated_digit(images, ANGLES, {"VI": even}, min_prob=0.5)
    assert classes_of(axes) == ["0"]


def test_a_class_that_matters_to_one_predictor_is_in_all_panels(images, probs):
    sure = np.zeros((A, C))
    sure[:, 5] = 1.0
    axes = plotting.rotated_digit(
        images, ANGLES, {"draws": probs, "no draws": sure}
    )
    assert classes_of(axes) == ["3", "5", "7"]


@pytest.mark.parametrize("channels", [1, 3])
def test_images_may_have_channels(rng, probs, channels):
    images = rng.uniform(size=(A, 8, 8, channels))
    axes = plotting.rotated_digit(images, ANGLES, {"VI": probs})
    shape = (8, 8) if channels == 1 else (8, 8, 3)
    assert axes[0].images[0].get_array().shape == shape


EVEN = np.full((S, A, C), 1 / C)
ZEROS = np.zeros((A, 8, 8))


@pytest.mark.parametrize(
    ("images", "predictors", "names", "message"),
    [
        (ZEROS[1:], {"a": EVEN}, None, r"`images`.*A=5.*shape \(4, 8, 8\)"),
        (ZEROS[0], {"a": EVEN}, None, r"`images`.*shape \(8, 8\)"),
        (np.zeros((A, 8, 8, 2)), {"a": EVEN}, None, r"`images`.*8, 8, 2\)"),
        (ZEROS, {}, None, r"`predictors`.*A=5.*shapes {}"),
        (ZEROS, {"a": EVEN[:, 1:]}, None, r"`predictors`.*\(6, 4, 10\)"),
        (ZEROS, {"a": EVEN[0, 0]}, None, r"`predictors`.*\(10,\)"),
        (ZEROS, {"a": 0.5}, None, r"`predictors`.*\(\)"),
        (ZEROS, {"a": EVEN, "b": EVEN[..., 1:]}, None, r"'b': \(6, 5, 9\)"),
        (ZEROS, {"a": EVEN}, ["one"], "one C, as `class_names`"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(images, predictors, names, message):
    with pytest.raises(ValueError, match=message):
        plotting.rotated_digit(images, ANGLES, predictors, names)


def test_predictive_bands_reach_three_standard_deviations():
    x = np.array([-1.0, 0.0, 2.0])
    predictor = {"mean": [1.0, 2.0, 3.0], "scale": [0.5, 1.0, 2.0]}
    panels = plotting.predictive_bands(
        x, {"A": predictor, "B": predictor}, (x, x), truth=x
    )
    assert [axes.get_title(loc="left") for axes in panels] == ["A", "B"]
    lines = {line.get_label(): line.get_xydata() for line in panels[0].lines}
    for name, y in (("mean", predictor["mean"]), ("truth", x), ("data", x)):
        np.testing.assert_allclose(lines[name], np.transpose([x, y]))
    bands = [b.get_paths()[0].vertices for b in panels[0].collections]
    at_end = [band[band[:, 0] == 2.0][:, 1] for band in bands]
    assert [(v.min(), v.max()) for v in at_end] == [
        (-3.0, 9.0),
        (-1.0, 7.0),
        (1.0, 5.0),
    ]
    legend = [text.get_text() for text in panels[-1].get_legend().texts]
    assert legend[0] == "mean ± 1 to 3\nstandard deviations"


@pytest.mark.parametrize("truth", [[100.0, 100.0], [100.0, 101.0]])
def test_truth_and_data_fill_the_panels_of_predictive_bands(truth):
    x, band = np.array([0.0, 1.0]), {"mean": truth, "scale": [9.0, 9.0]}
    data = ([0.5, 0.5], [98.0, 102.0])
    (axes,) = plotting.predictive_bands(x, {"A": band}, data, truth)
    np.testing.assert_allclose(axes.get_ylim(), (97.6, 102.4))
    (axes,) = plotting.predictive_bands(x, {"A": band}, truth=truth)
    low, high = axes.get_ylim()
    assert low < 100.0 <= max(truth) < high < 103.0


def test_targets_outside_of_their_intervals_are_marked(tmp_path):
    curves = {
        "target": [1.0, 2.0, 3.0],
        "mean": [1.5, 2.1, 4.0],
        "low": [0.5, 1.6, 3.5],
        "high": [2.5, 2.6, 4.5],
    }
    axes = plotting.prediction_intervals({"VI": curves, "refined VI": curves})
    plotting.save(axes, tmp_path / "figure.png")
    for one, name in zip(axes, ("VI", "refined VI"), strict=True):
        assert one.get_title(loc="left") == f"{name}\n1 of 3 outside"
        _, inside, outside = one.lines
        np.testing.assert_array_equal(inside.get_xydata(), [[1.5, 1], [2.1, 2]])
        np.testing.assert_array_equal(outside.get_xydata(), [[4.0, 3.0]])
        of_inside, of_outside = one.collections
        ends = [segment[:, 0] for segment in of_inside.get_segments()]
        np.testing.assert_array_equal(ends, [[0.5, 2.5], [1.6, 2.6]])
        (segment,) = of_outside.get_segments()
        np.testing.assert_array_equal(segment, [[3.5, 3.0], [4.5, 3.0]])
    with pytest.raises(ValueError, match="predictors"):
        plotting.prediction_intervals({})
