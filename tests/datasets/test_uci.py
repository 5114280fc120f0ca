import numpy as np
import pytest

from tfp_refine import datasets
from tfp_refine.datasets import load_uci

DATA = "0.5 1.5 10\n-2 1e-3 20\n3 4.25 30\n"


def write_set(root, folder="toy", level="data", **files):
    """Writes a data set; a file given as `None` is left out."""
    content = {
        "data": DATA,
        "index_features": "0\n1\n",
        "index_target": "2\n",
    } | files
    path = root / folder / level
    path.mkdir(parents=True)
    for name, text in content.items():
        if text is not None:
            (path / f"{name}.txt").write_text(text)
    return root


# Published: rows, features, and the target's mean, sample standard deviation,
# minimum and maximum.
@pytest.mark.parametrize(
    ("name", "shape", "mean", "stddev", "low", "high"),
    [
        ("yacht", (308, 6), 10.495357, 15.160490, 0.01, 62.42),
        ("energy", (768, 8), 22.307201, 10.090196, 6.01, 43.10),
        ("concrete", (1030, 8), 35.817961, 16.705742, 2.33, 82.60),
    ],
)
def test_embedded_sets_have_their_published_shape_and_target(
    name, shape, mean, stddev, low, high
):
    data = load_uci(name)
    assert data.name == name
    assert data.features.shape == shape
    assert data.target.shape == (shape[0], 1)
    assert data.features.dtype == data.target.dtype == np.float64
    assert len(data.feature_names) == shape[1]
    assert data.splits == ()
    np.testing.assert_allclose(data.target.mean(), mean, atol=1e-6)
    np.testing.assert_allclose(data.target.std(ddof=1), stddev, atol=1e-6)
    assert (data.target.min(), data.target.max()) == (low, high)


@pytest.mark.parametrize(
    ("name", "column", "mean", "low", "high"),
    [
        ("yacht", "Prismatic coefficient", 0.564136, 0.53, 0.6),
        ("yacht", "Froude number", 0.2875, 0.125, 0.45),
        ("energy", "Relative Compactness", 0.764167, 0.62, 0.98),
        ("energy", "Surface Area (m2)", 671.708333, 514.5, 808.5),
        ("energy", "Overall Height (m)", 5.25, 3.5, 7.0),
        ("concrete", "Cement (kg/m3)", 281.167864, 102.0, 540.0),
        ("concrete", "Age (day)", 45.662136, 1.0, 365.0),
    ],
)
def test_embedded_columns_stand_under_their_names(
    name, column, mean, low, high
):
    data = load_uci(name)
    values = data.features[:, data.feature_names.index(column)]
    np.testing.assert_allclose(values.mean(), mean, atol=1e-6)
    assert (values.min(), values.max()) == (low, high)


def test_embedded_targets_are_named():
    assert load_uci("energy").target_name == "Heating Load"


def test_names_are_the_nine_sets_of_the_literature():
    names = "boston concrete energy kin8nm naval power protein wine yacht"
    assert " ".join(datasets.UCI_NAMES) == names


@pytest.mark.parametrize("level", ["data", "."])
def test_own_folder_is_loaded_by_its_name(tmp_path, level):
    data = load_uci("toy", write_set(tmp_path, level=level))
    assert data.name == "toy"
    np.testing.assert_array_equal(
        data.features, [[0.5, 1.5], [-2.0, 0.001], [3.0, 4.25]]
    )
    np.testing.assert_array_equal(data.target, [[10.0], [20.0], [30.0]])
    assert data.splits == ()


def test_index_files_choose_and_order_the_columns(tmp_path):
    write_set(tmp_path, index_features="2\n0\n", index_target="1\n")
    data = load_uci("toy", tmp_path)
    np.testing.assert_array_equal(data.features[0], [10.0, 0.5])
    np.testing.assert_array_equal(data.target[:, 0], [1.5, 0.001, 4.25])


@pytest.mark.parametrize(
    "text",
    [
        DATA.replace(" ", ","),
        DATA.replace(" ", " , "),
        DATA.replace(" ", "\t"),
        DATA.replace("\n", " \r\n"),
        "\n" + DATA + "\n\n",
        DATA.rstrip(),
        "\ufeff" + DATA,
    ],
)
def test_spelling_of_the_numbers_does_not_matter(tmp_path, text):
    data = load_uci("toy", write_set(tmp_path, data=text))
    np.testing.assert_array_equal(data.features[:, 1], [1.5, 0.001, 4.25])
    np.testing.assert_array_equal(data.target, [[10.0], [20.0], [30.0]])


def test_given_splits_come_in_numerical_order_and_may_be_floats(tmp_path):
    files = {f"index_train_{k}": f"{k % 3}\n" for k in range(11)}
    files |= {f"index_test_{k}": f"{(k + 1) % 3}\n" for k in range(11)}
    files["index_train_2"] = (
        "2.000000000000000000e+00\n1.000000000000000000e+00\n"
    )
    splits = load_uci("toy", write_set(tmp_path, **files)).splits
    assert len(splits) == 11
    assert splits[2][0].tolist() == [2, 1]
    assert splits[2][1].tolist() == [0]
    assert splits[10][0].tolist() == [1]  # not between 1 and 2
    assert splits[2][0].dtype == np.int64


@pytest.mark.parametrize("folder", ["bostonHousing", "boston"])
@pytest.mark.parametrize("name", ["bostonHousing", "boston"])
def test_folder_may_have_the_short_or_the_literatures_name(
    tmp_path, folder, name
):
    data = load_uci(name, write_set(tmp_path, folder))
    assert data.name == "boston"
    assert len(data.target) == 3


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("naval", "naval-propulsion-plant"),
        ("power", "power-plant"),
        ("protein", "protein-tertiary-structure"),
        ("wine", "wine-quality-red"),
        ("kin8nm", "kin8nm"),
    ],
)
def test_short_name_finds_the_literatures_folder(tmp_path, name, folder):
    assert load_uci(name, str(write_set(tmp_path, folder))).name == name


def test_data_dir_comes_before_the_embedded_copy(tmp_path):
    assert len(load_uci("yacht", write_set(tmp_path, "yacht")).target) == 3


@pytest.mark.parametrize("name", ["", ".", "..", "../toy", "a/b", None, 3])
def test_a_name_is_no_path(tmp_path, name):
    with pytest.raises(ValueError, match="`name` must be the name"):
        load_uci(name, write_set(tmp_path))


def test_unknown_name_lists_the_known(tmp_path):
    with pytest.raises(ValueError, match="boston, .*, yacht.*name='yatch'"):
        load_uci("yatch")
    write_set(tmp_path, "mine")
    write_set(tmp_path, "bare", level=".")
    (tmp_path / "not_a_set").mkdir()
    with pytest.raises(
        ValueError,
        match="embedded: concrete, energy, yacht.*found .*bare, mine",
    ):
        load_uci("yatch", tmp_path)


def test_known_set_that_is_not_embedded_says_where_to_put_it():
    with pytest.raises(
        FileNotFoundError,
        match="'protein' is not embedded.*--data_dir.*data.txt",
    ):
        load_uci("protein-tertiary-structure")


def test_known_set_that_is_not_in_data_dir(tmp_path):
    write_set(tmp_path, "mine")
    with pytest.raises(FileNotFoundError, match="'wine' must be.*found.*mine"):
        load_uci("wine", tmp_path)
    with pytest.raises(FileNotFoundError, match="Leave out `data_dir`"):
        load_uci("yacht", tmp_path)


def test_missing_data_dir(tmp_path):
    with pytest.raises(FileNotFoundError, match="existing folder.*nowhere"):
        load_uci("yacht", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("data", "No data.txt in"),
        ("index_features", "'index_features.txt'. Not found: .*toy"),
        ("index_target", "'index_target.txt'. Not found: .*toy"),
    ],
)
def test_missing_file(tmp_path, missing, message):
    write_set(tmp_path, **{missing: None})
    with pytest.raises(FileNotFoundError, match=message):
        load_uci("toy", tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"index_train_0": "0"}, "'index_test_0.txt'"),
        ({"index_test_1": "0", "index_train_1": "1"}, "'index_train_0.txt'"),
    ],
)
def test_gap_in_the_given_splits(tmp_path, files, message):
    with pytest.raises(FileNotFoundError, match=message):
        load_uci("toy", write_set(tmp_path, **files))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"data": "1 2 3\n\n4 ? 6\n"}, r"data.txt, line 3, column 2.*'\?'"),
        ({"data": "a b c\n1 2 3\n"}, "data.txt, line 1, column 1.*'a'"),
        ({"data": "1 2 3\n4 5_0 6\n"}, "line 2, column 2.*'5_0'"),
        ({"data": "1,2,3\n4,,6\n"}, "line 2, column 2: the cell is missing"),
        ({"data": "1,2,3\n4,5,\n"}, "line 2, column 3: the cell is missing"),
        ({"data": "1 2 3\n4 5\n"}, "line 2.*first, 3. Received: 2 cells"),
        ({"data": "1 2 3\n4 5 6 7\n"}, "line 2.*Received: 4 cells, '4 5 6 7'"),
        ({"data": "1 2 3\n4 nan 6\n"}, "line 2, column 2.*finite.*'nan'"),
        ({"data": "1 2 3\n4 5 -inf\n"}, "line 2, column 3.*finite.*'-inf'"),
        ({"data": "1 2 3\n4 5 1e999\n"}, "line 2, column 3.*finite.*'1e999'"),
        ({"data": "1 2 3\n4 \0 6\n"}, "line 2, column 2"),
        ({"data": ""}, "data.txt must hold rows of numbers. It is empty"),
        ({"data": " \n\n"}, "data.txt must hold rows of numbers. It is empty"),
        ({"index_features": ""}, "index_features.txt .* is empty"),
        ({"index_features": "0\n3\n"}, r"index_features.txt.*\[0, 3\).*: 3"),
        ({"index_features": "-1\n"}, r"index_features.txt.*\[0, 3\).*: -1"),
        ({"index_features": "0.5\n"}, "index_features.txt.*whole.*0.5"),
        ({"index_target": "9\n"}, r"index_target.txt.*\[0, 3\).*: 9"),
        ({"index_target": "1\n2\n"}, r"one column number. Received: \[1, 2\]"),
        ({"index_target": "1\n"}, "must not hold the target's column"),
        (
            {"index_train_0": "0\nx\n", "index_test_0": "1"},
            "index_train_0.txt, line 2, column 1.*'x'",
        ),
        (
            {"index_train_0": "0", "index_test_0": "1.5"},
            "index_test_0.txt.*whole numbers. Received: 1.5",
        ),
    ],
)
def test_bad_file_is_named_with_the_line(tmp_path, files, message):
    with pytest.raises(ValueError, match=message):
        load_uci("toy", write_set(tmp_path, **files))


def test_bytes_that_are_no_text_are_named_with_the_line(tmp_path):
    write_set(tmp_path)
    (tmp_path / "toy/data/data.txt").write_bytes(b"1 2 3\n4 \xff 6\n")
    with pytest.raises(ValueError, match="line 2, column 2"):
        load_uci("toy", tmp_path)
