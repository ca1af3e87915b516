"""The programs as modules: imported together, called with keywords, quiet at start."""

import inspect
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tfds_tasks.quiet_start import kept_back

PROGRAMS = (
    "train",
    "evaluate",
    "predict",
    "report",
    "export",
    "serve",
    "client",
    "bench",
    "compile",
    "quickstart",
    "analyze",
    "reproduce",
    "compare",
)


def python(*arguments):
    """A process that a newcomer would start, without settings of the tests."""
    others = ("XLA_FLAGS", "TF_CPP_MIN_LOG_LEVEL")
    inherited = {k: v for k, v in os.environ.items() if k not in others}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=inherited,
        capture_output=True,
        text=True,
    )


def test_all_are_imported_in_one_process_without_defining_a_flag():
    code = f"""
import importlib
import experiments
import tensorflow_datasets  # which has flags of its own
from absl import flags
before = set(flags.FLAGS)
for name in {PROGRAMS}:
    program = importlib.import_module(f"experiments.{{name}}")
    assert callable(getattr(program, name)), name
print(sorted(set(flags.FLAGS) - before))
"""
    result = python("-c", code)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "[]\n"
    assert result.stderr == ""  # nor did TensorFlow say anything


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_is_one_typed_function_with_an_example(name):
    module = __import__(f"experiments.{name}", fromlist=[name])
    function = getattr(module, name)
    assert "```python" in function.__doc__
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter
        assert f"{parameter.name}:" in function.__doc__, parameter


@pytest.mark.parametrize(
    ("name", "flags"),
    [("train", ("--model_dir", "--learning_rate")), ("quickstart", ("--output",))],
)
def test_help_is_all_that_is_printed(name, flags):
    result = python("-m", f"experiments.{name}", "--help")
    assert result.stderr == ""
    assert all(flag in result.stdout for flag in flags)


def test_what_is_written_to_stderr_is_kept_back_unless_it_explains_an_error(capfd):
    with kept_back():
        os.write(2, b"Could not find cuda drivers\n")
    assert capfd.readouterr().err == ""
    with pytest.raises(ImportError), kept_back():
        os.write(2, b"libtensorflow is damaged\n")
        raise ImportError
    assert capfd.readouterr().err == "libtensorflow is damaged\n"
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "later\n"
