"""Normalizing flows that TFP lacks, as `tfp.bijectors.Bijector`s."""

from tfp_refine.bijectors.gated_coupling import GatedCoupling
from tfp_refine.bijectors.planar import Planar
from tfp_refine.bijectors.radial import Radial

__all__ = ["GatedCoupling", "Planar", "Radial"]
