import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import layers
from tfp_refine.experiments.harness import memory
from tfp_refine.functional import data


def test_examples_become_tensors_in_floatx(rng):
    x, y = rng.normal(size=(6, 3)), np.arange(6)
    (x_out, y_out), num_examples = data.examples(x, y)
    assert x_out.dtype == "float32"
    assert y_out.dtype.is_integer
    np.testing.assert_array_equal(x_out, x.astype("float32"))
    np.testing.assert_array_equal(y_out, y)
    assert num_examples == 6


def test_nested_structures_keep_their_structure(rng):
    x = {"b": rng.normal(size=(4, 2)), "a": [tf.ones([4]), np.zeros((4, 1, 2))]}
    (x_out, _), num_examples = data.examples(x, (np.ones(4), np.ones((4, 2))))
    assert num_examples == 4
    keras.tree.assert_same_structure(x, x_out)
    np.testing.assert_allclose(x_out["b"], x["b"], rtol=1e-6)


def test_a_dataset_is_read_whole_in_its_order():
    x = {"a": np.arange(14.0).reshape(7, 2)}
    y = np.arange(7)
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    for read in (dataset.batch(3), dataset.batch(1), dataset.batch(7)):
        (x_out, y_out), num_examples = data.examples(read)
        np.testing.assert_array_equal(x_out["a"], x["a"])
        np.testing.assert_array_equal(y_out, y)
        assert num_examples == 7


def test_a_dataset_that_hides_its_size_is_read(rng):
    dataset = tf.data.Dataset.from_tensor_slices((np.ones((5, 2)), np.ones(5)))
    dataset = dataset.filter(lambda x, y: True).batch(2)
    assert dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY
    assert data.examples(dataset)[1] == 5


def _dataset(*parts):
    return tf.data.Dataset.from_tensor_slices(parts).batch(2)


ONES = np.ones((4, 2))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (ONES, None, "`y` must be given.*y=None, x of type ndarray"),
        (_dataset(ONES, ONES), ONES, "`y` must be None when `x` is a tf.data"),
        (_dataset(ONES), None, r"must yield \(x, y\) or \(x, y, sample_weight"),
        (_dataset(*[ONES] * 4), None, r"must yield \(x, y\) or.*: 4 parts"),
        (_dataset(ONES, ONES).repeat(), None, "is endless; leave out"),
        (
            _dataset(ONES, ONES).take(0),
            None,
            "a tf.data.Dataset, must not be empty",
        ),
        (ONES, np.ones(3), r"same number.*\[4\] in x, \[3\] in y"),
        (
            [ONES, ONES[:2]],
            np.ones(4),
            r"same number.*\[4, 2\] in x, \[4\] in y",
        ),
        (ONES[:0], np.ones(0), r"`x` must not be empty.*shape=\(0, 2\)"),
        (ONES * np.nan, np.ones(4), "`x` must be finite.*8 of 8 values NaN"),
        (
            ONES * 1e300,
            np.ones(4),
            "`x` must be finite in float32.*8 of 8.*finite in float64",
        ),
        (
            _dataset(ONES, ONES * 1e300),
            None,
            "`y` must be finite in float32.*4 of 4.*in batch 1 of a tf.data",
        ),
        (
            tf.data.Dataset.range(1, 3).map(
                lambda n: (tf.ones([2, n]), tf.ones([2]))
            ),
            None,
            r"All batches of a tf.data.Dataset must have one .*as batch 2",
        ),
        (ONES, [np.array([1, np.inf, 2, 3])], "`y` must be finite.*1 of 4"),
        (np.ones(1), np.array([["a"]]), "`y` must hold numbers,.*dtype=<U1"),
        (ONES, [1.0, 2.0], r"`y` must hold numbers.*shape=\(\)"),
        (ONES, ONES * 1j, "`y` must hold numbers.*complex"),
    ],
)
def test_bad_examples_are_refused(x, y, message):
    with pytest.raises(ValueError, match=message):
        data.examples(x, y)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(3), r"\[4\] in x, \[4\] in y, \[3\] in sample_weight"),
        (-ONES[:, 0], "none is negative.*value -1, sum -4"),
        (0 * ONES[:, 0], "not all are 0.*sum 0"),
        (ONES * np.nan, "`sample_weight` must be finite"),
    ],
)
def test_bad_weights_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        data.examples(ONES, ONES[:, 0], weight)


def test_methods_that_weigh_examples_alone_say_so():
    x, y, weights, num_examples = data.weighted(ONES, ONES, np.arange(4))
    assert (x.shape, y.shape, num_examples) == ((4, 2), (4, 2), 4)
    np.testing.assert_array_equal(weights, np.arange(4))
    assert data.weighted(ONES, ONES)[2] is None
    for weight in (ONES, [ONES[:, 0]] * 2):
        with pytest.raises(ValueError, match="must be one number for each"):
            data.weighted(ONES, ONES, weight)


def test_class_weights_become_weights_of_examples():
    (_, _, found), _ = data.examples(
        ONES, np.array([0, 1, 2, 1]), class_weight={1: 3.0, 0: 0.5}
    )
    np.testing.assert_array_equal(found, [0.5, 3.0, 1.0, 3.0])
    weights = ONES[:, 0]
    for given in (
        (ONES, weights, weights),
        (_dataset(ONES, weights, weights),),
    ):
        with pytest.raises(ValueError, match="`class_weight`, not both"):
            data.examples(*given, class_weight={1: 2.0})


def test_weights_are_floats_one_for_each_example():
    for weight in (np.arange(4), np.arange(4.0)[:, np.newaxis]):
        for given in (
            (ONES, ONES, weight),
            (_dataset(ONES, ONES, weight),),
        ):
            (_, _, found), _ = data.examples(*given)
            assert found.dtype == "float32"
            np.testing.assert_array_equal(found, np.arange(4))
    for y, sample_weight in ((ONES, None), (None, ONES)):
        with pytest.raises(ValueError, match="must be None when `x` is a tf"):
            data.examples(_dataset(ONES, ONES), y, sample_weight)


def test_inputs_are_checked_the_same_way():
    x = data.inputs([ONES, np.arange(4)])
    assert x[0].dtype == "float32"
    assert x[1].dtype.is_integer
    with pytest.raises(ValueError, match=r"same number of.*\[4, 2\] in x"):
        data.inputs([ONES, ONES[:2]])
    with pytest.raises(ValueError, match="`x` must be finite"):
        data.inputs(ONES * np.inf)


def test_dataset_that_is_not_batched_is_told_so():
    dataset = tf.data.Dataset.from_tensor_slices((np.ones((4, 3)), np.ones(4)))
    with pytest.raises(ValueError, match="`y` must.*elements must be batches"):
        data.examples(dataset)


def test_inputs_of_batches_are_read_without_their_targets():
    dataset = _dataset(ONES, ONES[:, 0], ONES[:, 0])
    np.testing.assert_array_equal(data.inputs(dataset), ONES)


@pytest.mark.parametrize("empty", [(), [], {}])
def test_structures_without_inputs_are_refused(empty):
    for x, y in ((empty, np.ones(3)), (np.ones(3), empty)):
        with pytest.raises(ValueError, match="`(x|y)` must not be empty"):
            data.examples(x, y)
    with pytest.raises(ValueError, match="`x` must not be empty"):
        data.inputs(empty)


# Memory.

_ROWS, _FEATURES = 2**14, 2**10  # 64 MiB in float32
_SIZE = 64.0


def _large(dtype="float32"):
    return np.ones((_ROWS, _FEATURES), dtype)


def _peak(function):
    with memory.Peak() as peak:
        result = function()
    if peak.mebibytes is None:
        pytest.skip("The system does not report it.")
    return peak.mebibytes, result


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_one_copy_of_arrays_is_held(dtype):
    x, y = _large(dtype), np.arange(_ROWS)
    size = _SIZE * (0.25 if dtype == "uint8" else 1.0)
    peak, ((tensor, _), _) = _peak(lambda: data.examples(x, y))
    assert peak < 1.2 * size
    assert tensor.dtype == ("uint8" if dtype == "uint8" else "float32")


def test_tensors_are_taken_as_they_are():
    with tf.device("CPU"):
        x = tf.ones([_ROWS, _FEATURES])
    peak, ((tensor, _), _) = _peak(lambda: data.examples(x, tf.ones([_ROWS])))
    assert tensor is x
    assert peak < 0.2 * _SIZE


def test_a_dataset_is_held_once():
    dataset = tf.data.Dataset.range(_ROWS // 2**8).map(
        lambda n: (tf.ones([2**8, _FEATURES]), tf.ones([2**8]))
    )
    list(dataset.take(1))  # Its threads have memory of their own.
    peak, ((x, _), num_examples) = _peak(lambda: data.examples(dataset))
    assert num_examples == _ROWS
    assert peak < 1.3 * _SIZE
    np.testing.assert_array_equal(x[-1], np.ones(_FEATURES))


def test_blocks_of_arrays_are_copied_one_at_a_time():
    x = _large("float64")
    peak, _ = _peak(lambda: sum(1 for _ in data.blocks(x, 2**8)))
    assert peak < 0.2 * _SIZE


def test_tensors_do_not_change_with_the_arrays():
    memory = np.zeros(2**20 + 16, np.float32)
    begin = -memory.ctypes.data % 64 // 4  # where TensorFlow shares memory
    for x in (memory[begin : begin + 2**20], np.zeros(2**20, np.float32)):
        tensor = data.inputs(x)
        block = next(iter(data.blocks(x, 2**20)))[1]
        x[:] = 1.0
        assert not np.any(tensor)
        assert not np.any(block)


# Block by block.


def _joined(blocks):
    """Puts inputs together, after checking that rows follow each other."""
    begin, parts = 0, []
    for rows, block in blocks:
        assert rows.start == begin
        begin = rows.stop
        assert data.num_examples(block) == rows.stop - rows.start
        parts.append(block)
    return keras.tree.map_structure(lambda *v: np.concatenate(v), *parts)


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_blocks_make_up_arrays(batch_size):
    x = {"a": np.arange(14.0).reshape(7, 2), "b": [np.arange(7)]}
    blocks = list(data.blocks(x, batch_size))
    assert len(blocks) == -(-7 // batch_size)
    joined = _joined(blocks)
    np.testing.assert_array_equal(joined["a"], x["a"])
    np.testing.assert_array_equal(joined["b"][0], x["b"][0])


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_blocks_of_a_dataset_are_its_batches_of_inputs(parts):
    # Inputs alone, with targets, with sample weights.
    x, others = np.arange(14.0).reshape(7, 2), [np.ones(7)] * (parts - 1)
    dataset = tf.data.Dataset.from_tensor_slices((x, *others)).batch(3)
    if parts == 1:
        dataset = tf.data.Dataset.from_tensor_slices(x).batch(3)
    blocks = list(data.blocks(dataset, batch_size=2))
    assert [rows.stop - rows.start for rows, _ in blocks] == [3, 3, 1]
    assert all(block.dtype == "float32" for _, block in blocks)
    np.testing.assert_array_equal(_joined(blocks), x)


def test_blocks_of_a_dataset_may_be_nested():
    x = {"a": np.ones((5, 2)), "b": np.arange(5)}
    dataset = tf.data.Dataset.from_tensor_slices(x).batch(2)
    joined = _joined(data.blocks(dataset, 10))
    np.testing.assert_array_equal(joined["b"], x["b"])


def test_no_more_than_a_batch_of_a_dataset_is_read():
    read = []

    def generate():
        for number in range(100):
            read.append(number)
            yield np.full((1, 2), number)

    dataset = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec((1, 2), "float32")
    )
    next(iter(data.blocks(dataset, 1)))
    assert len(read) < 5


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (_dataset(ONES).repeat(), "`x` must end.*endless"),
        (_dataset(ONES).take(0), "`x`, a tf.data.*must not be empty"),
        (_dataset(ONES * np.nan), "`x` must be finite.*4 of 4"),
        (ONES * np.nan, "`x` must be finite.*8 of 8"),
        (ONES[:0], "`x` must not be empty"),
        ([ONES, ONES[:2]], r"same number of examples.*\[4, 2\]"),
    ],
)
def test_bad_blocks_are_refused(x, message):
    with pytest.raises(ValueError, match=message):
        list(data.blocks(x, 3))


@pytest.mark.parametrize("rows", [slice(1, 3), slice(4, 9), slice(0, 0)])
def test_examples_are_taken_of_all_inputs(rows):
    x = {"a": tf.range(6.0), "b": [np.ones((6, 2))]}
    taken = data.take(x, rows)
    np.testing.assert_array_equal(taken["a"], np.arange(6.0)[rows])
    assert taken["b"][0].shape == (len(range(6)[rows]), 2)


@pytest.mark.parametrize("model", ["model", None, layers.DenseFlipout(1)])
def test_what_is_no_model_is_told(model):
    message = f"`model` must be a keras.Model.*: {type(model).__name__}"
    with pytest.raises(ValueError, match=message):
        data.check_model(model)


def test_a_model_without_its_weights_is_told():
    model = keras.Sequential([keras.layers.Dense(1)], name="later")
    with pytest.raises(ValueError, match="'later' is not built: call it"):
        data.check_model(model)
    model.build((None, 2))
    data.check_model(model)
