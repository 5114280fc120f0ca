"""The levels of the rooms: imports point down.

`callbacks` to `sampling` are the methods; they meet in `posteriors` and
`functional`, never in each other, but for `recipes`, which combine them.
"""

from tests.structure import build_file

# A room imports rooms of the levels below it, and those that `SIDEWAYS` adds.
LEVELS = (
    {"version"},
    {"_requirements", "_storage", "_validation", "math"},
    {
        "bijectors",
        "datasets",
        "distribute",
        "losses",
        "metrics",
        "plotting",
        "regularizers",
    },
    {"layers"},
    {"functional"},
    {"optimizers"},
    {"posteriors"},
    {
        "callbacks",
        "ensembles",
        "initializers",
        "laplace",
        "models",
        "refinement",
        "sampling",
    },
    {"recipes"},
    {"experiments", build_file.PACKAGE},
    {"__main__"},
)
# A model that becomes Bayesian is initialized.
SIDEWAYS = {"models": {"initializers"}}
MAY_IMPORT = {
    room: set().union(*LEVELS[:level]) | SIDEWAYS.get(room, set())
    for level, rooms in enumerate(LEVELS)
    for room in rooms
}
