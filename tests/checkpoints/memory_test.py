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

# Runs an action on a tiny model, so that TensorFlow is warm, then on the real one.
# Prints bytes: the model's, and how far the peak rose above the built model.
PROGRAM = """
import json, sys, tempfile
import hypertf
from hypertf import checkpoints

action, path, size, vocabulary, options = sys.argv[1:]
options = json.loads(options)

def run(model, path):
    if action == "load":
        checkpoints.load(model, path)
    else:
        checkpoints.save(model, path, **options)

def memory(field):
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return 1024 * int(lines[field].split()[0])

tiny = hypertf.T5(hypertf.T5Config.from_name(size, d_model=8, d_ff=8, vocab_size=8))
with tempfile.TemporaryDirectory() as folder:
    if action == "load":
        checkpoints.save(tiny, folder + "/x", **options)
    run(tiny, folder + "/x")

config = hypertf.T5Config.from_name(size, vocab_size=int(vocabulary))
model = hypertf.T5(config)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak starts anew
before = memory("VmRSS")
run(model, path)
parameters = sum(w.value.shape.num_elements() for w in model.weights)
print(4 * parameters, memory("VmHWM") - before)
"""


# Freed memory goes back to the system at once, so that what building the model left
# free hides nothing. By default oneDNN's allocator and the C library keep it.
EXACT = {"TF_ENABLE_ONEDNN_OPTS": "0", "MALLOC_MMAP_THRESHOLD_": "65536"}


def extra_memory(action, path, environment, **options):
    """The rise of the peak, as a part of the model."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("only Linux tells the peak of a part of a process")
    arguments = [action, str(path), SIZE, str(VOCABULARY), json.dumps(options)]
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, **environment, **path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    model, extra = map(int, result.stdout.split()[-2:])
    assert model > 200e6
    print(
        f"{action} {options} {environment}: {extra / model:.3f} of {model / 1e6:.0f} MB"
    )
    return extra / model


@pytest.mark.parametrize(
    ("format", "dtype"), [("huggingface", "bfloat16"), ("mesh", "float32")]
)
def test_save_then_load(tmp_path, format, dtype):
    path = tmp_path / "model.ckpt-0"  # a folder's name as well
    options = {"format": format, "dtype": dtype}
    assert extra_memory("save", path, EXACT, **options) < 0.3
    assert extra_memory("load", path, EXACT, **options) < 0.3
    assert extra_memory("load", path, {}, **options) < 0.3


def test_load_a_kerashub_preset(tmp_path):
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
    ).save_to_preset(tmp_path)
    assert extra_memory("load", tmp_path, EXACT) < 0.3
