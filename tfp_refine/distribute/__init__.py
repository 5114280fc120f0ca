"""Several machines: their addresses, their processes, the way to them."""

from tfp_refine.distribute.connection import connect
from tfp_refine.distribute.local_cluster import LocalCluster

__all__ = [
    "LocalCluster",
    "connect",
]
