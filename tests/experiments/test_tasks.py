"""Experiments of several tasks."""

import pathlib

from tfp_refine.experiments import initialization
from tfp_refine.experiments import tasks


def test_a_task_has_a_folder_and_no_fields_of_others():
    config = initialization.Config(
        output_dir="here", toy_steps=7, train_steps=9, hidden=(3,)
    )
    changed = tasks.configure(config, "curves", ("toy_steps",), hidden=(4,))
    assert pathlib.Path(changed.output_dir) == pathlib.Path("here/curves")
    assert changed.toy_steps == initialization.Config().toy_steps
    assert (changed.train_steps, changed.hidden) == (9, (4,))
    names = initialization.Config.__dataclass_fields__
    assert set(tasks.OF_FUNCTIONS) <= set(names)
