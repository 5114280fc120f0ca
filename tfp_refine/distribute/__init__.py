"""Clusters of machines: addresses, processes and connections."""

from tfp_refine.distribute.connection import connect
from tfp_refine.distribute.local_cluster import LocalCluster

__all__ = [
    "LocalCluster",
    "connect",
]
