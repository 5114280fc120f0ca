"""A model that can be refined, with its data and its loss."""

from tfp_refine import functional
from tfp_refine.refinement import likelihood


class Problem(likelihood.Likelihood):
    """What a refinement is about. Nothing of it changes.

    Args:
        model: Built `keras.Model` with variational layers.
        x: Training inputs, as for `refine`.
        y: Training targets, as for `refine`.
        loss: Negative log likelihood, as for `refine`.
        refine_deterministic: Whether `params` include the trainable weights
            without a posterior.

    Attributes:
        layout: The model's `WeightLayout`.
        params: Its mean-field posterior, `[2, W]`, and after it, if asked
            for, its trainable deterministic weights.
        prior: Its prior, `(loc [W], scale [W])`.

    Raises:
        ValueError: If model, data and likelihood do not fit each other, or the
            model cannot be refined.
    """

    def __init__(self, model, x, y, loss, refine_deterministic=False):
        self.layout = functional.WeightLayout(model, refine_deterministic)
        self.prior = self.layout.prior()
        self._check_weights()
        likelihood.check_finite(model, prior=self.prior)
        super().__init__(model, x, y, loss, self.layout)

    def _check_weights(self):
        """Refuses weights that refinement may not move freely."""
        for weight in self.layout.weights:
            if not weight.loc.trainable or weight.loc.constraint:
                raise ValueError(
                    f"Variational weight '{weight.loc.path}' is frozen or "
                    "constrained: refinement moves weights freely. Make "
                    "its posterior None, or lift the constraint."
                )
        for variable in self.layout.points:
            if variable.constraint:
                raise ValueError(
                    f"Weight '{variable.path}' is constrained: refinement "
                    "moves weights freely. Freeze it, lift the constraint, or "
                    "pass refine_deterministic=False."
                )
