"""Modules of users, imported for the tasks, metrics and methods that they add."""

import importlib

HELP = (
    "Modules to import first, joined by commas: tasks, metrics and methods of your own."
)


def import_modules(names: str | None, asked_by: str = "--module_import") -> None:
    """Imports modules, joined by commas; an error says who asked for which.

    >>> import_modules("tfds_tasks.no_such_module")
    Traceback (most recent call last):
    ValueError: --module_import='tfds_tasks.no_such_module' cannot be imported (No \
module named 'tfds_tasks.no_such_module'); expected a module that is installed, or \
whose folder is in PYTHONPATH
    """
    for name in (names or "").split(","):
        if not name.strip():
            continue
        try:
            importlib.import_module(name.strip())
        except ImportError as error:
            raise ValueError(
                f"{asked_by}={name.strip()!r} cannot be imported ({error}); expected a "
                "module that is installed, or whose folder is in PYTHONPATH"
            ) from None
