r"""Posteriors of trained networks: Laplace, refined by flows, and NUTS.

Trains a classifier, or takes a trained one, and compares posteriors of its last
layer (comparison): the weights as they are, with scaled logits, Laplace's
approximation, that refined by normalizing flows of several lengths, such flows
from N(0, I) in its place, and the no-U-turn sampler. Reports how far each is
from the sampler (MMD), its predictions on test data, on unseen and on shifted
inputs, and its costs. Draws the posterior of a logistic regression with two
weights (toy), and measures how well predictions are integrated (integration).
Stopped at any time and started again with the same --output_dir, it continues.

  python -m tfp_refine.experiments.laplace
  python -m tfp_refine.experiments.laplace --dataset=mnist --data_dir=DIR \
      --tasks=comparison --unseen=fashion_mnist,kmnist
  python -m tfp_refine.experiments.laplace --dataset=mnist --data_dir=DIR \
      --tasks=comparison --model=mine.keras --scaling=unit
  python -m tfp_refine.experiments.laplace --dataset=wine --tasks=comparison \
      --systems="map,laplace_all,flows(laplace_all),nuts(laplace_all)"
  python -m tfp_refine.experiments.laplace --dataset=trec --download \
      --tasks=comparison

Reference: Kristiadi et al., 2022, https://arxiv.org/abs/2205.10041, Figures 2
and 5 to 7, Tables 1 to 6.
"""

from tfp_refine.experiments.laplace.config import Config
from tfp_refine.experiments.laplace.run import run

__all__ = ["Config", "run"]
