r"""Predictive uncertainty with and without posteriors of the weights.

Trains a network without posteriors (map), with a fully factorized Gaussian
posterior (ffg) and with multiplicative normalizing flows (mnf), and looks at
predictive entropies on classes that were not trained on (unseen), at accuracy
and entropy under perturbations by the gradient's sign (attack), at their
memory of random labels (random_labels), and at a regression on 20 points
(cubic). Unseen and attack are of the same trained networks, in the folder
images; each other task has its own. Any other system can be added. Stopped at
any time and started again with the same --output_dir, it continues.

  python -m tfp_refine.experiments.uncertainty
  python -m tfp_refine.experiments.uncertainty --dataset=mnist --data_dir=DIR \
      --tasks=unseen,attack --unseen=fashion_mnist
  python -m tfp_refine.experiments.uncertainty --dataset=cifar10 --download \
      --tasks=unseen,attack --model=lenet5_wide --max_std=0.4

Reference: Louizos and Welling, 2017, https://arxiv.org/abs/1703.01961, Figures
2 to 6 and Appendix A.
"""

from tfp_refine.experiments.uncertainty.config import Config
from tfp_refine.experiments.uncertainty.run import run

__all__ = ["Config", "run"]
