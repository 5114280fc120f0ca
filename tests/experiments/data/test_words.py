"""Texts become numbers of words."""

import numpy as np

from tfp_refine.experiments.data import words

TEXTS = np.array(["the cat sat", "the dog", "the cat", "a bird"] * 3)


def test_frequent_words_are_known_others_are_not():
    numbers = words.vectorizer(TEXTS, 4, 3)
    found = numbers(np.array(["the cat the", "dog", "horse cat", "The CAT!"]))
    assert found.dtype == np.int32
    # 0 and 1 are taken: two words are known.
    np.testing.assert_array_equal(
        found, [[2, 3, 2], [1, 0, 0], [1, 3, 0], [2, 3, 0]]
    )


def test_long_texts_are_cut():
    numbers = words.vectorizer(TEXTS, 100, 2)
    assert numbers(np.array(["the cat sat on the mat"])).tolist() == [[2, 3]]


def test_a_text_without_words_has_one_that_is_unknown():
    numbers = words.vectorizer(TEXTS, 100, 3)
    assert numbers(np.array(["", "..."])).tolist() == [[1, 0, 0]] * 2


def test_many_texts_are_the_same_as_few():
    numbers = words.vectorizer(TEXTS, 100, 3)
    many = np.tile(TEXTS, 200)
    np.testing.assert_array_equal(
        numbers(many), np.tile(numbers(TEXTS), (200, 1))
    )


def test_no_texts_are_no_numbers():
    numbers = words.vectorizer(TEXTS, 100, 3)(TEXTS[:0])
    assert numbers.shape == (0, 3)
    assert numbers.dtype == np.int32
