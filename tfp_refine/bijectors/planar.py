"""The planar flow as a bijector."""

from typing import Any

from tfp_refine.bijectors import flow
from tfp_refine.math import planar_flow


class Planar(flow.Flow):
    """Moves points along a direction, by their position relative to a plane.

    `y = x + u_hat tanh(w.x + b)`, where `u_hat` is `u` with its part along `w`
    changed so that `w.u_hat > -1`: invertible for any parameters. The inverse
    has no closed form; it is found by a search, to rounding.

    Args:
        u: Direction, `[..., D]`.
        w: Normal of the plane, `[..., D]`.
        b: Offset of the plane, `[...]`.
        validate_args: As in `tfp.bijectors.Bijector`.
        name: Name of the bijector.

    Raises:
        ValueError: If a parameter has too few axes or another dtype, or sizes
            disagree.

    Example:

    ```python
    flow = tfp_refine.bijectors.Planar([1.0, 0.5], [2.0, 0.0], 0.1)
    distribution = tfp.distributions.TransformedDistribution(
        tfp.distributions.MultivariateNormalDiag([0.0, 0.0]), flow
    )
    ```

    Reference:
        - [Rezende and Mohamed, 2015](https://arxiv.org/abs/1505.05770)
    """

    _formulas = planar_flow
    _axes = {"u": "D", "w": "D", "b": ""}

    def __init__(
        self,
        u: Any,
        w: Any,
        b: Any,
        validate_args: bool = False,
        name: str = "planar",
    ) -> None:
        super().__init__(dict(locals()))
