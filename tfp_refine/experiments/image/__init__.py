r"""Refined variational inference for image classifiers.

Trains a mean-field posterior of a convolutional network (eb, with an empirical
prior) and refines it; any other system can be added: longer(eb) spends the
steps of the refinement on more of the same training, mnf has multiplicative
normalizing flows, map no posterior. Reports likelihood, accuracy, calibration
and bounds of all with equal numbers of draws. Stopped at any time and started
again with the same --output_dir, it continues.

  python -m tfp_refine.experiments.image --dataset=digits
  python -m tfp_refine.experiments.image --dataset=mnist --data_dir=DIR \
      --systems="eb,longer(eb),refined(eb)" --unseen=fashion_mnist
  python -m tfp_refine.experiments.image --dataset=cifar10 --download \
      --model=resnet20 --epochs=200 --learning_rate_schedule=step
  python -m tfp_refine.experiments.image --dataset=cifar100 --download \
      --model=resnet18 --variational=full --systems=map,mc_dropout,vi,cv,cm,cmv
  python -m tfp_refine.experiments.image --dataset=mnist --data_dir=DIR \
      --model=mlp --systems=vi,cm --prior_scale=fan_in --pruning \
      --flipped_pixels=0.02,0.1

References: Havasi et al., 2021, https://doi.org/10.3390/e23111475, Tables 2, 3;
Tomczak et al., 2021, https://openreview.net/forum?id=ykN3tbJ0qmX, Tables 1-3.
"""

from tfp_refine.experiments.image.config import Config
from tfp_refine.experiments.image.run import run

__all__ = ["Config", "run"]
