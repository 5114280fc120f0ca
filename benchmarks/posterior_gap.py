"""How much of the gap from VI to the posterior itself each system closes.

For a network of one small hidden layer, whose posterior can be sampled by
parallel tempering; and systems that approximate the same posterior: test NLL
(nats, original units) and the distance (MMD) of their predictions of the test
inputs. The reference is used only if its chains, which start from draws of the
prior, have mixed: R-hat of the means and standard deviations that they predict
for each test input at most 1.01.

  python benchmarks/posterior_gap.py --dataset=yacht [--data-dir=DIR] \
      [--splits=1] [--hidden=2] [--systems=NAMES] [--output-dir=DIR]

References: Swendsen and Wang, 1986, https://doi.org/10.1103/PhysRevLett.57.2607;
Syed et al., 2021, https://doi.org/10.1111/rssb.12464 (even and odd swaps in
turn, and the powers).
"""

import argparse
import pathlib
import tempfile

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_refine as tfr
from tfp_refine.experiments import bench
from tfp_refine.experiments import uci
from tfp_refine.experiments.data import load
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.measures import predictions

_SYSTEMS = "vi,longer,refined,cm,deep_ensemble,refined_ensemble"
_MAX_R_HAT = 1.01
_NUM_CHAINS = 4
_NUM_DRAWS = 1000  # of each prediction
_ACCEPTED = 0.8  # of the proposals of each replica, once adapted
_PER_CALL = 20  # transitions of a compiled call
_LOSS = tfr.losses.HeteroscedasticGaussianNLL()


class Posterior:
    """The weights of `Dense(hidden, relu)`, `Dense(2)` with the prior N(0, 1).

    Weights are `[..., W]`, float64; data are standardized.
    """

    def __init__(self, x, y, hidden):
        self._x, self._y = (
            tf.constant(x, tf.float64),
            tf.constant(y, tf.float64),
        )
        self._hidden = hidden
        self.size = (x.shape[1] + 1) * hidden + (hidden + 1) * 2

    def outputs(self, weights, x):
        """Returns means and raw scales, `[..., N, 2]`."""
        shapes = [(x.shape[1], self._hidden), (1, self._hidden)]
        shapes += [(self._hidden, 2), (1, 2)]
        sizes = [rows * columns for rows, columns in shapes]
        batch = weights.shape[:-1]
        kernel, bias, last_kernel, last_bias = (
            tf.reshape(part, (*batch, *shape))
            for part, shape in zip(
                tf.split(weights, sizes, axis=-1), shapes, strict=True
            )
        )
        features = tf.einsum("ni,...ij->...nj", x, kernel) + bias
        return tf.nn.relu(features) @ last_kernel + last_bias

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
        self._powers = np.append(np.geomspace(1.0, 1e-3, replicas - 1), 0.0)
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
    posterior = Posterior(*data.train, arguments.hidden)
    sampler = Sampler(
        posterior, arguments.replicas, arguments.leapfrogs, number
    )
    sampler.run(arguments.warmup, adapts=True)
    samples, rates, swaps = sampler.run(arguments.transitions)
    x = tf.constant(data.test[0], tf.float64)
    outputs = tf.map_fn(lambda each: posterior.outputs(each, x), samples)
    loc, scale = (np.asarray(v)[..., 0] for v in _LOSS.loc_and_scale(outputs))
    r_hat = max(
        tfr.sampling.r_hat(values).max() for values in (loc, np.log(scale))
    )
    by_chain = [
        predictions.of_regression(chain, data)["nll"]
        for chain in np.moveaxis(outputs, 1, 0)
    ]
    print(
        f"split {number}: R-hat {r_hat:.4f}, NLL of each chain "
        + ", ".join(f"{nll:.3f}" for nll in by_chain)
        + f"; accepted {min(rates):.2f} or more of proposals, "
        f"{min(swaps):.2f} of swaps",
        flush=True,
    )
    if not r_hat <= _MAX_R_HAT:
        print("The chains have not mixed: nothing is compared with them.")
        return None
    flat = np.reshape(outputs, (-1, *outputs.shape[2:]))
    found = flat[:: max(1, len(flat) // _NUM_DRAWS)]
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, found)
    return found


def compare(config, references):
    """Prints each system's NLL, share of the gap, and distance."""

    def gap(subject):
        exact = references[subject.repetition.number]
        flat = (np.reshape(v, (len(v), -1)) for v in (exact, subject.draws()))
        found = predictions.of_regression(exact, subject.data)
        return {"exact_nll": found["nll"], "mmd": tfr.metrics.mmd(*flat)}, {}

    measures = (predictions.TEST, bench.Measure("gap", gap))
    rows = bench.Bench("posterior_gap", config, measures).run().rows
    table = rows.pivot_table("value", ["seed", "system"], "metric")
    print(f"{'split':<6} {'system':<18} {'NLL':>8} {'share':>8} {'MMD':>8}")
    for number in sorted(references):
        exact, vi = (
            table.loc[number]["exact_nll"].iloc[0],
            table.loc[number, "vi"],
        )
        print(
            f"{number:<6} {'posterior':<18} {exact:8.3f} {1.0:8.2f} {0.0:8.4f}"
        )
        for system in config.systems:
            found = table.loc[number, system]
            share = (vi["nll"] - found["nll"]) / (vi["nll"] - exact)
            print(
                f"{number:<6} {system:<18} {found['nll']:8.3f} {share:8.2f} "
                f"{found['mmd']:8.4f}"
            )


def main():
    """Samples the posterior of each split, and compares systems with it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--dataset", default="yacht")
    parser.add_argument("--data-dir", help="folder of other sets")
    parser.add_argument("--split-kind", default="random", help="or given")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--hidden", type=int, default=2, help="hidden units")
    parser.add_argument("--systems", default=_SYSTEMS, help="vi among them")
    parser.add_argument("--replicas", type=int, default=24)
    parser.add_argument("--leapfrogs", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--transitions", type=int, default=5000)
    parser.add_argument(
        "--output-dir", help="keeps all; use another one for other flags"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = uci.Config(
            dataset=arguments.dataset,
            data_dir=arguments.data_dir,
            split_kind=arguments.split_kind,
            hidden=(arguments.hidden,),
            seeds=arguments.splits,
            systems=config_lib.parse(uci.Config, "systems", arguments.systems),
            num_samples=_NUM_DRAWS,
            output_dir=arguments.output_dir or folder,
        )
        references = {
            number: reference(
                load.load(config, number), arguments, number, config.output_dir
            )
            for number in range(arguments.splits)
        }
        if all(found is not None for found in references.values()):
            compare(config, references)


if __name__ == "__main__":
    main()
