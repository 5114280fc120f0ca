"""How much of the gap from VI to the posterior itself each system closes.

For a network of one hidden layer, whose posterior can be sampled by parallel
tempering, or, where it is wide and its noise given, by Hamiltonian Monte Carlo
alone; and systems that approximate the same posterior: test NLL (nats, original
units) and the distance (MMD) of their predictions of the test inputs. The
reference is used only if its chains, which start from draws of the prior, have
mixed: R-hat of the means and standard deviations that they predict for each
test input at most 1.01.

The noise is one for each input, or one of a given size for all. Members of an
ensemble that is refined with the factor 1 on the KL divergence are mixed with
equal weights, and with those that their bounds give. Fewer training examples
make a posterior that is easier to sample.

  python benchmarks/posterior_gap.py --dataset=yacht [--data-dir=DIR] \
      [--splits=1] [--hidden=2] [--noise-scale=SCALE] [--examples=N] \
      [--systems=NAMES] [--output-dir=DIR]

References: Swendsen and Wang, 1986, https://doi.org/10.1103/PhysRevLett.57.2607;
Syed et al., 2021, https://doi.org/10.1111/rssb.12464 (even and odd swaps in
turn, and the powers).
"""

import argparse
import dataclasses
import pathlib
import tempfile

import numpy as np
import scipy.special
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_refine as tfr
from tfp_refine.experiments import bench
from tfp_refine.experiments import uci
from tfp_refine.experiments.data import load
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.measures import predictions

_SYSTEMS = (
    "vi,longer,refined,cm,deep_ensemble,adversarial_ensemble,refined_ensemble,"
    "refined_ensemble(member_kl_scale=1)"
)
_MAX_R_HAT = 1.01
_NUM_CHAINS = 4
_NUM_DRAWS = 1000  # of each prediction
_ACCEPTED = 0.8  # of the proposals of each replica, once adapted
_PER_CALL = 20  # transitions of a compiled call
_LOSS = tfr.losses.HeteroscedasticGaussianNLL()


class Posterior:
    """The weights of `Dense(hidden, relu)`, `Dense(2)` with the prior N(0, 1).

    Or `Dense(1)`, with noise of a given standard deviation. Weights are
    `[..., W]`, float64; data are standardized.
    """

    def __init__(self, x, y, hidden, noise_scale=None):
        self._x, self._y = (
            tf.constant(x, tf.float64),
            tf.constant(y, tf.float64),
        )
        self._hidden, self._num_heads, self._raw = hidden, 2, None
        if noise_scale is not None:
            self._num_heads, self._raw = 1, _LOSS.raw_noise(noise_scale)
        self.size = (x.shape[1] + 1) * hidden + (hidden + 1) * self._num_heads

    def outputs(self, weights, x):
        """Returns means and raw scales, `[..., N, 2]`."""
        shapes = [(x.shape[1], self._hidden), (1, self._hidden)]
        shapes += [(self._hidden, self._num_heads), (1, self._num_heads)]
        sizes = [rows * columns for rows, columns in shapes]
        batch = weights.shape[:-1]
        kernel, bias, last_kernel, last_bias = (
            tf.reshape(part, (*batch, *shape))
            for part, shape in zip(
                tf.split(weights, sizes, axis=-1), shapes, strict=True
            )
        )
        features = tf.einsum("ni,...ij->...nj", x, kernel) + bias
        outputs = tf.nn.relu(features) @ last_kernel + last_bias
        if self._raw is None:
            return outputs
        raws = tf.zeros_like(outputs) + self._raw
        return tf.concat([outputs, raws], axis=-1)

    def log_likelihood(self, weights):
        """Computes nats, `[...]`."""
        loc, scale = _LOSS.loc_and_scale(self.outputs(weights, self._x))
        normal = tfp.distributions.Normal(loc, scale)
        return tf.reduce_sum(normal.log_prob(self._y), axis=(-2, -1))


def log_prior(weights):
    """Computes nats, `[...]`."""
    normal = tfp.distributions.Normal(tf.zeros([], tf.float64), 1.0)
    return tf.reduce_sum(normal.log_prob(weights), axis=-1)


class Sampler:
    """Parallel tempering: the likelihood counts less in each further replica.

    Replicas start from draws of the prior. States are `[R, chains, W]`.
    """

    def __init__(self, posterior, replicas, leapfrogs, seed):
        self._posterior, self._leapfrogs = posterior, leapfrogs
        self._rng = np.random.default_rng(seed)
        self._powers = np.ones(1)
        if replicas > 1:
            powers = np.geomspace(1.0, 1e-3, replicas - 1)
            self._powers = np.append(powers, 0.0)
        self._step_sizes = np.geomspace(1e-3, 1e-1, replicas)
        size = (replicas, _NUM_CHAINS, posterior.size)
        self._state = tf.constant(self._rng.standard_normal(size))

    @tf.function(jit_compile=True)
    def _transitions(self, state, powers, step_sizes, seeds):
        """Returns states, and rates of proposals `[R]` and swaps `[R - 1]`."""

        def log_prob(weights):
            log_likelihood = self._posterior.log_likelihood(weights)
            return powers[:, None] * log_likelihood + log_prior(weights)

        kernel = tfp.mcmc.HamiltonianMonteCarlo(
            log_prob, step_sizes[:, None, None], self._leapfrogs
        )

        def transition(before, inputs):
            state, *_ = before
            number, seed = inputs
            first, second = tf.unstack(tfp.random.split_seed(seed))
            start = kernel.bootstrap_results(state)
            state, results = kernel.one_step(state, start, seed=first)
            log_likelihood = self._posterior.log_likelihood(state)
            log_ratio = (powers[:-1] - powers[1:])[:, None] * (
                log_likelihood[1:] - log_likelihood[:-1]
            )
            uniform = tf.random.stateless_uniform(
                tf.shape(log_ratio), second, dtype=tf.float64, alg="philox"
            )
            # Even pairs and odd ones in turn: a replica goes on its way.
            turn = tf.range(len(log_ratio))[:, None] % 2 == number % 2
            swaps = turn & (tf.math.log(uniform) < log_ratio)
            state = tf.where(
                tf.pad(swaps, [[0, 1], [0, 0]])[..., None],
                tf.roll(state, -1, axis=0),
                tf.where(
                    tf.pad(swaps, [[1, 0], [0, 0]])[..., None],
                    tf.roll(state, 1, axis=0),
                    state,
                ),
            )
            return state, _rate(results.log_accept_ratio), _rate(log_ratio)

        zeros = tf.zeros(len(powers), tf.float64)
        return tf.scan(
            transition,
            (tf.range(_PER_CALL), seeds),
            initializer=(state, zeros, zeros[1:]),
        )

    def run(self, num_transitions, adapts=False):
        """Returns samples, `[T, chains, W]`, and the mean rates of acceptance.

        They are those of proposals, `[R]`, and of swaps, `[R - 1]`.
        """
        kept = []
        for _ in range(-(-num_transitions // _PER_CALL)):
            # Steps of one length could close trajectories.
            steps = self._rng.uniform(0.5, 1.0) * self._step_sizes
            seeds = self._rng.integers(2**31, size=(_PER_CALL, 2))
            states, accepted, swapped = self._transitions(
                self._state,
                tf.constant(self._powers),
                tf.constant(steps),
                tf.constant(seeds, tf.int32),
            )
            self._state = states[-1]
            kept.append((states[:, 0], accepted, swapped))
            if adapts:
                excess = np.mean(accepted, axis=0) - _ACCEPTED
                self._step_sizes *= np.exp(0.5 * excess)
                self._space(np.mean(swapped, axis=0))
        samples, accepted, swapped = (
            np.concatenate(v) for v in zip(*kept, strict=True)
        )
        return samples, accepted.mean(axis=0), swapped.mean(axis=0)

    def _space(self, rates):
        """Moves powers towards equal rates of swaps (Syed et al., 2021)."""
        barrier = np.cumsum(np.append(0.0, 1.0 - rates + 1e-3))
        equal = np.interp(
            np.linspace(0.0, barrier[-1], len(barrier)), barrier, self._powers
        )
        self._powers += 0.2 * (equal - self._powers)


def _rate(log_ratio):
    """Returns the mean probability of acceptance over chains, `[R]`."""
    return tf.reduce_mean(tf.exp(tf.minimum(log_ratio, 0.0)), axis=-1)


def reference(data, arguments, number, folder):
    """Samples the posterior; returns predictions `[S, N, 2]`, or `None`.

    It is None if the chains have not mixed. Predictions that are in the folder
    are not made again.
    """
    path = pathlib.Path(folder) / f"posterior_{number}.npy"
    if path.exists():
        return np.load(path)
    posterior = Posterior(*data.train, arguments.hidden, arguments.noise_scale)
    sampler = Sampler(
        posterior, arguments.replicas, arguments.leapfrogs, number
    )
    sampler.run(arguments.warmup, adapts=True)
    samples, rates, swaps = sampler.run(arguments.transitions)
    x = tf.constant(data.test[0], tf.float64)
    outputs = tf.map_fn(lambda each: posterior.outputs(each, x), samples)
    loc, scale = (np.asarray(v)[..., 0] for v in _LOSS.loc_and_scale(outputs))
    predicted = [loc]
    if arguments.noise_scale is None:
        predicted.append(np.log(scale))
    r_hat = max(tfr.sampling.r_hat(values).max() for values in predicted)
    by_chain = [
        predictions.of_regression(_thinned(chain), data)["nll"]
        for chain in np.moveaxis(outputs, 1, 0)
    ]
    print(
        f"split {number}: R-hat {r_hat:.4f}, NLL of each chain "
        + ", ".join(f"{nll:.3f}" for nll in by_chain)
        + f"; accepted {min(rates):.2f} or more of proposals, "
        f"{min(swaps, default=1.0):.2f} of swaps",
        flush=True,
    )
    if not r_hat <= _MAX_R_HAT:
        print("The chains have not mixed: nothing is compared with them.")
        return None
    found = _thinned(np.reshape(outputs, (-1, *outputs.shape[2:])))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, found)
    return found


def _thinned(draws):
    """Returns every few of many draws, about as many as are compared."""
    return draws[:: max(1, len(draws) // _NUM_DRAWS)]


def compare(config, references, load_data):
    """Prints each system's NLL, share of the gap, and distance."""

    def distance(subject):
        exact = references[subject.repetition.number]
        by_name = {"exact": exact, "equal": subject.draws()}
        is_mixture = subject.expression.name == "refined_ensemble"
        if is_mixture and fields.kl_scale(subject.config.member_kl_scale) == 1:
            bounds = subject.fitted.posterior.elbo_final
            by_name["by bounds"] = _weighted(by_name["equal"], bounds)
        metrics = {}
        for name, draws in by_name.items():
            found = predictions.of_regression(draws, subject.data)
            flat = (np.reshape(v, (len(v), -1)) for v in (exact, draws))
            metrics |= {
                f"{name} nll": found["nll"],
                f"{name} mmd": tfr.metrics.mmd(*flat),
                f"{name} coverage": found["coverage"],
            }
        return metrics, {}

    measures = (bench.Measure("distance", distance),)
    systems = bench.Bench(
        "posterior_gap", config, measures, load_data=load_data
    )
    rows = systems.run().rows
    table = rows.pivot_table("value", ["seed", "system"], "metric")
    print(
        f"{'split':<6} {'system':<46} {'NLL':>8} {'share':>8} {'MMD':>8} "
        f"{'coverage':>8}"
    )
    for number in sorted(references):
        _print(str(number), table.loc[number], config.systems)
    if len(references) > 1:
        _print("mean", table.groupby(level="system").mean(), config.systems)


def _print(split, table, systems):
    """Prints the rows of a split, or of the means of several."""
    vi = table.loc["vi"]
    whole = vi["equal nll"] - vi["exact nll"]
    for system in systems:
        found = table.loc[system].dropna()
        kinds = {"equal": system, "by bounds": f"{system}, by bounds"}
        if system == systems[0]:
            kinds = {"exact": "posterior", **kinds}
        for kind, title in kinds.items():
            if f"{kind} nll" not in found:
                continue
            share = (vi["equal nll"] - found[f"{kind} nll"]) / whole
            print(
                f"{split:<6} {title:<46} {found[f'{kind} nll']:8.3f} "
                f"{share:8.2f} {found[f'{kind} mmd']:8.4f} "
                f"{found[f'{kind} coverage']:8.3f}"
            )


def _weighted(draws, bounds):
    """Draws again, members by their weights in a mixture of greatest bound.

    Draw `s` is of the member `s % M`. Weights that maximize the bound of a
    mixture whose members do not overlap are exponentials of theirs.
    """
    weights = scipy.special.softmax(bounds)[np.arange(len(draws)) % len(bounds)]
    rng = np.random.default_rng(0)
    return draws[rng.choice(len(draws), len(draws), p=weights / weights.sum())]


def main():
    """Samples the posterior of each split, and compares systems with it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--dataset", default="yacht")
    parser.add_argument("--data-dir", help="folder of other sets")
    parser.add_argument("--split-kind", default="random", help="or given")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument(
        "--examples", type=int, help="training examples, the first of a split"
    )
    parser.add_argument("--hidden", type=int, default=2, help="hidden units")
    parser.add_argument(
        "--noise-scale",
        type=float,
        help="standard deviation of the noise, of standardized targets;\n"
        "one for each input is learned if it is not given",
    )
    parser.add_argument("--systems", default=_SYSTEMS, help="vi among them")
    parser.add_argument(
        "--replicas", type=int, default=24, help="1 is without tempering"
    )
    parser.add_argument("--leapfrogs", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--transitions", type=int, default=5000)
    parser.add_argument(
        "--output-dir", help="keeps all; use another one for other flags"
    )
    arguments = parser.parse_args()
    homoscedastic = {}
    if arguments.noise_scale is not None:
        homoscedastic = {
            "likelihood": "homoscedastic",
            "noise_scale": arguments.noise_scale,
            "learn_noise": False,
        }
    with tempfile.TemporaryDirectory() as folder:
        config = uci.Config(
            dataset=arguments.dataset,
            data_dir=arguments.data_dir,
            split_kind=arguments.split_kind,
            hidden=(arguments.hidden,),
            **homoscedastic,
            seeds=arguments.splits,
            systems=config_lib.parse(uci.Config, "systems", arguments.systems),
            num_samples=_NUM_DRAWS,
            output_dir=arguments.output_dir or folder,
        )

        def load_data(config, number=0):
            data = load.load(config, number)
            train = tuple(part[: arguments.examples] for part in data.train)
            return dataclasses.replace(data, train=train)

        references = {
            number: reference(
                load_data(config, number), arguments, number, config.output_dir
            )
            for number in range(arguments.splits)
        }
        if all(found is not None for found in references.values()):
            compare(config, references, load_data)


if __name__ == "__main__":
    main()
