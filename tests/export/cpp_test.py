"""The path that TF Serving takes: TensorFlow's C++ loader, no Python and no XLA.

`serve.cc` is compiled against the wheel's own headers and libraries.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import hypertf
from tests.export.helpers import (
    NAMES,
    OP_LIBRARY,
    TEXTS,
    save,
    small_model,
    tokens,
    unverified,
)

pytestmark = pytest.mark.slow

TASK = [NAMES[i] for i in (2, 0, 1, 2, 0)]
ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
FORMS = {
    "plain": {},
    "int8": {"quantize": "int8"},
    "beam": {"beam_size": 2, "bake": False},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    model = small_model("lora", {"rank": 2}, d_ff=256)  # large kernels
    path = tmp_path_factory.mktemp("exports")
    text, ids = {"signatures": ("serving_default",)}, {"signatures": ("tokens",)}
    forms = {**{name: text | form for name, form in FORMS.items()}, "tokens": ids}
    forms["xla"] = text | {"xla": True}
    with unverified():
        return {name: save(model, path / name, **form) for name, form in forms.items()}


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """Runs the program on an export; returns each request's lines."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is absent: serve.cc cannot be compiled")
    program = tmp_path_factory.mktemp("program") / "serve"
    libraries = tf.sysconfig.get_lib()
    # Reading the symbols of TensorFlow's library takes GNU's older linker 10 seconds.
    linker = ["-fuse-ld=gold"] if shutil.which("ld.gold") else []
    command = [
        *("g++", "-std=c++17", "-O0", "-w", *linker, f"-I{tf.sysconfig.get_include()}"),
        *(str(Path(__file__).with_name("serve.cc")), "-o", str(program)),
        *(f"-L{libraries}", f"-Wl,-rpath,{libraries}"),
        *("-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]

    def run(folder, *requests):
        joined = ["|".join(part) for request in requests for part in request]
        done = subprocess.run(
            [program, folder, OP_LIBRARY, *joined],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        parts = done.stdout.split("end\n")
        assert parts.pop() == ""
        return [part.splitlines() for part in parts]

    return run


def rows(lines):
    """(texts, scores) of lines such as "6e6f -1.5"."""
    pairs = [line.split(" ") for line in lines]
    return [bytes.fromhex(text) for text, _ in pairs], [float(s) for _, s in pairs]


@pytest.mark.parametrize("form", FORMS)
def test_answers_are_those_of_python(folders, serve, form):
    requests = [(TEXTS, TASK), (["yes"], [NAMES[1]]), ([""], [NAMES[0]])]
    answers = serve(folders[form], *requests)
    loaded = hypertf.export.load(folders[form])
    for (texts, tasks), lines in zip(requests, answers, strict=True):
        expected = loaded.run("serving_default", text=texts, task=tasks)
        written, scores = rows(lines)
        assert written == expected["output_text"].tolist()
        np.testing.assert_allclose(scores, expected["score"], rtol=1e-4)


def test_an_error_does_not_end_it(folders, serve):
    before, unknown, uneven, after = serve(
        folders["plain"],
        (["yes"], [NAMES[1]]),
        (["yes", "yes"], [NAMES[1], "nope"]),
        (["yes", "yes"], [NAMES[1]]),
        (["yes"], [NAMES[1]]),
    )
    assert re.match("error: .*unknown task nope; expected one of a/two, b/", unknown[0])
    assert re.match("error: .*1 tasks for 2 texts; expected one for each", uneven[0])
    assert before == after and len(before) == 1


def test_xla_is_off(folders, serve):
    """Else the others would not show that they do without it."""
    ((error, *_),) = serve(folders["xla"], (["yes"], [NAMES[1]]))
    assert re.match("error: .*XLA", error)


CLI = "from tensorflow.python.tools import saved_model_cli as cli; cli.main()"


def run_cli(program, folder, signature, outdir, **inputs):
    """Outputs of TensorFlow's own program, which takes Python expressions."""
    given = ";".join(f"{name}={value!r}" for name, value in inputs.items())
    command = [*program, "run", "--dir", folder, "--tag_set", "serve"]
    command += ["--signature_def", signature, "--input_exprs", given]
    command += ["--outdir", outdir]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return {path.stem: np.load(path, allow_pickle=True) for path in outdir.iterdir()}


def test_saved_model_cli(folders, tmp_path):
    """It has no option for libraries of ops: text needs them imported first."""
    folder = folders["plain"]
    loaded = hypertf.export.load(folder)
    with_text = [sys.executable, "-c", f"import tensorflow_text; {CLI}"]
    given = {"text": list(TEXTS), "task": TASK}
    outputs = run_cli(with_text, folder, "serving_default", tmp_path / "a", **given)
    expected = loaded.run("serving_default", **given)
    assert outputs["output_text"].tolist() == expected["output_text"].tolist()
    np.testing.assert_allclose(outputs["score"], expected["score"], rtol=1e-4)


def test_saved_model_cli_on_tokens(folders, tmp_path):
    """The console script as it is."""
    program = [Path(sys.executable).with_name("saved_model_cli")]
    given = {"tokens": tokens(TEXTS).tolist(), "task": TASK}
    outputs = run_cli(program, folders["tokens"], "tokens", tmp_path / "b", **given)
    expected = hypertf.export.load(folders["tokens"]).run("tokens", **given)
    np.testing.assert_array_equal(outputs["output_tokens"], expected["output_tokens"])
