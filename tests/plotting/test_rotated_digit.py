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


def texts(legend):
    return [text.get_text() for text in legend.texts]


def test_images_stand_above_their_angles(images, probs, tmp_path):
    for num in (1, 2, A):
        figure = plotting.rotated_digit(
            images[:num], ANGLES[:num], {"VI": probs[:, :num]}
        )
        figure.savefig(tmp_path / "figure.png")  # Lays the axes out.
        top, panel = figure.axes
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
    figure = plotting.rotated_digit(
        images, ANGLES, {"VI": probs, "refined VI": probs[:2]}
    )
    _, *panels = figure.axes
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
    figure = plotting.rotated_digit(images, ANGLES, {"VI": probs}, names)
    assert texts(figure.legends[0]) == ["n3", "n7"]
    figure = plotting.rotated_digit(
        images, ANGLES, {"VI": probs}, min_prob=0.001
    )
    assert texts(figure.legends[0]) == [str(label) for label in range(C)]
    # The most probable class is shown even if it is not probable.
    even = np.full((A, C), 1 / C)
    figure = plotting.rotated_digit(images, ANGLES, {"VI": even}, min_prob=0.5)
    assert texts(figure.legends[0]) == ["0"]


def test_a_class_that_matters_to_one_predictor_is_in_all_panels(images, probs):
    sure = np.zeros((A, C))
    sure[:, 5] = 1.0
    figure = plotting.rotated_digit(
        images, ANGLES, {"draws": probs, "no draws": sure}
    )
    assert texts(figure.legends[0]) == ["3", "5", "7"]


@pytest.mark.parametrize("channels", [1, 3])
def test_images_may_have_channels(rng, probs, channels, tmp_path):
    images = rng.uniform(size=(A, 8, 8, channels))
    figure = plotting.rotated_digit(images, ANGLES, {"VI": probs})
    shape = (8, 8) if channels == 1 else (8, 8, 3)
    assert figure.axes[0].images[0].get_array().shape == shape
    figure.savefig(tmp_path / "figure.png")


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
