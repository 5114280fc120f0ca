"""Fields that the configurations of experiments share: one name, one thing."""

import dataclasses
import importlib.util
import re
import typing
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Annotated
from typing import Any
from typing import Literal
from typing import Self

from tfp_refine.experiments.harness import config

_Entry = typing.TypeVar("_Entry")
Count = Annotated[int, config.at_least(1)]
Length = Annotated[int, config.at_least(0)]
Pair = Annotated[int, config.at_least(2)]
Positive = Annotated[float, config.positive]
NotNegative = Annotated[float, config.not_negative]
Rate = Annotated[float, config.proportion()]
RateOrZero = Annotated[float, config.proportion(zero=True)]
Part = Annotated[float, config.proportion(zero=True, one=True)]
Kind = Literal["regression", "table", "images", "texts"]
# Of some names or numbers, one or more, none twice.
Chosen = Annotated[tuple[_Entry, ...], config.unique, config.not_empty]
Estimator = Literal["flipout", "local_reparameterization", "reparameterization"]

KINDS = typing.get_args(Kind)
ANGLES = (15.0, 30.0, 45.0, 60.0, 75.0, 90.0)
# Height from which images are for convolutions of 5x5 and two poolings.
_LENET_HEIGHT = 16
# Models of which some layers alone have posteriors by default.
_HYBRIDS = "resnet|shufflenet|(text|vision)_transformer$|wide_resnet"


def ratios(texts: Iterable[str]) -> tuple[float, ...]:
    """Reads ratios, `NUMBER` or `NUMBER*TIMES`.

    Raises:
        ValueError: If one is not that, or its number is not in (0, 1).
    """
    found: list[float] = []
    for text in texts:
        number, _, times = text.partition("*")
        try:
            repeated = [float(number)] * int(times or 1)
        except ValueError:
            repeated = []
        if not repeated or not 0.0 < repeated[0] < 1.0:
            raise ValueError("must hold numbers in (0, 1), or NUMBER*TIMES")
        found += repeated
    return tuple(found)


Ratios = Annotated[tuple[str, ...], config.not_empty, ratios]


def kl_scale(text: str) -> float | None:
    """Reads a factor on the KL divergence; `None` if held-out data choose.

    Raises:
        ValueError: If it is neither a positive number nor `held_out`.
    """
    if text == "held_out":
        return None
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.0 < found < float("inf"):
        raise ValueError("must be a positive number or held_out")
    return found


KLScale = Annotated[str, kl_scale]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output(config.Config):
    """Fields of every experiment.

    Output:
        output_dir (common): Folder for results.json, results.csv, figures and
            the state for a restart. Defaults to results/EXPERIMENT or
            results/EXPERIMENT/DATASET.
        progress: Show progress bars; without them, a line at each tenth.

    Training:
        seed: Fixes splits, initial weights, batches and draws.
    """

    output_dir: str | None = None
    progress: bool = True
    seed: Length = 0

    @property
    def verbose(self) -> int:
        """The argument of functions of the library: a bar, or lines."""
        return 1 if self.progress else 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data(config.Config):
    """Data, and how they are split and scaled.

    Data:
        dataset (common): Data set. yacht, energy and concrete come with the
            package; digits, breast_cancer, iris and wine with scikit-learn
            (digits as images or, with --kind=texts, as texts of 64 words, the
            gray levels of the pixels). Other images (mnist, cifar10) and texts
            (trec) are read through tensorflow_datasets, other tables from
            folders of --data_dir.
        kind: Kind of --dataset: regression, a table with classes, images or
            texts. Known for the sets named above; a folder of --data_dir is
            taken for a regression, anything else for images.
        data_dir (common, neutral): Folder of data sets that do not come with
            the package: for tables,
            NAME/data/{data,index_features,index_target}.txt; for images and
            texts, the folder of tensorflow_datasets.
        download (neutral): Download data sets that are missing.
        split_kind: Splits of a regression set. random: 80% training, 20% test;
            given: the index files of --data_dir.
        validation_fraction: Part of the training set that is kept for
            validation. Defaults to 0.1 where a system or option needs one, else
            to 0.
        measure_on: Examples that are used for metrics. validation: a part of
            the training set, --validation_fraction or 0.1, in place of test
            data: to choose settings.
        scaling: Inputs as the model sees them: standardized, pixels from 0 to 1
            (unit), or as they are (none).
        classes: Classes of images to train on; the others become the unseen set
            'other_classes'. Defaults to all.
        vocabulary: Number of words in the vocabulary of texts.
        sequence_length: Number of words that are read of a text.
    """

    dataset: str = "yacht"
    kind: Kind | None = None
    data_dir: str | None = None
    download: bool = False
    split_kind: Literal["random", "given"] = "random"
    validation_fraction: RateOrZero | None = None
    measure_on: Literal["test", "validation"] = "test"
    scaling: Literal["standardized", "unit", "none"] = "standardized"
    classes: tuple[Length, ...] = ()
    vocabulary: Pair = 10000
    sequence_length: Count = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(config.Config):
    """The network, and the likelihood of its outputs.

    Model:
        model (common): mlp, lenet5, lenet5_caffe, lenet5_wide, resnet20 or
            resnetN with N = 6 n + 2, alexnet, resnet18, shufflenet,
            wide_resnet, vision_transformer, gru, text_transformer, or the file
            of a trained model, FILE.keras. Defaults to mlp for tables, gru for
            texts, and for images to lenet5, or mlp if they have fewer than 16
            rows.
        hidden (common): Units of the hidden layers of mlp; of gru, its units;
            of text_transformer, those of the hidden layer of a block.
        widths: Of alexnet: filters of the five convolutions, then units of the
            two hidden dense layers. Defaults to those of the papers.
        embedding: Size of the word vectors of gru and text_transformer.
        activation: Activation of the hidden layers of mlp and lenet5.
        likelihood: Likelihood of a regression: Gaussian noise of one learned
            scale, or of a scale that is the network's second output
            (heteroscedastic).
        noise_scale: Initial standard deviation of homoscedastic noise, of
            standardized targets.
        learn_noise: Learn the scale of homoscedastic noise.
        variational: Weights of variational systems with a posterior: all
            (full), or those of some layers (hybrid), such as half of the
            convolutions of a ResNet. Defaults to hybrid for networks with
            shortcuts.
        batch_norm: Batch normalization in a ResNet.
    """

    model: str | None = None
    hidden: Annotated[tuple[Count, ...], config.not_empty] = (50,)
    widths: tuple[Count, ...] = ()
    embedding: Count = 64
    activation: Literal["relu", "tanh"] = "relu"
    likelihood: Literal["homoscedastic", "heteroscedastic"] = "homoscedastic"
    noise_scale: Positive = 1.0
    learn_noise: bool = True
    variational: Literal["hybrid", "full"] | None = None
    batch_norm: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training(config.Config):
    """Network and training.

    Method:
        systems (common, neutral): Systems to fit, see --list; they combine, as
            in refined(cm(iblm)) or refined(vi, num_members=5).

    Training:
        seeds (common, neutral): Number of repetitions, each with its own
            initial weights, batches, noise and, for tables, train-test split.
            More can be added later.
        train_steps (common): Steps in which each network, or member of an
            ensemble, is trained.
        epochs: The same in epochs.
        batch_size: Examples in a step.
        learning_rate (common): Learning rate of Adam.
        learning_rate_schedule: cosine and linear fall to 0 at the end of the
            training; step: times 0.1, 0.01, 1e-3 and 5e-4 after 81, 121, 161
            and 181 epochs.
        augment: Shift training images at random by up to an eighth (crop), and
            mirror them (crop_and_flip).
        early_stopping_patience: Segments without a lower validation loss after
            which a training stops. Defaults to never.
        segments: Segments of a training: after each it is saved, and a point is
            added to its learning curve.
        test_curve: Evaluate on test data after each segment of a training.

    Output:
        tensorboard: Log scalars for TensorBoard.
    """

    systems: Annotated[tuple[str, ...], config.not_empty] = ("vi", "refined")
    seeds: Count = 2
    train_steps: Count | None = None
    epochs: Count | None = None
    batch_size: Count | None = None
    learning_rate: Positive | None = None
    learning_rate_schedule: Literal["constant", "cosine", "linear", "step"] = (
        "cosine"
    )
    augment: Literal["none", "crop", "crop_and_flip"] = "none"
    early_stopping_patience: Count | None = None
    segments: Count = 10
    test_curve: bool = False
    tensorboard: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variational(config.Config):
    """Variational posteriors, their priors, and dropout.

    Method:
        conv_estimator: Estimator of variational convolutions.
        dense_estimator: Estimator of variational dense layers.
        prior_scale: Standard deviation of the prior of each weight (initial if
            it is learned or optimized; given the prior's mean if that is
            inferred): a number, fan_in (variance 1 / fan_in) or he (2 /
            fan_in).
        initial_scale: Standard deviation that posteriors start from, also those
            of converted, and that of fv.
        kl_scale: Factor on the KL divergence of variational systems; 1 is a
            true bound.
        ivon_learning_rate: Of ivon, with the schedule of the others. Defaults
            to 0.02, for regression to 0.003.
        ivon_hessian_init: Of ivon: curvature that it starts from; less starts
            from a wider posterior.
        ivon_memory: Of ivon: part of the steps of a training over which
            curvatures are averaged.
        ivon_clip_radius: Of ivon: limit of a step, as a multiple of the
            learning rate times the curvature that it starts from.
        posterior_rank: Of k_tied and low_rank. Defaults to 2 and 5, or less in
            small layers.
        prior_warmup: Of optimized: segments of a training before the first
            update of the prior's variances; another follows after each segment.
        learn_prior_mean: Of eb: learn the prior's mean too, one for each
            tensor.
        alpha_reg: Of cm, and delta of cmv: the part of the pull of the means to
            zero that is left.
        cm_prior_scale: Of cm: standard deviation of the prior given its mean,
            written as --prior_scale.
        learn_alpha_reg: Of cm: method of learning alpha_reg, one for the model.
        precision_shape: Of cv and cmv: shape of the Gamma prior of precisions.
        precision_rate: Of cv and cmv: its rate.
        mnf_flow_length: Of mnf: steps of the flow of the multipliers.
        mnf_flow_units: Of mnf: hidden units of each step.
        mnf_auxiliary_length: Of mnf and ffg: steps of the flow that bounds the
            KL.
        mnf_auxiliary_units: Of mnf and ffg: hidden units of each of these.
        log_var_init: Of mnf and ffg: initial log variance of weights.
        max_std: Of mnf and ffg: largest standard deviation of weights in the
            outputs. The paper: 0.5 for MNIST, 0.4 for CIFAR-10. Defaults to no
            limit.
        inference_estimator: Of mnf and ffg: how outputs are drawn outside of
            training: each by itself, or with one draw of the weights for a
            batch.
        dropout: Rate of mc_dropout, initial rate of concrete_dropout. Defaults
            to 0.05, for images to 0.3.
    """

    conv_estimator: Estimator = "flipout"
    dense_estimator: Estimator = "local_reparameterization"
    prior_scale: str | None = None
    initial_scale: Positive = 1e-2
    kl_scale: NotNegative = 1.0
    ivon_learning_rate: Positive | None = None
    ivon_hessian_init: Positive = 100.0
    ivon_memory: Part = 0.1
    ivon_clip_radius: Positive = 0.1
    posterior_rank: Count | None = None
    prior_warmup: Length = 1
    learn_prior_mean: bool = False
    alpha_reg: Annotated[float, config.proportion(one=True)] = 0.05
    cm_prior_scale: str = "fan_in"
    learn_alpha_reg: Literal["no", "gradient", "closed_form"] = "no"
    precision_shape: Positive = 0.5
    precision_rate: Positive = 0.01
    mnf_flow_length: Length = 2
    mnf_flow_units: Count = 50
    mnf_auxiliary_length: Length = 2
    mnf_auxiliary_units: Count = 100
    log_var_init: float = -9.0
    max_std: Positive | None = None
    inference_estimator: Literal[
        "local_reparameterization", "reparameterization"
    ] = "local_reparameterization"
    dropout: Rate | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refinement(config.Config):
    """Refinement of posteriors.

    Method:
        num_members (common): Members of refined posteriors and deep ensembles.
        variance_ratios: Of refined: for each auxiliary variable, the part of
            the remaining prior variance that it takes; 0.5*10 is ten times 0.5.
            Defaults to 0.7*5, for a hybrid ResNet to 0.5*10.
        refine_steps (common): Of refined: steps for each auxiliary variable and
            member. Defaults to 200, of refined_ensemble with an mlp to 1000.
        refine_learning_rate: Of refined: Adam's before the first auxiliary
            variable. The paper: 1e-3, constant.
        refine_learning_rate_decay: Of refined: decay of that rate within each
            auxiliary variable.
        member_scale: Of refined_ensemble: standard deviation that the posterior
            around each network starts from; less for a cold one, by the square
            root of its factor on the KL divergence.
        member_kl_scale: Of refined_ensemble: factor on the KL divergence. Below
            1, a cold posterior: narrower, for data almost without noise.
            held_out: each network is refined with 3, 0.3 and 0.1, and, after 3%
            of the steps of its training, with 1. These have the weights of
            the mixture that is best for a fifth of the training data when
            networks that are trained on the others are refined; this doubles
            the steps of training.
        member_noise_scale: Of refined_ensemble: standard deviation, of
            standardized targets, that learned homoscedastic noise starts from.
            Defaults to that of the residuals of held-out data, if these weigh
            the factors, else to what each network has learned.
        num_starts: Of multi_start: how often the system is fitted.
        refine_deterministic: Of refined: refine weights without a posterior
            along with the others, as refined_ensemble always does.
        num_eval_samples: Draws in each estimate of a bound.
        mapping (neutral): Of refined: how members are computed together: each
            on a core (map), each operation for all (vmap), or whichever is
            faster here.
        members_per_batch (neutral): Of refined: members computed at a time,
            which bounds memory. Defaults to all.
        distributed (neutral): Refine on the workers of the cluster whose chief
            this is, by the environment variable TF_CONFIG; see
            tfp_refine.distribute.
    """

    num_members: Count = 10
    variance_ratios: Ratios | None = None
    refine_steps: Count | None = None
    refine_learning_rate: Positive = 1e-2
    refine_learning_rate_decay: Literal["constant", "linear", "cosine"] = (
        "linear"
    )
    member_scale: Positive = 1e-2
    member_kl_scale: KLScale = "held_out"
    member_noise_scale: Positive | None = None
    num_starts: Pair = 5
    refine_deterministic: bool = False
    num_eval_samples: Count = 10
    mapping: Literal["auto", "map", "vmap"] = "auto"
    members_per_batch: Count | None = None
    distributed: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ensembles(config.Config):
    """Ensembles, SWAG and stochastic gradient HMC.

    Method:
        adversarial_epsilon: Of adversarial_ensemble: how far inputs move, in
            parts of the range of each.
        sgd_learning_rate: Of swag, and of csghmc at the start of a cycle.
            Defaults to 0.01, for regression to 1e-5.
        swag_snapshots: Of swag: snapshots to average.
        swag_rank: Of swag: rank of the covariance.
        cycles: Of csghmc: cycles that --train_steps make.
        samples_per_cycle: Of csghmc.
        temperature: Of csghmc: 1 is the Bayesian posterior. Defaults to 1 / N.
    """

    adversarial_epsilon: Positive = 0.01
    sgd_learning_rate: Positive | None = None
    swag_snapshots: Pair = 40
    swag_rank: Pair = 20
    cycles: Count = 4
    samples_per_cycle: Count = 3
    temperature: NotNegative | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Laplace(config.Config):
    """Laplace's approximation, flows from it, and NUTS.

    Method:
        hessian: Of laplace.
        prior_precision: Of laplace: 1 / variance of the prior, or how it is
            chosen: marginal_likelihood, or grid_search on validation data.
        predictive: Of laplace: how probabilities are averaged: over draws of
            weights (mc) or of the linearized network's outputs (linearized), or
            in closed form (probit, mean_field).
        flow_kind: Of flows.
        flow_length: Of flows: number of flows.
        flow_space: Of flows: whether they act on standard normal draws, or on
            weights (paper).
        flow_base: Of flows: distribution that they start from.
        flow_batch_size: Of flows: examples in a step.
        flow_epochs: Of flows. Defaults to 20, or more for 2000 steps.
        flow_learning_rate: Of flows: Adam's; falls to 0 as a cosine. Defaults
            to 0.1, in paper space to 1e-3.
        flow_samples: Of flows: draws in a step. Defaults to 16, in paper space
            to 1.
        nuts_chains: Chains of nuts.
        nuts_warmup: Of nuts: transitions that are dropped.
        nuts_samples: Of nuts: transitions that are kept.
        nuts_max_tree_depth: Of nuts: a trajectory doubles at most so often.
        max_sampled_weights (neutral): Most weights of a network that
            nuts(laplace_all) samples.
        max_laplace_weights (neutral): Most weights of a network for
            laplace_all, which needs gradients of each example and output.
    """

    hessian: Literal["full", "kron", "diag"] = "full"
    prior_precision: str = "marginal_likelihood"
    predictive: Literal["mc", "linearized", "probit", "mean_field"] = "mc"
    flow_kind: Literal["radial", "planar"] = "radial"
    flow_length: Count = 5
    flow_space: Literal["whitened", "paper"] = "whitened"
    flow_base: Literal["laplace", "standard_normal"] = "laplace"
    flow_batch_size: Count = 128
    flow_epochs: Count | None = None
    flow_learning_rate: Positive | None = None
    flow_samples: Count | None = None
    nuts_chains: Count = 4
    nuts_warmup: Count = 200
    nuts_samples: Annotated[int, config.at_least(4)] = 200
    nuts_max_tree_depth: Count = 8
    max_sampled_weights: Count = 2000
    max_laplace_weights: Count = 20000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation(config.Config):
    """Predictions that are measured.

    Evaluation:
        num_samples (common): Draws of each predictive distribution, spread over
            the members.
        unseen (common): Inputs that should be told from test inputs: other data
            sets, shuffled (each pixel, column or word is another example's),
            turned (images by 90 degrees).
        rotations: Degrees by which test images are turned.
        flipped_pixels: Fractions of the pixels of test images to invert.
        corruptions: Corruptions of test images, such as gaussian_noise or fog;
            see datasets.CORRUPTIONS.
        shift_examples: Test images that are turned, flipped or corrupted.
    """

    num_samples: Count = 100
    unseen: tuple[str, ...] | None = ()
    rotations: tuple[float, ...] | None = ()
    flipped_pixels: tuple[Part, ...] = ()
    corruptions: tuple[str, ...] = ()
    shift_examples: Count = 2000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench(
    Evaluation,
    Laplace,
    Ensembles,
    Refinement,
    Variational,
    Training,
    Network,
    Data,
    Output,
):
    """Fields of experiments that fit systems to a data set.

    Fields that are `None` get a value that depends on the data.
    """

    def check(self):
        """Checks fields that depend on each other."""
        if self.epochs is not None and self.train_steps is not None:
            raise ValueError(
                "Give --epochs or --train_steps, not both. Received: "
                f"--epochs={self.epochs}, --train_steps={self.train_steps}"
            )
        if self.early_stopping_patience and not self.validation_fraction:
            raise ValueError(
                "--early_stopping_patience needs a --validation_fraction. "
                f"Received: --validation_fraction={self.validation_fraction}"
            )
        if self.swag_rank > self.swag_snapshots:
            raise ValueError(
                "--swag_rank must not exceed --swag_snapshots. Received: "
                f"--swag_rank={self.swag_rank}, "
                f"--swag_snapshots={self.swag_snapshots}"
            )
        if self.tensorboard and importlib.util.find_spec("tensorboard") is None:
            raise ValueError(
                "--tensorboard needs the package tensorboard: "
                "pip install 'tfp_refine[tensorboard]'"
            )

    def before_data(self, kind: str) -> dict[str, Any]:
        """Returns default values that data of a kind are loaded with."""
        return {"validation_fraction": 0.0, "unseen": (), "rotations": ()}

    def after_data(
        self, kind: str, shape: Sequence[int], num_examples: int
    ) -> dict[str, Any]:
        """Returns default values that depend on the data.

        Args:
            kind: One of `KINDS`.
            shape: Shape of an example.
            num_examples: Number of training examples.
        """
        is_image = kind == "images"
        model = "gru" if kind == "texts" else "mlp"
        if is_image and shape[0] >= _LENET_HEIGHT:
            model = "lenet5"
        has_few = re.match(_HYBRIDS, self.model or model)
        variational = "hybrid" if has_few else "full"
        is_hybrid = (self.variational or variational) == "hybrid"
        batch_size = min(64, num_examples)
        return {
            "model": model,
            "variational": variational,
            **(
                self.lengths(num_examples, batch_size, 30000, 100)
                if is_image
                else self.lengths(num_examples, batch_size, 8000)
            ),
            "learning_rate": 3e-3 if is_image else 1e-2,
            "ivon_learning_rate": 3e-3 if kind == "regression" else 0.02,
            "prior_scale": "0.3" if is_image else "1.0",
            "dropout": 0.3 if is_image else 0.05,
            "sgd_learning_rate": 1e-5 if kind == "regression" else 0.01,
            "variance_ratios": ("0.5*10",) if is_hybrid else ("0.7*5",),
        }

    def lengths(
        self,
        num_examples: int,
        batch_size: int,
        max_steps: int,
        max_epochs: int | None = None,
    ) -> dict[str, int]:
        """Returns the default batch size, and the default steps of a training.

        Args:
            num_examples: Number of training examples.
            batch_size: The default batch size; made 1 if it is less.
            max_steps: Default steps of a training.
            max_epochs: Most epochs of it, or `None`.
        """
        batch_size = self.batch_size or max(1, batch_size)
        per_epoch = max(1, num_examples // batch_size)
        steps = max_steps
        if max_epochs is not None:
            steps = min(max_steps, max_epochs * per_epoch)
        if self.epochs is not None:
            steps = self.epochs * per_epoch
        return {"batch_size": batch_size, "train_steps": steps}

    def with_defaults(self, defaults: Mapping[str, Any]) -> Self:
        """Returns the configuration, with values for the fields left open."""
        found = {
            name: value
            for name, value in defaults.items()
            if getattr(self, name) is None
        }
        if "train_steps" in found:
            found["epochs"] = None  # the same, in steps
        return dataclasses.replace(self, **found)


def of_classifiers(kind: str) -> dict[str, Any]:
    """Returns defaults that a kind of data is loaded with, by `before_data`.

    Classifiers keep data to scale temperatures on, and are tested on detecting
    inputs made of test inputs.
    """
    if kind == "regression":
        return {"validation_fraction": 0.0, "unseen": ()}
    unseen = ("turned", "shuffled") if kind == "images" else ("shuffled",)
    return {"validation_fraction": 0.1, "unseen": unseen}
