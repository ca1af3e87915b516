"""Loading and saving stream: what they add to a built model is small beside it."""

import json
import os
import subprocess
import sys

import keras_hub
import pytest

import hypertf

pytestmark = pytest.mark.slow

# The head is stored transposed; embedding and head are a seventh of the model each.
SIZE = "t5.1.1-small"
VOCABULARY = 16000
FORMATS = {
    "huggingface": {"format": "huggingface", "dtype": "bfloat16"},
    "mesh": {"format": "mesh", "dtype": "float32"},
}
LIMIT = 0.3  # of the model

# Runs actions on a tiny model, so that TensorFlow is warm, then on the real one.
# Prints the bytes of the model, and how far the peak of each action rose above what
# there was before it.
PROGRAM = """
import json, sys, tempfile
import hypertf
from hypertf import checkpoints

size, vocabulary, actions = sys.argv[1:]
actions = json.loads(actions)  # [name, path, options] of each

def run(model, name, path, options):
    if name == "load":
        checkpoints.load(model, path)
    else:
        checkpoints.save(model, path, **options)

def memory(field):
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return 1024 * int(lines[field].split()[0])

tiny = hypertf.T5(hypertf.T5Config.from_name(size, d_model=8, d_ff=8, vocab_size=8))
for name, path, options in actions:
    with tempfile.TemporaryDirectory() as folder:
        checkpoints.save(tiny, folder + "/x", **options)
        checkpoints.load(tiny, folder + "/x")

config = hypertf.T5Config.from_name(size, vocab_size=int(vocabulary))
model = hypertf.T5(config)
rises = []
for action in actions:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts anew
    before = memory("VmRSS")
    run(model, *action)
    rises.append(memory("VmHWM") - before)
parameters = sum(w.value.shape.num_elements() for w in model.weights)
print(json.dumps([4 * parameters, rises]))
"""


# Freed memory goes back to the system at once, so that what building the model, or an
# action before, left free hides nothing. By default oneDNN's allocator and the C
# library keep it.
EXACT = {"TF_ENABLE_ONEDNN_OPTS": "0", "MALLOC_MMAP_THRESHOLD_": "65536"}


def extra_memory(actions, environment):
    """The rise of the peak in each action, as a part of the model."""
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, SIZE, str(VOCABULARY), json.dumps(actions)],
        env={**os.environ, **environment, **path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    model, rises = json.loads(result.stdout.splitlines()[-1])
    assert model > 200e6
    return [rise / model for rise in rises]


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A folder of KerasHub's."""
    folder = tmp_path_factory.mktemp("preset")
    config = hypertf.T5Config.from_name(SIZE, vocab_size=VOCABULARY)
    keras_hub.models.T5Backbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_encoder_layers,
        num_heads=config.num_heads,
        hidden_dim=config.d_model,
        intermediate_dim=config.d_ff,
        key_value_dim=config.d_kv,
        activation="gelu",
        use_gated_activation=True,
        tie_embedding_weights=False,
    ).save_to_preset(folder)
    return str(folder)


@pytest.fixture(scope="module")
def exact(tmp_path_factory, preset):
    """The folder of what was written, and the rises of all actions, by their names."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("only Linux tells the peak of a part of a process")
    folder = tmp_path_factory.mktemp("memory")
    actions = {}
    for name, options in FORMATS.items():
        path = str(folder / name / "model.ckpt-0")  # a folder's name as well
        actions["save", name] = ["save", path, options]
        actions["load", name] = ["load", path, options]
    actions["load", "kerashub"] = ["load", preset, {}]
    rises = extra_memory(list(actions.values()), EXACT)
    return folder, dict(zip(actions, rises, strict=True))


@pytest.mark.parametrize(
    ("action", "name"),
    [
        ("save", "huggingface"),
        ("load", "huggingface"),
        ("save", "mesh"),
        ("load", "mesh"),
        ("load", "kerashub"),
    ],
)
def test_an_action_needs_little_memory(exact, action, name):
    assert exact[1][action, name] < LIMIT


@pytest.mark.parametrize("name", FORMATS)
def test_so_does_loading_with_the_usual_allocators(exact, name):
    action = ["load", str(exact[0] / name / "model.ckpt-0"), FORMATS[name]]
    assert extra_memory([action], {})[0] < LIMIT
