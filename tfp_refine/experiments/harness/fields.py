"""Fields that the configurations of experiments share: one name, one thing."""

import dataclasses
import importlib.util
from collections.abc import Iterable

from tfp_refine.experiments.harness import config

field = config.field

KINDS = ("regression", "table", "images", "texts")
MODELS = (
    "mlp, lenet5, lenet5_caffe, lenet5_wide, resnet20 or resnetN with N = 6 n "
    "+ 2, gru, or the file of a trained model, FILE.keras"
)
ESTIMATORS = ("flipout", "local_reparameterization", "reparameterization")
SCHEDULES = ("constant", "cosine", "linear", "step")

# Height from which images are for convolutions of 5x5 and two poolings.
_LENET_HEIGHT = 16

_positive = config.positive
_count = config.at_least(1)


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output(config.Config):
    """Fields of every experiment."""

    output_dir: str | None = field(
        None,
        "Folder for results.json, results.csv, figures and all that a restart "
        "needs. Defaults to results/EXPERIMENT or results/EXPERIMENT/DATASET.",
        group="output",
        common=True,
        decides=False,
    )
    progress: bool = field(
        True,
        "Show progress bars; without them, a line at each tenth.",
        group="output",
        decides=False,
    )
    seed: int = field(
        0,
        "Fixes splits, initial weights, batches and draws.",
        group="training",
        check=config.at_least(0),
    )

    @property
    def verbose(self) -> int:
        """The argument of functions of the library: a bar, or lines."""
        return 1 if self.progress else 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench(Output):
    """Fields of experiments that fit systems to a data set.

    Fields that are `None` get a value that depends on the data: see `usual`.
    """

    # Data.

    dataset: str = field(
        "yacht",
        "Data set. yacht, energy and concrete come with the package; digits, "
        "breast_cancer, iris and wine with scikit-learn. Other images (mnist, "
        "cifar10) and texts (trec) are read through tensorflow_datasets, other "
        "tables from folders of --data_dir.",
        group="data",
        common=True,
    )
    kind: str | None = field(
        None,
        "What --dataset is: regression, a table with classes, images or "
        "texts. Known for the sets named above; a folder of --data_dir is "
        "taken for a regression, anything else for images.",
        group="data",
        check=config.one_of(*KINDS),
    )
    data_dir: str | None = field(
        None,
        "Folder of data sets that do not come with the package: for tables, "
        "NAME/data/{data,index_features,index_target}.txt; for images and "
        "texts, the folder of tensorflow_datasets.",
        group="data",
        common=True,
        decides=False,
    )
    download: bool = field(
        False,
        "Download data sets that are missing.",
        group="data",
        decides=False,
    )
    split_kind: str = field(
        "random",
        "Splits of a regression set. random: 80% training, 20% test; given: "
        "the index files of --data_dir.",
        group="data",
        check=config.one_of("random", "given"),
    )
    validation_fraction: float | None = field(
        None,
        "Part of the training set that is kept for validation. Defaults to "
        "0.1 where a system or option needs one, else to 0.",
        group="data",
        check=config.proportion(zero=True),
    )
    scaling: str = field(
        "standardized",
        "Inputs as the model sees them: standardized, pixels from 0 to 1 "
        "(unit), or as they are (none).",
        group="data",
        check=config.one_of("standardized", "unit", "none"),
    )
    classes: tuple[int, ...] = field(
        (),
        "Classes of images to train on; the others become the unseen set "
        "'other_classes'. Defaults to all.",
        group="data",
        check=config.each(config.at_least(0)),
    )
    vocabulary: int = field(
        10000, "Words of texts to know.", group="data", check=config.at_least(2)
    )
    sequence_length: int = field(
        100, "Words of a text to read.", group="data", check=_count
    )

    # Model.

    model: str | None = field(
        None,
        f"{MODELS}. Defaults to mlp for tables, gru for texts, and for images "
        "to lenet5, or mlp if they have fewer than 16 rows.",
        group="model",
        common=True,
    )
    hidden: tuple[int, ...] = field(
        (50,),
        "Units of the hidden layers of mlp; of gru, its units.",
        group="model",
        common=True,
        check=config.not_empty(config.each(_count)),
    )
    embedding: int = field(
        64, "Size of the word vectors of gru.", group="model", check=_count
    )
    activation: str = field(
        "relu",
        "Of the hidden layers of mlp and lenet5.",
        group="model",
        check=config.one_of("relu", "tanh"),
    )
    likelihood: str = field(
        "homoscedastic",
        "Of regression: Gaussian noise of one learned scale, or of a scale "
        "that is the network's second output (heteroscedastic).",
        group="model",
        check=config.one_of("homoscedastic", "heteroscedastic"),
    )
    noise_scale: float = field(
        1.0,
        "Initial standard deviation of homoscedastic noise, of standardized "
        "targets.",
        group="model",
        check=_positive,
    )
    learn_noise: bool = field(
        True,
        "Learn the scale of homoscedastic noise.",
        group="model",
    )
    variational: str | None = field(
        None,
        "Weights of variational systems with a posterior: all (full), or half "
        "of the convolutions of a ResNet (hybrid). Defaults to hybrid for "
        "ResNets.",
        group="model",
        check=config.one_of("hybrid", "full"),
    )
    batch_norm: bool = field(
        False, "Batch normalization in a ResNet.", group="model"
    )
    conv_estimator: str = field(
        "flipout",
        "How variational convolutions draw their outputs.",
        group="method",
        check=config.one_of(*ESTIMATORS),
    )
    dense_estimator: str = field(
        "local_reparameterization",
        "How variational dense layers draw their outputs.",
        group="method",
        check=config.one_of(*ESTIMATORS),
    )

    # Training.

    seeds: int = field(
        2,
        "Number of repetitions, each with its own initial weights, batches, "
        "noise and, for tables, train-test split. More can be added later.",
        group="training",
        common=True,
        check=_count,
        decides=False,
    )
    train_steps: int | None = field(
        None,
        "Steps in which each network, or member of an ensemble, is trained.",
        group="training",
        common=True,
        check=_count,
    )
    epochs: int | None = field(
        None, "The same in epochs.", group="training", check=_count
    )
    batch_size: int | None = field(
        None, "Examples in a step.", group="training", check=_count
    )
    learning_rate: float | None = field(
        None, "Adam's.", group="training", common=True, check=_positive
    )
    learning_rate_schedule: str = field(
        "cosine",
        "cosine and linear fall to 0 at the end of the training; step: times "
        "0.1, 0.01, 1e-3 and 5e-4 after 81, 121, 161 and 181 epochs.",
        group="training",
        check=config.one_of(*SCHEDULES),
    )
    augment: str = field(
        "none",
        "Shift training images at random by up to an eighth (crop), and "
        "mirror them (crop_and_flip).",
        group="training",
        check=config.one_of("none", "crop", "crop_and_flip"),
    )
    early_stopping_patience: int | None = field(
        None,
        "Segments without a lower validation loss after which a training "
        "stops. Defaults to never.",
        group="training",
        check=_count,
    )
    segments: int = field(
        10,
        "Segments of a training: after each it is saved, and a point is added "
        "to its learning curve.",
        group="training",
        check=_count,
    )

    test_curve: bool = field(
        False,
        "Evaluate on test data after each segment of a training.",
        group="training",
    )

    # Method.

    systems: tuple[str, ...] = field(
        ("vi", "refined"),
        "Systems to fit, see --list; they combine, as in refined(cm(iblm)) or "
        "refined(vi, num_members=5).",
        group="method",
        common=True,
        check=config.not_empty(),
        decides=False,
    )
    prior_scale: str | None = field(
        None,
        "Standard deviation of the prior of each weight (initial if it is "
        "learned; given the prior's mean if that is inferred): a number, "
        "fan_in (variance 1 / fan_in) or he (2 / fan_in).",
        group="method",
    )
    initial_scale: float = field(
        1e-2,
        "Standard deviation that posteriors start from, and that of fv.",
        group="method",
        check=_positive,
    )
    kl_scale: float = field(
        1.0,
        "Factor on the KL divergence of variational systems; 1 is a true "
        "bound.",
        group="method",
        check=config.not_negative,
    )
    posterior_rank: int | None = field(
        None,
        "Of k_tied and low_rank. Defaults to 2 and 5, or less in small layers.",
        group="method",
        check=_count,
    )
    learn_prior_mean: bool = field(
        False,
        "Of eb: learn the prior's mean too, one for each tensor.",
        group="method",
    )
    alpha_reg: float = field(
        0.05,
        "Of cm, and delta of cmv: the part of the pull of the means to zero "
        "that is left.",
        group="method",
        check=config.proportion(one=True),
    )
    cm_prior_scale: str = field(
        "fan_in",
        "Of cm: standard deviation of the prior given its mean, written as "
        "--prior_scale.",
        group="method",
    )
    learn_alpha_reg: str = field(
        "no",
        "Of cm: how alpha_reg is learned, one for the model.",
        group="method",
        check=config.one_of("no", "gradient", "closed_form"),
    )
    precision_shape: float = field(
        0.5,
        "Of cv and cmv: shape of the Gamma prior of precisions.",
        group="method",
        check=_positive,
    )
    precision_rate: float = field(
        0.01, "Of cv and cmv: its rate.", group="method", check=_positive
    )
    mnf_flow_length: int = field(
        2,
        "Of mnf: steps of the flow of the multipliers.",
        group="method",
        check=config.at_least(0),
    )
    mnf_flow_units: int = field(
        50, "Of mnf: hidden units of each step.", group="method", check=_count
    )
    mnf_auxiliary_length: int = field(
        2,
        "Of mnf and ffg: steps of the flow that bounds the KL.",
        group="method",
        check=config.at_least(0),
    )
    mnf_auxiliary_units: int = field(
        100,
        "Of mnf and ffg: hidden units of each of these.",
        group="method",
        check=_count,
    )
    log_var_init: float = field(
        -9.0, "Of mnf and ffg: initial log variance of weights.", group="method"
    )
    max_std: float | None = field(
        None,
        "Of mnf and ffg: largest standard deviation of weights in the "
        "outputs. The paper: 0.5 for MNIST, 0.4 for CIFAR-10. Defaults to no "
        "limit.",
        group="method",
        check=_positive,
    )
    inference_estimator: str = field(
        "local_reparameterization",
        "Of mnf and ffg: how outputs are drawn outside of training: each by "
        "itself, or with one draw of the weights for a batch.",
        group="method",
        check=config.one_of("local_reparameterization", "reparameterization"),
    )
    dropout: float | None = field(
        None,
        "Rate of mc_dropout, initial rate of concrete_dropout. Defaults to "
        "0.05, for images to 0.3.",
        group="method",
        check=config.proportion(),
    )
    num_members: int = field(
        10,
        "Members of refined posteriors and deep ensembles.",
        group="method",
        common=True,
        check=_count,
    )
    variance_ratios: tuple[str, ...] = field(
        (),
        "Of refined: for each auxiliary variable, the part of the remaining "
        "prior variance that it takes; 0.5*10 is ten times 0.5. Defaults to "
        "0.7*5, for a hybrid ResNet to 0.5*10.",
        group="method",
        check=ratios,
    )
    refine_steps: int = field(
        200,
        "Of refined: steps for each auxiliary variable and member.",
        group="method",
        common=True,
        check=_count,
    )
    refine_learning_rate: float = field(
        1e-2,
        "Of refined: Adam's before the first auxiliary variable. The paper: "
        "1e-3, constant.",
        group="method",
        check=_positive,
    )
    refine_learning_rate_decay: str = field(
        "linear",
        "Of refined: decay of that rate within each auxiliary variable.",
        group="method",
        check=config.one_of("constant", "linear", "cosine"),
    )
    refine_deterministic: bool = field(
        False,
        "Of refined: refine weights without a posterior along with the others.",
        group="method",
    )
    num_eval_samples: int = field(
        10, "Draws in each estimate of a bound.", group="method", check=_count
    )
    mapping: str = field(
        "auto",
        "Of refined: how members are computed together: each on a core (map), "
        "each operation for all (vmap), or whichever is faster here.",
        group="method",
        check=config.one_of("auto", "map", "vmap"),
        decides=False,
    )
    members_per_batch: int | None = field(
        None,
        "Of refined: members computed at a time, which bounds memory. Defaults "
        "to all.",
        group="method",
        check=_count,
        decides=False,
    )
    distributed: bool = field(
        False,
        "Refine on the workers of the cluster whose chief this is, by the "
        "environment variable TF_CONFIG; see tfp_refine.distribute.",
        group="method",
        decides=False,
    )
    adversarial_epsilon: float = field(
        0.01,
        "Of adversarial_ensemble: how far inputs move, in parts of the range "
        "of each.",
        group="method",
        check=_positive,
    )
    sgd_learning_rate: float | None = field(
        None,
        "Of swag, and of csghmc at the start of a cycle. Defaults to 0.01, for "
        "regression to 1e-5.",
        group="method",
        check=_positive,
    )
    swag_snapshots: int = field(
        40,
        "Of swag: snapshots to average.",
        group="method",
        check=config.at_least(2),
    )
    swag_rank: int = field(
        20,
        "Of swag: rank of the covariance.",
        group="method",
        check=config.at_least(2),
    )
    cycles: int = field(
        4,
        "Of csghmc: cycles that --train_steps make.",
        group="method",
        check=_count,
    )
    samples_per_cycle: int = field(
        3, "Of csghmc.", group="method", check=_count
    )
    temperature: float | None = field(
        None,
        "Of csghmc: 1 is the Bayesian posterior. Defaults to 1 / N.",
        group="method",
        check=config.not_negative,
    )
    hessian: str = field(
        "full",
        "Of laplace.",
        group="method",
        check=config.one_of("full", "kron", "diag"),
    )
    prior_precision: str = field(
        "marginal_likelihood",
        "Of laplace: 1 / variance of the prior, or how it is chosen: "
        "marginal_likelihood, or grid_search on validation data.",
        group="method",
    )
    predictive: str = field(
        "mc",
        "Of laplace: how probabilities are averaged: over draws of weights "
        "(mc) or of the linearized network's outputs (linearized), or in "
        "closed form (probit, mean_field).",
        group="method",
        check=config.one_of("mc", "linearized", "probit", "mean_field"),
    )
    flow_kind: str = field(
        "radial",
        "Of flows.",
        group="method",
        check=config.one_of("radial", "planar"),
    )
    flow_length: int = field(
        5, "Of flows: number of flows.", group="method", check=_count
    )
    flow_space: str = field(
        "whitened",
        "Of flows: whether they act on standard normal draws, or on weights "
        "(paper).",
        group="method",
        check=config.one_of("whitened", "paper"),
    )
    flow_base: str = field(
        "laplace",
        "Of flows: distribution that they start from.",
        group="method",
        check=config.one_of("laplace", "standard_normal"),
    )
    flow_batch_size: int = field(
        128, "Of flows: examples in a step.", group="method", check=_count
    )
    flow_epochs: int | None = field(
        None,
        "Of flows. Defaults to 20, or more for 2000 steps.",
        group="method",
        check=_count,
    )
    flow_learning_rate: float | None = field(
        None,
        "Of flows: Adam's; falls to 0 as a cosine. Defaults to 0.1, in paper "
        "space to 1e-3.",
        group="method",
        check=_positive,
    )
    flow_samples: int | None = field(
        None,
        "Of flows: draws in a step. Defaults to 16, in paper space to 1.",
        group="method",
        check=_count,
    )
    nuts_chains: int = field(4, "Chains of nuts.", group="method", check=_count)
    nuts_warmup: int = field(
        200,
        "Of nuts: transitions that are dropped.",
        group="method",
        check=_count,
    )
    nuts_samples: int = field(
        200,
        "Of nuts: transitions that are kept.",
        group="method",
        check=config.at_least(4),
    )
    nuts_max_tree_depth: int = field(
        8,
        "Of nuts: a trajectory doubles at most so often.",
        group="method",
        check=_count,
    )
    max_sampled_weights: int = field(
        2000,
        "Most weights of a network that nuts(laplace_all) samples.",
        group="method",
        check=_count,
        decides=False,
    )
    max_laplace_weights: int = field(
        20000,
        "Most weights of a network for laplace_all, which needs gradients of "
        "each example and output.",
        group="method",
        check=_count,
        decides=False,
    )

    # Evaluation.

    num_samples: int = field(
        100,
        "Draws of each predictive distribution, spread over the members.",
        group="evaluation",
        common=True,
        check=_count,
    )
    unseen: tuple[str, ...] = field(
        (),
        "Inputs that should be told from test inputs: other data sets, "
        "shuffled (each pixel, column or word is another example's), turned "
        "(images by 90 degrees).",
        group="evaluation",
        common=True,
    )
    rotations: tuple[float, ...] = field(
        (),
        "Degrees by which test images are turned.",
        group="evaluation",
    )
    flipped_pixels: tuple[float, ...] = field(
        (),
        "Fractions of the pixels of test images to invert.",
        group="evaluation",
        check=config.each(config.proportion(zero=True, one=True)),
    )
    corruptions: tuple[str, ...] = field(
        (),
        "Corruptions of test images, such as gaussian_noise or fog; see "
        "datasets.CORRUPTIONS.",
        group="evaluation",
    )
    shift_examples: int = field(
        2000,
        "Test images that are turned, flipped or corrupted.",
        group="evaluation",
        check=_count,
    )
    tensorboard: bool = field(
        False, "Log scalars for TensorBoard.", group="output", decides=False
    )

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

    def before_data(self, kind):
        """Returns default values that the data are loaded with.

        Args:
            kind: One of `KINDS`.

        Returns:
            defaults: Dict from the names of fields that may be `None`.
        """
        del kind
        return {"validation_fraction": 0.0}

    def after_data(self, kind, shape, num_examples):
        """Returns default values that depend on the data.

        Args:
            kind: One of `KINDS`.
            shape: Shape of an example.
            num_examples: Number of training examples.

        Returns:
            defaults: Dict from the names of fields that may be `None` or empty.
        """
        is_image = kind == "images"
        if is_image:
            is_large = shape[0] >= _LENET_HEIGHT
            model = "lenet5" if is_large else "mlp"
        else:
            model = "gru" if kind == "texts" else "mlp"
        is_resnet = (self.model or model).startswith("resnet")
        variational = "hybrid" if is_resnet else "full"
        is_hybrid = (self.variational or variational) == "hybrid"
        batch_size = min(self.batch_size or 64, num_examples)
        per_epoch = max(1, num_examples // batch_size)
        steps = min(30000, 100 * per_epoch) if is_image else 8000
        if self.epochs is not None:
            steps = self.epochs * per_epoch
        return {
            "model": model,
            "variational": variational,
            "batch_size": batch_size,
            "train_steps": steps,
            "learning_rate": 3e-3 if is_image else 1e-2,
            "prior_scale": "0.3" if is_image else "1.0",
            "dropout": 0.3 if is_image else 0.05,
            "sgd_learning_rate": 1e-5 if kind == "regression" else 0.01,
            "variance_ratios": ("0.5*10",) if is_hybrid else ("0.7*5",),
        }

    def with_defaults(self, defaults):
        """Returns the configuration, values given for what it leaves open."""
        found = {
            name: value
            for name, value in defaults.items()
            if getattr(self, name) in (None, ())
        }
        if "train_steps" in found:
            found["epochs"] = None  # the same, in steps
        return dataclasses.replace(self, **found)
