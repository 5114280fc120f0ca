r"""Initializers of variational layers, compared.

Trains the same Bayesian network from several initializations of its posteriors,
and beside them one with dropout, over several train-test splits: metrics on
test data against training steps (curves), for images also predictive entropies,
and predictions of a function of one variable before training and after it
(toy). Each task has a page with tables and figures in a folder of its own. Any
other system can be added; iblm_paper is I-BLM without the recommended options.
Stopped at any time and started again with the same --output_dir, it continues.

  python -m tfp_refine.experiments.initialization
  python -m tfp_refine.experiments.initialization --dataset=breast_cancer
  python -m tfp_refine.experiments.initialization --dataset=mnist \
      --data_dir=DIR --tasks=curves --seeds=1 --unseen=fashion_mnist

Reference: Rossi et al., 2019, https://arxiv.org/abs/1810.08083, Figures 1, 3
and 5 to 9.
"""

from tfp_refine.experiments.initialization.config import Config
from tfp_refine.experiments.initialization.run import run

__all__ = ["Config", "run"]
