"""The gated coupling flow as a bijector."""

from typing import Any

from tfp_refine.bijectors import flow
from tfp_refine.math import gated_coupling


class GatedCoupling(flow.Flow):
    """Moves some coordinates as a function of the others: a RealNVP step.

    `y = b * x + (1 - b) * (gate * x + (1 - gate) * shift)`, where `b` is the
    mask, and shift and gate are a network's of `b * x` with a hidden layer of
    `H` tanh units. The gate shrinks, and so is stable where chains of
    exponential scales are not; the log determinant is that of the gates.

    A mask is fixed when the bijector is made: for random ones, draw a mask for
    each bijector, or one for each point, `[..., D]`.

    Args:
        mask: 1 where a coordinate stays and else 0, `[..., D]`.
        hidden_kernel: `[D, H]`.
        hidden_bias: `[H]`.
        shift_kernel: `[H, D]`.
        shift_bias: `[D]`.
        gate_kernel: `[H, D]`.
        gate_bias: `[D]`; 2 makes gates of 0.88 to start from.
        validate_args: As in `tfp.bijectors.Bijector`.
        name: Name of the bijector.

    Raises:
        ValueError: If a parameter has too few axes or another dtype, or sizes
            disagree.

    Example:

    ```python
    rng = np.random.default_rng(0)
    shapes = ([4, 8], [8], [8, 4], [4], [8, 4], [4])
    weights = [rng.normal(size=s).astype("float32") for s in shapes]
    flow = tfp_refine.bijectors.GatedCoupling([1.0, 0.0, 1.0, 0.0], *weights)
    ```

    References:
        - [Dinh et al., 2017](https://arxiv.org/abs/1605.08803)
        - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961)
    """

    _formulas = gated_coupling
    _axes = {
        "mask": "D",
        "hidden_kernel": "DH",
        "hidden_bias": "H",
        "shift_kernel": "HD",
        "shift_bias": "D",
        "gate_kernel": "HD",
        "gate_bias": "D",
    }

    def __init__(
        self,
        mask: Any,
        hidden_kernel: Any,
        hidden_bias: Any,
        shift_kernel: Any,
        shift_bias: Any,
        gate_kernel: Any,
        gate_bias: Any,
        validate_args: bool = False,
        name: str = "gated_coupling",
    ) -> None:
        super().__init__(dict(locals()))

    def _tensors(self):
        mask, *network = super()._tensors()
        return mask, gated_coupling.Network(*network)
