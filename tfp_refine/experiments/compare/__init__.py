r"""All systems of the papers, fitted to the same data, on one page.

Fits each of --systems to a data set, several times: the same network on the
same training data, trained for the same steps, and as many draws of predictions
for all that can be drawn at will. Reports test metrics, paired differences,
costs, metrics away from the training data, and the papers' figures where there
are any. A system that cannot be applied is left out, and the report says why.
Stopped at any time and started again with the same --output_dir, it continues;
systems and seeds can be added.

  python -m tfp_refine.experiments.compare
  python -m tfp_refine.experiments.compare --dataset=digits
  python -m tfp_refine.experiments.compare --dataset=mnist --data_dir=DIR \
      --systems=map,deep_ensemble,vi,refined --train_steps=4000 \
      --unseen=fashion_mnist --corruptions=gaussian_noise,fog
  python -m tfp_refine.experiments.compare --dataset=energy --seeds=5 \
      --systems="vi,cm(iblm),refined(vi,num_members=20)"

References: the papers of the systems, in the report.
"""

from tfp_refine.experiments.compare.config import Config
from tfp_refine.experiments.compare.run import run

__all__ = ["Config", "run"]
