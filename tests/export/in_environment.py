"""Reads our exports where nothing but TensorFlow and tensorflow-text is installed.

    python -m tests.export.in_environment 2.20 2.21

makes a virtual environment for each release, exports every method with the TensorFlow
that runs this, and compares what the other one answers with `model.generate`. Its name
keeps pytest from it: installing takes minutes.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.conftest import ROOT
from tests.export import every_method_test as every
from tests.export.helpers import NAMES, OURS, TEXTS, read, request, run_python, save

ABSENT = """
import importlib.util, sys
print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name)])
"""
TASK = [NAMES[i] for i in (2, 0, 0, 2, 0)]


def environment(folder, release):
    """The Python of a virtual environment with a release of TensorFlow, made once."""
    folder, python = folder / release, folder / release / "bin/python"
    if not (folder / ".installed").exists():
        print(f"installing TensorFlow {release} in {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        wanted = [f"tensorflow=={release}.*", f"tensorflow-text=={release}.*"]
        install = [python, "-m", "pip", "install", "--quiet", *wanted]
        subprocess.run(install, check=True)
        (folder / ".installed").touch()
    ours = [name for name in OURS if name != "keras"]  # TensorFlow brings it
    present = run_python("-c", ABSENT, *ours, python=python, cwd=folder).split()
    assert not present, f"{folder} has {present}, expected none of {ours}"
    return python


def version(python):
    code = "import tensorflow as tf; print(tf.__version__)"
    return run_python("-c", code, python=python).split()[-1]


def compare(models, folders, whole, python):
    """Raises unless the Python's answers are those of this process's models."""
    answers = every.read_all(folders, python=python, blocked=())
    for case, outputs in answers.items():
        every.assert_equals_generate(models[case[0]], case[2], outputs)
    # Every signature, as this TensorFlow answers it.
    given = {"text": list(TEXTS), "task": TASK}
    requests = [
        request(folder, signature, **given)
        for folder in whole
        for signature in ("serving_default", "classify", "encode")
    ]
    for here, there in zip(
        read(requests), read(requests, python=python, blocked=()), strict=True
    ):
        assert here["outputs"].keys() == there["outputs"].keys()
        for name, value in here["outputs"].items():
            got = there["outputs"][name]
            if isinstance(np.ravel(value)[0], np.floating):
                np.testing.assert_allclose(got, value, rtol=1e-3, atol=1e-5)
            else:
                assert got == value


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="+", help="such as 2.20")
    folder = ROOT / ".venv/serving"
    parser.add_argument("--folder", type=Path, default=folder, help="of environments")
    arguments = parser.parse_args()
    pythons = [environment(arguments.folder, name) for name in arguments.releases]
    with tempfile.TemporaryDirectory() as path:
        print(f"exporting {len(every.ALL_CASES)} models", flush=True)
        models = every.make_models()
        folders = every.export_all(models, Path(path), every.ALL_CASES)
        model = models["hyperprompt-share"]
        whole = [
            save(model, Path(path, "whole")),
            save(model, Path(path, "int8"), quantize="int8"),
        ]
        for python in pythons:
            compare(models, folders, whole, python)
            print(f"TensorFlow {version(python)}: all answers are the same", flush=True)


if __name__ == "__main__":
    main()
