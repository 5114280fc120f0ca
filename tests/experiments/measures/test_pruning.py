"""The systems whose hidden units can be removed."""

import types

import pytest

from tfp_refine.experiments import image
from tfp_refine.experiments.measures import pruning
from tfp_refine.experiments.systems import registry


class Subject:
    """A system that nobody has fitted."""

    def __init__(self, system, **fields):
        self.expression = registry.parse(system, image.Config)
        network = registry.network_of(self.expression)
        self.fit = types.SimpleNamespace(network=network)
        self.config = image.Config(
            **{"model": "mlp", "pruning": True} | fields, dataset="digits"
        )

    @property
    def fitted(self):
        raise AssertionError("A system is fitted to decide if it is pruned.")


@pytest.mark.parametrize("system", ["vi", "fflu", "cm(iblm)", "flipout"])
def test_variational_networks_are_pruned(system):
    assert pruning.applies(Subject(system))
    assert pruning.applies(Subject(system, model="lenet5"))


@pytest.mark.parametrize(
    "system", ["map", "mc_dropout", "mnf", "fv", "k_tied", "refined", "laplace"]
)
def test_other_systems_are_not_pruned(system):
    assert not pruning.applies(Subject(system))


def test_pruning_must_be_asked_for_and_units_have_one_way_on():
    assert not pruning.applies(Subject("vi", pruning=False))
    assert not pruning.applies(Subject("vi", model="resnet20"))
