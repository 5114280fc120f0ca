r"""Refined variational inference on the UCI regression sets.

Trains a mean-field posterior (vi), spends the steps of a refinement on more of
the same training (longer), and refines the posterior (refined), over several
train-test splits. Reports test likelihoods and bounds in original units, paired
differences, and the paper's figures. Any other system can be added.
Stopped at any time and started again with the same --output_dir, it continues.

  python -m tfp_refine.experiments.uci --dataset=yacht
  python -m tfp_refine.experiments.uci --dataset=energy --systems=vi,cm \
      --likelihood=heteroscedastic --prior_scale=fan_in --depths=1,2,3,4,5

References: Havasi et al., 2021, https://doi.org/10.3390/e23111475, Table 1;
Tomczak et al., 2021, https://openreview.net/forum?id=ykN3tbJ0qmX, Figure 2.
"""

from tfp_refine.experiments.uci.config import Config
from tfp_refine.experiments.uci.run import run

__all__ = ["Config", "run"]
