import pytest
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def _closed_figures():
    """Closes the figures of a test, of which pyplot keeps only a few."""
    yield
    pyplot.close("all")
