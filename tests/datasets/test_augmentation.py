import functools

import numpy as np
import pytest
import tensorflow as tf

from tfp_refine.datasets import crop_and_flip

RNG = np.random.default_rng(0)
# No value twice, none 0: a window of a padded image is found by its values.
IMAGES = (1.0 + RNG.permutation(400 * 6 * 5 * 2)).reshape(400, 6, 5, 2)
IMAGES = IMAGES.astype(np.float32)


def windows(image, padding, flip):
    """Lists results for an image: (down, right, mirrored) -> image."""
    side = (padding, padding)
    made = {}
    for mirrored in (False, True) if flip else (False,):
        source = np.pad(image, (side, side, (0, 0)))
        for down in range(2 * padding + 1):
            for right in range(2 * padding + 1):
                window = source[down : down + 6, right : right + 5]
                made[down, right, mirrored] = (
                    window[:, ::-1] if mirrored else window
                )
    return made


def find(augmented, image, padding, flip):
    found = [
        key
        for key, window in windows(image, padding, flip).items()
        if np.array_equal(window, augmented)
    ]
    # A mirrored window is one of the mirrored image, at another place.
    assert len(found) == 1
    return found[0]


def moves(padding=2, flip=True, seed=(3, 4)):
    augmented = crop_and_flip(IMAGES, seed, padding=padding, flip=flip).numpy()
    assert augmented.dtype == np.float32
    return np.array(
        [
            find(a, image, padding, flip)
            for a, image in zip(augmented, IMAGES, strict=True)
        ]
    )


def test_images_are_windows_or_mirrored_windows_of_the_padded_original():
    down, right, mirrored = moves().T
    # 400 images leave out one of 5 shifts with probability 5 * 0.8**400, and
    # of 400 coins fewer than 120 or more than 280 are heads once in 10**15.
    assert set(down) == set(right) == set(range(5))
    assert 120 < mirrored.sum() < 280
    # Independent of each other: all 25 shifts, 25 * 0.96**400 = 2e-6.
    assert len(set(zip(down, right, strict=True))) == 25
    assert len(set(zip(right, mirrored, strict=True))) == 10


def test_flips_can_be_left_out():
    assert not moves(flip=False)[:, 2].any()


def test_without_padding_images_are_mirrored_at_most():
    down, right, mirrored = moves(padding=0).T
    assert not down.any()
    assert not right.any()
    assert 120 < mirrored.sum() < 280


def test_without_padding_and_flips_nothing_happens():
    augmented = crop_and_flip(IMAGES, (0, 1), padding=0, flip=False)
    np.testing.assert_array_equal(augmented, IMAGES)


def test_seed_pair_fixes_the_result():
    first = crop_and_flip(IMAGES, (3, 4))
    np.testing.assert_array_equal(first, crop_and_flip(IMAGES, (3, 4)))
    for other in ((3, 5), (4, 4)):
        assert not np.array_equal(first, crop_and_flip(IMAGES, other))


def test_graph_gives_what_eager_gives_for_batches_of_unknown_size():
    function = tf.function(
        functools.partial(crop_and_flip, padding=3),
        input_signature=[
            tf.TensorSpec([None, 6, 5, 2]),
            tf.TensorSpec([2], tf.int64),
        ],
    )
    augmented = function(IMAGES, tf.constant([3, 4], tf.int64))
    np.testing.assert_array_equal(
        augmented, crop_and_flip(IMAGES, (3, 4), padding=3)
    )
    shape = function.get_concrete_function().structured_outputs.shape
    assert shape.as_list() == [None, 6, 5, 2]


@pytest.mark.parametrize(
    ("x", "padding", "message"),
    [
        (IMAGES[0], 4, r"\[B, H, W, C\].*\(6, 5, 2\)"),
        (IMAGES, -1, "not negative.*padding=-1"),
    ],
)
def test_rejects(x, padding, message):
    with pytest.raises(ValueError, match=message):
        crop_and_flip(x, (0, 1), padding=padding)
