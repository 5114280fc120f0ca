# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Text
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/text.ipynb)
#
# We classify sentences with a posterior over word embeddings. Words that are rare in
# the training set keep wide posteriors, so that predictions are uncertain where they
# depend on such words. The sentences are in the documentation of packages that are
# installed here, so that nothing is downloaded; results depend on their versions. This
# takes less than a minute on one CPU core.
#
# By the tfp_refine authors; [Apache License 2.0](https://www.apache.org/licenses/LICENSE-2.0).

# %%
# Installs the package if it is missing, as on Colab, and those of its
# requirements that are missing or too old.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("tfp_refine") is None:
    package = "tfp_refine[tf,plot]"
    source = "git+https://github.com/tfp-refine/tfp_refine"
    subprocess.check_call(
        [sys.executable, "-m", "pip", "install", "-q", f"{package} @ {source}"]
    )

# %%
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # Hides TensorFlow's logs.

import importlib
import inspect
import re

import keras
import matplotlib.pyplot as plt
import numpy as np

import tfp_refine as tfr
from tfp_refine import plotting

# %matplotlib inline

keras.utils.set_random_seed(1)

# %% [markdown]
# ## Data
# Each class is a package; its texts are paragraphs of docstrings. Sentences from
# Matplotlib, a package that the model is not trained on, serve as unknown inputs.


# %%
def paragraphs(*modules):
    """Returns paragraphs of prose in the docstrings of modules, sorted."""
    found = set()
    for module in map(importlib.import_module, modules):
        for name, value in vars(module).items():
            if name.startswith("_") or not callable(value):
                continue
            for text in re.split(r"\n\s*\n", inspect.getdoc(value) or ""):
                text = " ".join(text.split())
                if re.fullmatch(r"[A-Z][^`>=:\[\]{}|\\]{40,300}\.", text):
                    found.add(text)
    return sorted(found)


CLASSES = {
    "Keras": paragraphs("keras.layers", "keras.ops", "keras.losses"),
    "NumPy": paragraphs("numpy", "numpy.linalg", "numpy.random"),
    "SciPy": paragraphs("scipy.stats", "scipy.signal"),
    "scikit-learn": paragraphs(
        "sklearn.linear_model", "sklearn.metrics", "sklearn.preprocessing"
    ),
}
unknown = paragraphs("matplotlib.pyplot", "matplotlib.axes")
texts = np.array([text for values in CLASSES.values() for text in values])
labels = np.repeat(range(len(CLASSES)), [len(v) for v in CLASSES.values()])
is_test = np.random.default_rng(1).random(len(texts)) < 0.25
y_train, y_test = labels[~is_test], labels[is_test]
print(len(y_train), "training,", len(y_test), "test,", len(unknown), "unknown")
for name, values in CLASSES.items():
    print(f"{name:13s}{min(values, key=len)}")

# %% [markdown]
# Words become numbers, the most frequent first. Number 0 is padding, and 1 any word
# that is not among the 2000 most frequent of the training set.

# %%
vectorize = keras.layers.TextVectorization(
    max_tokens=2000, output_sequence_length=50
)
vectorize.adapt(texts[~is_test])
x_train, x_test, x_unknown = (
    np.asarray(vectorize(list(values)))
    for values in (texts[~is_test], texts[is_test], unknown)
)
vocabulary = vectorize.get_vocabulary()
print(*vocabulary[2:12])

# %% [markdown]
# ## Two models
# Both average the embeddings of the words of a text, and classify the average. The
# second has posteriors for embeddings and weights, with a prior whose scale is learned
# (empirical Bayes).

# %%
loss = tfr.losses.CategoricalNLL()


def train(embedding, dense):
    """Trains a classifier of these two layers."""
    model = keras.Sequential(
        [
            keras.Input((50,), dtype="int32"),
            embedding,
            keras.layers.GlobalAveragePooling1D(),
            dense,
        ]
    )
    model.compile(
        keras.optimizers.Adam(1e-2),
        loss,
        steps_per_execution=10,
        jit_compile=False,
    )
    batches = tfr.datasets.training_batches(x_train, y_train, 256, seed=1)
    model.fit(batches, steps_per_epoch=1500, shuffle=False, verbose=0)
    return model


keras_model = train(
    keras.layers.Embedding(2000, 16, mask_zero=True), keras.layers.Dense(4)
)
prior = tfr.regularizers.EmpiricalBayesKL(initial_prior_scale=0.5)
posterior = tfr.layers.MeanFieldPosterior(initial_scale=0.05)
bayesian = train(
    tfr.layers.EmbeddingReparameterization(
        2000,
        16,
        mask_zero=True,
        embeddings_posterior=posterior,
        embeddings_regularizer=prior,
        num_train_examples=len(x_train),
        seed=1,
    ),
    tfr.layers.DenseLocalReparameterization(
        4,
        kernel_posterior=posterior,
        kernel_regularizer=prior,
        num_train_examples=len(x_train),
        seed=2,
    ),
)

# %% [markdown]
# ## Comparison
# The Keras model memorizes the training set and is overconfident. The Bayesian model has
# a lower negative log likelihood (NLL, in nats per text), and is underconfident. ECE is
# the expected calibration error.


# %%
def draws_of(x):
    """Returns class probabilities of the draws of each, `[S, N, 4]`."""
    logits = {
        "Keras": keras_model.predict(x, verbose=0)[None],
        "Bayesian": tfr.predict(bayesian, x, num_samples=100, seed=1),
    }
    return {k: np.asarray(keras.ops.softmax(v)) for k, v in logits.items()}


known_draws, unknown_draws = draws_of(x_test), draws_of(x_unknown)
for name, probs in known_draws.items():
    nll = tfr.metrics.negative_log_likelihood(y_test, probs)
    accuracy = tfr.metrics.accuracy(y_test, probs)
    ece = tfr.metrics.expected_calibration_error(y_test, probs)
    print(f"{name:9s} NLL {nll:.3f}  accuracy {accuracy:.3f}  ECE {ece:.3f}")
axes = plotting.reliability_diagram(
    {
        name: tfr.metrics.calibration_bins(y_test, probs)
        for name, probs in known_draws.items()
    }
)

# %% [markdown]
# ## Rare words
# The more often a word occurs in the training set, the narrower its posterior.

# %%
(weight,) = bayesian.layers[0].variational_weights
counts = np.bincount(x_train.ravel(), minlength=2000)[: len(vocabulary)]
scales = np.asarray(weight.scale).mean(axis=-1)[: len(vocabulary)]
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.margins(0.1)
axes.semilogx(counts[2:], scales[2:], ".", color="0.6", markersize=3)
for word in ("the", "of", "random", "regression"):
    point = counts[vocabulary.index(word)], scales[vocabulary.index(word)]
    axes.plot(*point, "k.")
    axes.annotate(
        word, point, (-4, -4), textcoords="offset points", ha="right", va="top"
    )
axes.set(
    xlabel="occurrences in the training set",
    ylabel="posterior standard\ndeviation of the embedding",
)
plt.show()

# %% [markdown]
# ## Unknown texts
# Predictive entropy should be larger for sentences from Matplotlib. AUROC is the
# probability that it is, for a pair of texts. Entropies of the Keras model rank the texts
# well, too, but many unknown texts have an entropy near zero; with the Bayesian model
# none has.

# %%
entropies = {
    name: {
        "known packages": tfr.metrics.predictive_entropy(known_draws[name]),
        "Matplotlib": tfr.metrics.predictive_entropy(unknown_draws[name]),
    }
    for name in known_draws
}
axes = plotting.entropy_histogram(entropies)
for name, values in entropies.items():
    auroc = tfr.metrics.auroc(*(-v for v in values.values()))
    print(f"{name:9s} AUROC {auroc:.3f}")

# %% [markdown]
# ## Your own sentence
# The mutual information between class and weights measures how much the draws disagree.

# %%
sentences = [
    "Applies dropout to the output of the layer during training.",
    "Cook the pasta for nine minutes and serve it with cheese.",
]
draws = draws_of(np.asarray(vectorize(sentences)))["Bayesian"]
information = tfr.metrics.mutual_information(draws)
for text, probs, value in zip(
    sentences, draws.mean(axis=0), information, strict=True
):
    shown = ", ".join(
        f"{n} {p:.2f}" for n, p in zip(CLASSES, probs, strict=True)
    )
    print(f"{text}\n  {shown}; mutual information {value:.3f} nats")

# %% [markdown]
# ## What to try next
# Separate noise in the data from ignorance about the weights in [Bayesian neural networks](https://github.com/tfp-refine/tfp_refine/blob/main/colab/bayesian_neural_networks.ipynb). For Transformers, recurrent layers and texts from files, see [Which method when](https://github.com/tfp-refine/tfp_refine/blob/main/docs/which_method.md).
