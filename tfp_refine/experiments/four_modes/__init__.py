"""Refinement of a posterior with one weight and four modes.

Fits the best Gaussian to the posterior, refines it, and reports the bounds
ELBO_init <= ELBO_aux <= ELBO_ref <= log Z, of which the last two come from
numerical integration over the weight. Stopped at any time and started again
with the same --output_dir, it continues.

  python -m tfp_refine.experiments.four_modes

Reference: Havasi et al., 2021, https://doi.org/10.3390/e23111475, Figure 3. The
paper's data are not given; this target matches its bounds closely.
"""

from tfp_refine.experiments.four_modes.config import Config
from tfp_refine.experiments.four_modes.run import run

__all__ = ["Config", "run"]
