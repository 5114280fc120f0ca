"""The architecture holds: one of each, and nothing points up."""

import pytest

from tests.structure import build_file
from tests.structure import facts


@pytest.fixture(scope="module")
def checkout():
    return facts.Checkout(build_file.ROOT)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("circles", []),
        ("upward_arrows", []),
        ("predicting_classes", ["posteriors/protocol.py: Posterior"]),
        ("training_loops", ["functional/train.py"]),
        ("file_formats", ["functional/files.py"]),
        ("weight_vectors", ["functional/weight_view.py: WeightView"]),
    ],
)
def test_there_is_one_of_each_and_nothing_points_up(checkout, name, expected):
    assert facts.FACTS[name](checkout) == expected


def made(folder, **files):
    """Returns a checkout with files of the package, `__` standing for `/`."""
    for name, text in files.items():
        path = folder / build_file.PACKAGE / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return facts.Checkout(folder)


def test_circles_and_upward_arrows_are_found(tmp_path):
    found = made(
        tmp_path,
        math__a="from tfp_refine.layers import a",
        layers__a="def f():\n    from tfp_refine import metrics",
        metrics__a="import tfp_refine.math.a",
        losses__a="from tfp_refine import math",
    )
    assert facts.circles(found) == ["layers", "math", "metrics"]
    assert facts.upward_arrows(found) == ["math -> layers"]
    assert len(facts.arrows(found)) == 4


def test_rooms_of_older_checkouts_have_the_levels_of_their_successors(tmp_path):
    found = made(
        tmp_path,
        stateless__a="from tfp_refine import arguments",
        arguments__a="",
        mcmc__a="from tfp_refine import baselines",
        baselines__a="from tfp_refine import stateless",
    )
    assert facts.upward_arrows(found) == ["mcmc -> baselines"]


_LOOP = "tf.while_loop(going, body, state)\n"
_RANGE = "for i in tf.range(n):\n    i\n"
_GRADIENT = (
    "with tf.GradientTape() as tape:\n    f()\ng = tape.gradient(y, x)\n"
)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        (f"{_LOOP}{_GRADIENT}x, s = rule.step(x, g)", 1),
        (f"{_RANGE}{_GRADIENT}o.apply_gradients(g)", 1),
        (f"{_LOOP}{_GRADIENT}total = total + g", 0),
        (f"{_LOOP}x = rule.step(x, g)", 0),
        (f"{_GRADIENT}x = rule.step(x, g)", 0),
    ],
)  # fmt: skip
def test_a_training_loop_repeats_steps_along_gradients(tmp_path, code, count):
    assert len(facts.training_loops(made(tmp_path, laplace__a=code))) == count


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("np.savez(path, a=a)", 1),
        ("np.lib.format.write_array(file, a)", 1),
        ("zipfile.ZipFile(path, 'w')", 1),
        ("path.write_text(json.dumps(a))", 1),
        ("json.dump(a, file)", 1),
        ("zipfile.ZipFile(path)", 0),
        ("json.loads(json.dumps(a))", 0),
        ("def f():\n    return json.dumps(a)", 0),
        ("model.save(path)", 0),
    ],
)
def test_a_file_format_is_what_stores_arrays_or_json(tmp_path, code, count):
    assert len(facts.file_formats(made(tmp_path, laplace__a=code))) == count


_VECTOR = """
def cut(vector):
    return [tf.reshape(v, s) for v in tf.split(vector, 2)]


class One:
    def vector(self):
        return np.concatenate([np.ravel(v) for v in self.weights])

    def put(self, vector):
        self.assign(cut(vector))


class Same(One):
    def vector(self):
        return np.concatenate([np.ravel(v) for v in self.others])

    def put(self, vector):
        self.assign(cut(vector))


class Blocks:
    def join(self):
        return np.concatenate(self.blocks)
"""


def test_a_weight_vector_flattens_and_cuts_and_a_subclass_is_no_other(tmp_path):
    found = made(tmp_path, laplace__a=_VECTOR)
    assert facts.weight_vectors(found) == ["laplace/a.py: One"]


def test_only_methods_named_predict_count_and_experiments_do_not(tmp_path):
    code = "class A:\n    def predict(self):\n        pass\n"
    found = made(
        tmp_path,
        posteriors__a=code,
        laplace__a=code.replace("predict", "_predict"),
        sampling__a="def predict():\n    pass",
        experiments__a=code,
    )
    assert facts.predicting_classes(found) == ["posteriors/a.py: A"]
    assert found.lines == {"package": 11, "experiments": 3, "tests": 0}


def test_private_attributes_and_patches_of_tests_are_counted(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(
        "a._b\na.__name__\nself._c\npair._replace()\n"
        "monkeypatch.setattr(a, 'b', 1)\nmonkeypatch.setenv('A', '1')\n"
        "mock.patch.object(a, 'b')\n"
    )
    found = facts.Checkout(tmp_path)
    assert facts.private_accesses(found) == ["test_a.py:1: a._b"]
    assert len(facts.monkeypatches(found)) == 2


def test_the_report_has_all_facts(tmp_path, capsys):
    made(tmp_path, laplace__a="np.save(path, a)")
    facts.main(tmp_path)
    report = capsys.readouterr().out.splitlines()
    assert len(report) == 3 + len(facts.FACTS) + 2
    assert report[0].split() == ["lines", "of", "package", "1"]
    assert "    laplace/a.py" in report
