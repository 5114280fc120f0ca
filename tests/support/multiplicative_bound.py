"""The KL bound of multiplicative normalizing flows, written in NumPy."""

import functools

import numpy as np
from scipy import special
from scipy import stats

from tfp_refine.layers import noise


class Bound:
    """The bound of a layer's kernel, at the values that it has now.

    Args:
        layer: `DenseMNF` or `Conv2DMNF`, built.
        prior_scale: Standard deviation of the prior, which is Gaussian.
        form: As the argument `auxiliary` of the layer.
    """

    def __init__(self, layer, prior_scale, form="log_precision"):
        self._values = {
            variable.name.removeprefix("kernel_"): np.asarray(
                variable, "float64"
            )
            for variable in layer.weights
        }
        loc, raw = self._values["loc"], self._values["untransformed_scale"]
        self.is_dense = loc.ndim == 2
        if not self.is_dense:
            loc, raw = (np.reshape(a, (-1, a.shape[-1])).T for a in (loc, raw))
        self.loc, self.scale = loc, np.log1p(np.exp(raw))  # [D, M]
        self._prior_scale = prior_scale
        self._is_paper = form == "paper"

    def multipliers(self, noise, masks=()):
        """Returns the flow's values for noise, `[..., D]`, and its log_det."""
        stddev = np.exp(self._values["z_log_variance"] / 2.0)
        return self._flow("flow", self._values["z_loc"] + stddev * noise, masks)

    def conditional_kl(self, z):
        """Computes the divergence of the weights given `z [..., D]`, nats."""
        s = self.scale / self._prior_scale
        mu = z[..., None] * self.loc / self._prior_scale
        kl = 0.5 * (s**2 + mu**2 - 1.0) - np.log(s)
        return np.sum(kl, axis=(-2, -1))

    def __call__(self, noise, masks, r_noise, r_masks):
        """Computes the bound for given draws, nats, `[...]`."""
        z, log_det = self.multipliers(noise, masks)
        variance = np.exp(self._values["z_log_variance"])
        log_q = -np.sum(np.log(2 * np.pi * np.e * variance)) / 2 - log_det
        log_r = self._log_r(z, r_noise, r_masks)
        return self.conditional_kl(z) + log_q - log_r

    def _log_r(self, z, noise, masks):
        c, b1, b2 = self._values["auxiliary"]
        product = np.einsum("...d,dm,d->...m", z, self.loc, c)
        product = product + np.sqrt(c**2 @ self.scale**2) * noise
        if self.is_dense or self._is_paper:
            product = np.tanh(product)
        statistic = np.mean(product, axis=-1, keepdims=True)
        loc = b1 * statistic
        if self._is_paper:
            stddev = special.expit(b2 * statistic)
        else:
            loc_0, log_precision_0 = self._values["auxiliary_base"]
            loc = loc + loc_0
            log_precision = np.clip(b2 * statistic, -10, 10) + log_precision_0
            stddev = np.exp(-log_precision / 2.0)
        base, log_det = self._flow("auxiliary_flow", z, masks)
        log_prob = stats.norm.logpdf(base, loc, stddev)
        return np.sum(log_prob, axis=-1) + log_det

    def _flow(self, name, z, masks):
        total = 0.0
        get = functools.partial(_get, self._values, name)
        if get("b") is not None:
            for u, w, b in zip(get("u"), get("w"), get("b"), strict=True):
                slope = np.log1p(np.exp(u * w)) - 1.0  # of one coordinate
                bend = np.tanh(w * z + b)
                z = z + slope / w * bend
                total = total + np.log(1.0 + (1.0 - bend**2) * slope)[..., 0]
            return z, total
        for step, mask in enumerate(masks):
            hidden = np.tanh(
                (mask * z) @ get("hidden_kernel")[step]
                + get("hidden_bias")[step]
            )
            shift, gate = (
                hidden @ get("output_kernel")[step, i]
                + get("output_bias")[step, i]
                for i in range(2)
            )
            gate = special.expit(gate)
            z = np.where(mask == 1, z, gate * z + (1.0 - gate) * shift)
            total = total + np.sum(np.where(mask == 1, 0.0, np.log(gate)), -1)
        return z, total

    def average(self, num=200):
        """Averages the bound of a single weight over all draws, nats."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(num)
        weights = weights / np.sum(weights)
        values = self(nodes[:, None, None], (), nodes[None, :, None], ())
        return weights @ values @ weights

    def exact(self):
        """Computes the divergence that is bounded, of a single weight, nats."""
        noise = np.linspace(-8.0, 8.0, 1001)
        z, _ = self.multipliers(noise[:, None])
        w = np.linspace(-12.0, 12.0, 801)
        density = stats.norm.pdf(w, z * self.loc[0], self.scale[0])
        density = np.trapezoid(
            stats.norm.pdf(noise)[:, None] * density, noise, axis=0
        )
        log_prior = stats.norm.logpdf(w, 0.0, self._prior_scale)
        ratio = np.log(np.maximum(density, 1e-300)) - log_prior
        return np.trapezoid(density * ratio, w)


def _get(values, flow, name):
    return values.get(f"{flow}_{name}")


class Recorder:
    """Keeps the random numbers that layers draw, in their order.

    Args:
        monkeypatch: The fixture.
    """

    def __init__(self, monkeypatch):
        self.normals, self.masks = [], []
        for name, kept in (
            ("standard_normal", self.normals),
            ("random_signs", self.masks),
        ):
            monkeypatch.setattr(
                noise,
                name,
                functools.partial(_draw, getattr(noise, name), kept),
            )

    def clear(self):
        """Forgets all of them."""
        self.normals.clear()
        self.masks.clear()


def _draw(draw, kept, *arguments):
    draws = draw(*arguments)
    kept.append(np.asarray(draws, "float64"))
    return draws
