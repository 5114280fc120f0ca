"""The names that `--list` prints."""

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import fields


def listed():
    """Returns data sets, models and systems as text of several lines."""
    from tfp_refine import datasets
    from tfp_refine.experiments.systems import registry

    model = config.specs(fields.Bench)["model"].help
    lines = [
        "Data sets that come with the package: yacht, energy, concrete; with "
        f"scikit-learn: {', '.join(datasets.CLASS_TABLES)}.",
        "UCI sets in --data_dir: "
        f"{', '.join(datasets.UCI_NAMES)}, or your own.",
        "Images and texts: those of tensorflow_datasets, such as mnist, "
        "fashion_mnist, cifar10, trec, ag_news_subset.",
        "",
        f"Models: {model.partition('. ')[0]}.",
        "",
        "Systems; they combine, as in refined(cm(iblm)):",
    ]
    width = max(map(len, registry.SYSTEMS)) + 2
    for name, system in registry.SYSTEMS.items():
        start = f" from {system.argument}" if system.argument else ""
        title = registry.title(registry.parse(name, fields.Bench))
        lines.append(f"  {name:{width}}{title}{start}; {system.paper}")
    return "\n".join(lines)
