"""Runs the refinement of a posterior with four modes."""


def run(config):
    """Runs missing parts, and reports.

    Args:
        config: `Config`.

    Returns:
        results: `folder.Results`.

    Raises:
        ValueError: If a field is invalid.
    """
    from scipy import stats

    from tfp_refine.experiments.four_modes import tables
    from tfp_refine.experiments.four_modes import target
    from tfp_refine.experiments.harness import folder as folder_lib
    from tfp_refine.experiments.systems import variational

    ratios = variational.variance_ratios(config)
    with folder_lib.Folder(
        config.output_dir, "four_modes", config, config.decisive()
    ) as folder:
        members = folder.once(
            "refined", lambda: _refine(config, ratios, folder.path)
        )
        densities = {
            "posterior": target.posterior(),
            "mean-field VI": stats.norm.pdf(
                target.GRID, target.BEST_LOC, target.BEST_SCALE
            ),
            f"refined, {config.num_members} members": target.mixture(
                members["loc"], members["scale"]
            ),
        }
        _, mean_field, refined = densities.values()
        bounds = {
            "elbo_init": target.bound(mean_field),
            "elbo_aux": members["elbo_aux"],
            "elbo_aux_standard_error": members["elbo_aux_standard_error"],
            "elbo_ref": target.bound(refined),
            "log_evidence": target.log_evidence(),
        }
        rows = [
            ("four_modes", "refined", 0, name, value)
            for name, value in bounds.items()
        ]
        results = folder.write_results(rows)
        tables.show(results, config, densities)
    return results


def _refine(config, ratios, path):
    """Returns the Gaussians of the members and the bound of their mean."""
    import numpy as np

    from tfp_refine import refinement
    from tfp_refine.experiments.four_modes import target

    ensemble = refinement.refine(
        target.mean_field_model(),
        *target.data(),
        num_members=config.num_members,
        variance_ratios=ratios,
        steps=config.refine_steps,
        learning_rate=config.refine_learning_rate,
        learning_rate_decay="linear",
        num_eval_samples=config.num_eval_samples,
        checkpoint_dir=path / "fit",
        seed=config.seed,
        verbose=config.verbose,
    )
    elbo = np.asarray(ensemble.elbo_final, np.float64)
    return {
        "loc": np.ravel(ensemble.loc),
        "scale": np.ravel(ensemble.scale),
        "elbo_aux": elbo.mean(),
        "elbo_aux_standard_error": elbo.std(ddof=1) / np.sqrt(len(elbo)),
    }
