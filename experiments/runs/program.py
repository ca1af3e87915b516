"""From a command line to a function: flags that exist only in a program that runs."""

import functools
from collections.abc import Callable

from absl import app, flags, logging

from tfds_tasks import modules

EXPECTED = (ValueError, OSError, RuntimeError)  # what is wrong is said in the message


def run(
    name: str,
    define: Callable[[flags.FlagValues], None],
    call: Callable[[flags.FlagValues], object],
) -> None:
    """Defines the flags, reads the command line and makes the call.

    Args:
        name: of the program, such as "experiments.train".
        define: adds the program's flags to those it is given.
        call: does the work, from the flags as read.
    """
    define(flags.FLAGS)
    if "module_import" not in flags.FLAGS:
        flags.DEFINE_string("module_import", None, modules.HELP)
    app.run(functools.partial(main, name, call))


def main(
    name: str, call: Callable[[flags.FlagValues], object], argv: list[str]
) -> None:
    """Makes the call; an error that is expected becomes one line and exit status 1."""
    if argv[1:]:
        raise app.UsageError(f"unexpected argument {argv[1]!r}; see --help")
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)  # TFDS tells of every file
    try:
        modules.import_modules(flags.FLAGS["module_import"].value)
        call(flags.FLAGS)
    except EXPECTED as error:
        logging.debug("%s", error, exc_info=True)
        raise SystemExit(f"{name}: {error}") from None


def given(values: flags.FlagValues, *names: str) -> dict:
    """Returns the values of these flags as keyword arguments."""
    return {name: values[name].value for name in names}
