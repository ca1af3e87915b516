"""Loops of functions that DTensor expands: each gets names that no later one has.

DTensor makes functions of a loop, "while_body" and "while_cond". It keeps names by a
loop's address in memory, for as long as the process lives. So a loop whose memory was
another's before gets that one's names, and TensorFlow refuses a second function of a
name: after some expansions in one process, any loop may be the one that fails.
"""

import contextlib
import itertools
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.python.eager import context  # TensorFlow's table of functions

_ENDS = ("_body", "_cond")  # as DTensor names them; Python's own end in a number
_numbers = itertools.count()


@contextlib.contextmanager
def named_apart() -> Iterator[None]:
    """Renames the functions of loops that are expanded in the block."""
    functions = context.context()
    before = functions.list_function_names()
    try:
        yield
    finally:
        _rename(functions, functions.list_function_names() - before)


def _rename(functions, names):
    """Renames what loops run, here and where functions of these names call it."""
    loops = [name for name in names if name.endswith(_ENDS)]
    if not loops:
        return
    renamed = {name: f"{name}_expanded_{next(_numbers)}" for name in loops}
    for name in names:
        definition = functions.get_function_def(name)
        attributes = (a for node in definition.node_def for a in node.attr.values())
        calls = [a.func for a in attributes if a.func.name in renamed]
        if calls or name in renamed:
            _remove(functions, name, definition)
            for call in calls:
                call.name = renamed[call.name]
            definition.signature.name = renamed.get(name, name)
            functions.add_function_def(definition)


def _remove(functions, name, definition):
    """Removes a function that DTensor added, once it passes for one of Python's.

    That it was there, without an attribute that Python's have, is an error only then.
    """
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        functions.add_function_def(definition)
    functions.remove_function(name)
