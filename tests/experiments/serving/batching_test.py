"""TF Serving's file of batching parameters, and which signatures are batched."""

import os

import numpy as np
import pytest

from experiments.serving.batching import Batching, parse_batching
from experiments.serving.loaded_model import LoadedModel
from tests.experiments.serving.fake_export import write_export

FILE = """
# as TF Serving reads it
max_batch_size { value: 16 }
batch_timeout_micros { value: 0 }
max_enqueued_batches: { value: 7 }
num_batch_threads { value: 3 }
allowed_batch_sizes: 1
allowed_batch_sizes: 4
allowed_batch_sizes: 16
pad_variable_length_inputs: true
"""


def test_the_file_is_read_and_flags_change_it():
    read = parse_batching(FILE)
    assert read == Batching(16, 0, 7, 3, (1, 4, 16))
    assert read.most_rows == 16 * 7
    changed = read.changed(max_batch_size=8, num_batch_threads=None)
    assert changed == Batching(8, 0, 7, 3, (1, 4, 8))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_batch_size { value: many }", "cannot read"),
        ("max_batch_size { value: 0 }", "max_batch_size=0, expected at least 1"),
        ("allowed_batch_sizes: 4", "end with max_batch_size=32"),
        ("allowed_batch_sizes: [8, 4, 32]", "expected rising"),
    ],
)
def test_a_wrong_file_is_named(text, said):
    with pytest.raises(ValueError, match=said):
        parse_batching(text)


def test_what_has_one_value_for_each_row_is_batched(tmp_path):
    path = write_export(tmp_path, batching=FILE)
    model = LoadedModel(str(path), num_batch_threads=1)
    batched = {name for name, s in model.signatures.items() if s.is_batched}
    # Rows of tokens differ in length, and the scheduler joins what is alike.
    assert batched == set(model.signatures) - {"tokens"}
    assert model.signatures["tokens"].most_rows == 16 * 7


def test_versions_share_the_threads_that_run_batches(bare_export):
    arrays = {name: np.array([b"nano/yes_no"], object) for name in ("text", "task")}
    counts = []
    for _ in range(3):
        model = LoadedModel(str(bare_export / "1"), num_batch_threads=5)
        for name in ("serving_default", "classify"):
            model.predict(model.signatures[name], arrays)
        model.unload()
        counts.append(len(os.listdir("/proc/self/task")))
    assert counts[2] - counts[0] < 5
