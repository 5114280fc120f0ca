import numpy as np
import pytest

from tfp_refine import datasets

SIZES = {
    "breast_cancer": (569, 30, 2),
    "digits": (1797, 64, 10),
    "iris": (150, 4, 3),
    "wine": (178, 13, 3),
}


@pytest.mark.parametrize("name", datasets.CLASS_TABLES)
def test_known_tables_come_with_scikit_learn(name):
    table = datasets.load_class_table(name)
    rows, columns, classes = SIZES[name]
    assert table.features.shape == (rows, columns)
    assert table.features.dtype == np.float64
    assert table.labels.shape == (rows,)
    assert table.labels.dtype == np.int32
    assert set(table.labels) == set(range(classes))
    assert len(table.class_names) == classes
    assert table.name == name


def write(folder, target):
    folder.mkdir()
    rows = np.column_stack([np.arange(len(target)), target])
    np.savetxt(folder / "data.txt", rows)
    (folder / "index_features.txt").write_text("0\n")
    (folder / "index_target.txt").write_text("1\n")


def test_numbers_in_a_folder_become_classes(tmp_path):
    write(tmp_path / "mine", [5.0, -1.0, 5.0, 2.5, 2.5, -1.0])
    table = datasets.load_class_table("mine", tmp_path)
    np.testing.assert_array_equal(table.labels, [2, 0, 2, 1, 1, 0])
    assert table.class_names == ("-1", "2.5", "5")
    np.testing.assert_array_equal(table.features[:, 0], np.arange(6))


@pytest.mark.parametrize("target", [[1.0, 1.0, 1.0], [0.1, 0.2, 0.3, 0.4]])
def test_targets_that_are_no_classes_are_refused(target, tmp_path):
    write(tmp_path / "mine", target)
    with pytest.raises(ValueError, match="must hold the number of a class"):
        datasets.load_class_table("mine", tmp_path)


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="must be one of breast_cancer"):
        datasets.load_class_table("mine")
    with pytest.raises(ValueError, match="or a folder in `data_dir`"):
        datasets.load_class_table("mine", tmp_path)
