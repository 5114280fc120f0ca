"""The program of an experiment: flags from its configuration, how it ends.

The only module of the experiments that uses absl's flags.
"""

import importlib
import inspect
import logging
import os
import re
import shutil
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable
from typing import Any
from typing import NoReturn

from absl import app
from absl import flags

from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import noise

FLAGS = flags.FLAGS
_ABSL_MODULES = ("absl.app", "absl.logging")
_ABSL_HELP = ("help", "helpshort", "helpfull", "helpxml")
# Kinds of flags that `main` adds, with their help.
_HELP = {
    "help": "Show this help.",
    "helpfull": "Show the flags of absl, too.",
    "list": "Show the data sets, models and systems that there are.",
}
_VERBOSITY = "0: more messages; 1: those of TensorFlow and stack traces, too."
_HELP_COLUMN = 30
_SECTION = re.compile(r"^(Args|Attributes|Example|Raises|Returns):$", re.M)


def main(
    experiment: Any,
    listed: Callable[[], str] | None = None,
    *,
    modules: tuple[str, ...] = ("tensorflow", "keras"),
) -> NoReturn:
    """Runs an experiment as the command line says, and exits.

    The exit status is 1 after an error, reported in one line, 2 if flags are
    wrong, and 130 or 143 after Ctrl-C or SIGTERM.

    Args:
        experiment: Package with a docstring, a class `Config` and a function
            `run` of a configuration. To import TensorFlow in it, not before,
            makes `--help` fast.
        listed: Function that returns the text of `--list`.
        modules: Names of modules that are imported before the experiment runs;
            their standard error is not shown.
    """
    program = _Program(experiment, listed, modules)
    app.run(program.run, flags_parser=program.parse)
    raise AssertionError("app.run exits")


def _check_backend():
    """Makes the checks of the root package, which this program bypasses."""
    keras = sys.modules.get("keras")
    if keras and keras.backend.backend() != "tensorflow":
        raise ValueError(
            "tfp_refine needs Keras on TensorFlow: set the environment "
            "variable KERAS_BACKEND=tensorflow. "
            f"Received: backend '{keras.backend.backend()}'"
        )


def help_text(
    name: str,
    config_class: type[config_lib.Config],
    doc: str,
    *,
    width: int = 80,
    extra: tuple[str, ...] = ("help", "helpfull"),
    full: bool = False,
) -> str:
    """Returns the text of `--help` on a terminal.

    `extra` names flags of the program itself; `full` shows those of absl, too.
    """
    parts = [
        part if "\n " in part else textwrap.fill(part, width)
        for part in _SECTION.split(inspect.cleandoc(doc))[0].split("\n\n")
        if part.strip()
    ]
    parts.append(f"  python -m tfp_refine.experiments.{name} --NAME=VALUE ...")
    specs = config_lib.specs(config_class).values()
    for group in config_lib.GROUPS:
        chosen = [spec for spec in specs if spec.group == group]
        chosen.sort(key=lambda spec: "common" not in spec.marks)
        lines = [_field_help(spec, width) for spec in chosen]
        parts += ["\n".join([f"{group.capitalize()}:", *lines])] * bool(lines)
    lines = [_entry(f"--{flag}", _HELP[flag], width) for flag in extra]
    lines.append(_entry("--verbosity=-1", _VERBOSITY, width))
    parts.append("\n".join(["Program:", *lines]))
    if full:
        lines = [
            _entry(f"--{flag.name}={flag.default}", flag.help, width)
            for flag in _absl_flags()
        ]
        parts.append("\n".join(["Program, by absl:", *lines]))
    return "\n\n".join(parts)


class _Program:
    """Parses flags and runs an experiment, as `main` says."""

    def __init__(self, experiment, listed, modules):
        self._name = experiment.__name__.rpartition(".")[2]
        self._class, self._run = experiment.Config, experiment.run
        self._doc, self._listed = experiment.__doc__, listed
        self._extra = ("help", "helpfull", "list")[: 2 + (listed is not None)]
        self._modules, self._signal = modules, None

    def parse(self, argv):
        """Returns the configuration that a command line describes."""
        own, error, stray = self._flag_values(), None, []
        try:
            stray = own(argv)[1:]
        except (flags.Error, ValueError) as wrong:
            error = str(wrong)
        FLAGS.mark_as_parsed()
        self._show_help(own)
        if FLAGS["verbosity"].using_default_value:
            FLAGS.verbosity = -1
        if FLAGS.verbosity < 1:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
            logging.getLogger("tensorflow").setLevel(logging.ERROR)
        if stray and not error:
            error = f"Flags must be --NAME=VALUE. Received: {' '.join(stray)}"
        if error:
            self._fail(error, 2)
        try:
            return self._class(
                **{
                    name: config_lib.parse(self._class, name, own[name].value)
                    for name in config_lib.specs(self._class)
                    if own[name].present
                }
            )
        except ValueError as wrong:
            self._fail(wrong, 2)

    def _flag_values(self):
        """Returns flags of the configuration, of the program and of absl.

        Values of the first are texts, which `config.parse` reads.
        """
        own = flags.FlagValues()
        for flag in _absl_flags():
            own[flag.name] = flag
        specs = config_lib.specs(self._class)
        for name in (*specs, *self._extra):
            own[name] = flags.Flag(
                flags.ArgumentParser(), None, name, None, "",
                boolean=name not in specs or specs[name].type is bool,
                allow_using_method_names=True,
            )  # fmt: skip
        return own

    def _show_help(self, own):
        """Shows the text that a flag asks for, if one does, and exits."""
        asked = [name for name in self._extra if own[name].value == "true"]
        if "list" in asked:
            with noise.dropped(FLAGS.verbosity < 1):
                text = self._listed()
        elif asked:
            text = help_text(
                self._name,
                self._class,
                self._doc,
                width=shutil.get_terminal_size().columns,
                extra=self._extra,
                full="helpfull" in asked,
            )
        else:
            return
        try:
            print(text, flush=True)
        except BrokenPipeError:  # By `head`, say; Python would flush again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)

    def run(self, config):
        """Runs the experiment; explains an early end in one line."""
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._interrupt)
        try:
            with noise.dropped(FLAGS.verbosity < 1):
                for module in self._modules:
                    importlib.import_module(module)
            _check_backend()
            self._run(config)
        except BaseException as error:
            # Libraries answer an interruption by errors of their own, too.
            if isinstance(error, KeyboardInterrupt) or self._signal:
                number = self._signal or signal.SIGINT
                self._fail(
                    "stopped. The same command continues where it was.",
                    128 + number,
                )
            if (
                not isinstance(error, ValueError | OSError | FloatingPointError)
                or FLAGS.pdb_post_mortem
                or FLAGS.run_with_pdb
            ):
                raise
            if FLAGS.verbosity >= 1:
                traceback.print_exc()
            self._fail(error, 1)

    def _interrupt(self, number, frame):
        """Interrupts the experiment; a second signal kills the process."""
        self._signal = number
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    def _fail(self, error, status):
        erase = "\r\x1b[K" if sys.stderr.isatty() else ""  # A progress bar.
        text = " ".join(str(error).split())
        sys.stderr.write(f"{erase}{self._name}: {text}\n")
        sys.exit(status)


def _absl_flags():
    found = FLAGS.flags_by_module_dict()
    return [
        flag
        for module in _ABSL_MODULES
        for flag in found[module]
        if flag.name not in _ABSL_HELP
    ]


def _field_help(spec, width):
    text = config_lib.to_text(spec.default)
    if spec.type is bool:
        help_ = f"{spec.help} Default: {text}."
        return _entry(f"--[no]{spec.name}", help_, width)
    if len(f"  --{spec.name}={text}") <= width:
        return _entry(f"--{spec.name}={text}", spec.help, width)
    text = text.replace(",", ", ")
    return _entry(f"--{spec.name}=...", f"{spec.help} Default: {text}.", width)


def _entry(flag, text, width):
    """Returns lines with a flag on the left and its help on the right."""
    column = _HELP_COLUMN if width >= 2 * _HELP_COLUMN else 6
    lines = textwrap.wrap(text, max(width - column, 20), break_on_hyphens=False)
    first = f"  {flag}"
    if len(first) + 2 <= column:
        first = first.ljust(column) + lines.pop(0)
    return "\n".join([first, *(" " * column + line for line in lines)])
