"""The radial flow as a bijector."""

from typing import Any

from tfp_refine.bijectors import flow
from tfp_refine.math import radial_flow


class Radial(flow.Flow):
    """Moves points towards a center, or away from it.

    `y = x + beta (x - x0) / (alpha + |x - x0|)`, with `alpha =
    softplus(alpha_prime)` and `beta = softplus(beta_prime) - alpha`: invertible
    for any parameters, the identity where `beta_prime` is `alpha_prime`.

    Args:
        x0: Center, `[..., D]`.
        alpha_prime: Raw parameter, `[...]`.
        beta_prime: Raw parameter, `[...]`.
        validate_args: As in `tfp.bijectors.Bijector`.
        name: Name of the bijector.

    Raises:
        ValueError: If a parameter has too few axes or another dtype, or sizes
            disagree.

    Example:

    ```python
    flow = tfp_refine.bijectors.Radial([0.0, 0.0], -1.0, 2.0)
    distribution = tfp.distributions.TransformedDistribution(
        tfp.distributions.MultivariateNormalDiag([0.0, 0.0]), flow
    )
    ```

    Reference:
        - [Rezende and Mohamed, 2015](https://arxiv.org/abs/1505.05770)
    """

    _formulas = radial_flow
    _axes = {"x0": "D", "alpha_prime": "", "beta_prime": ""}

    def __init__(
        self,
        x0: Any,
        alpha_prime: Any,
        beta_prime: Any,
        validate_args: bool = False,
        name: str = "radial",
    ) -> None:
        super().__init__(dict(locals()))
