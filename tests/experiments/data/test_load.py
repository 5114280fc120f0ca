"""Tests of the measured data: test data, or a part of the training set."""

import numpy as np
import pytest

from tfp_refine.experiments.compare import config as config_lib
from tfp_refine.experiments.data import load


def _load(**changes):
    config = config_lib.Config(**changes)
    kind = load.kind_of(config)
    return load.load(config.with_defaults(config.before_data(kind)))


@pytest.mark.parametrize("dataset", ["yacht", "iris", "digits"])
def test_settings_are_chosen_without_test_data(dataset):
    usual = _load(dataset=dataset)
    held = _load(dataset=dataset, measure_on="validation")
    rows = {row.tobytes() for row in held.test[0]}
    assert rows <= {row.tobytes() for row in usual.train[0]}
    for x in (usual.test[0], held.train[0], held.validation[0]):
        others = {row.tobytes() for row in x}
        assert len(rows & others) <= 1  # iris has a row twice
    count = len(usual.train[1])
    assert len(held.test[1]) == pytest.approx(0.1 * count, abs=1)
    assert len(held.train[1]) + len(held.test[1]) == count
    np.testing.assert_array_equal(held.validation[0], usual.validation[0])
    assert not held.unseen
    assert held.pixels is None


@pytest.mark.parametrize("kind", ["regression", "table"])
def test_a_set_that_is_unknown_is_named_by_its_flag(kind):
    with pytest.raises(ValueError, match="as --kind=.*--data_dir") as error:
        _load(dataset="nothing", kind=kind)
    assert "--dataset='nothing'" in str(error.value)


def test_a_folder_that_is_missing_is_named_by_its_flag(tmp_path):
    with pytest.raises(FileNotFoundError, match=": --data_dir must be"):
        _load(dataset="mine", kind="table", data_dir=tmp_path / "none")
