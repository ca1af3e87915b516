"""`experiments.train` on a mesh: stopped, resumed, moved, in two processes, refused."""

import json
import os

import pytest
import tensorflow as tf

import hypertf
from experiments.export import export
from experiments.runs import components, config_file, on_mesh
from hypertf.training import RunFolder, checkpoint_steps, read_log
from tests.helpers import relative_error, shallow_nano
from tests.mesh import launch
from tests.mesh.train_program import CONFIG
from tfds_tasks import get_mixture, get_task

SHAPE, STEPS = "batch:2,model:2", CONFIG.steps
TOLERANCE = 1e-4
ENDED = {"reached": STEPS}
OTHERWISE = {"optimizer": "adamw", "weight_decay": 0.1, "microbatches": 2}
CONFIG_TASKS = tuple(CONFIG.mixture.split(","))
# Found out when the model is known: {what is asked: what is said}.
REFUSED = {
    "unknown dimension of a tensor": (
        {"layout": "batch:batch,d_fff:model"},
        "layout rule \"d_fff:model\": unknown dimension 'd_fff'; did you mean 'd_ff'",
    ),
    "a length": (
        {"layout": "batch:batch,length:model"},
        'layout rule "length:model": the length of a text is not split',
    ),
    "does not divide": (
        {"mesh_shape": "model:3"},
        "model=3; model=",
    ),
    "too many devices": (
        {"mesh_shape": "batch:8"},
        'mesh "batch:8" needs 8 devices, but there are 4',
    ),
    "again": (
        {"changes": {"rematerialize": True}},
        "rematerialize=True: expected False on a mesh",
    ),
    "loop": (
        {"changes": {"loop_layers": True}},
        "loop_layers=True: expected False on a mesh",
    ),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The folder of all runs."""
    return str(tmp_path_factory.mktemp("mesh"))


@pytest.fixture(scope="module")
def data_dir(root):
    path = os.path.join(root, "tfds")
    get_mixture(CONFIG.mixture).probabilities("train", path)  # written on first use
    return path


@pytest.fixture(scope="module")
def ended(root, data_dir):
    """How the runs of one process ended, by folder, and what was printed."""
    mesh, no_mesh = {"mesh_shape": SHAPE}, {}
    half = {"copy_of": os.path.join(root, "stopped")}
    runs = {
        "mesh": mesh,
        "stopped": {**mesh, "asked_to_end": {"0": 2}},
        "resumed": {**mesh, **half, "profile": True},
        "moved off": {**no_mesh, **half},
        "one device": no_mesh,
        "moved on": {
            "mesh_shape": "v3-4",
            "cores_per_replica": 4,
            "copy_of": os.path.join(root, "one device"),
            "up_to_half": True,
        },
    }
    # Half of one on one device, the other half on the mesh.
    runs["adamw"] = {**no_mesh, "changes": OTHERWISE}
    half = {"copy_of": os.path.join(root, "adamw"), "up_to_half": True}
    runs["adamw moved on"] = {**mesh, **half, "changes": OTHERWISE}
    runs |= {name: {**mesh, **asked} for name, (asked, _) in REFUSED.items()}
    # After training: on the mesh by which it was split, another one, and one device.
    scored = {"do": "score", "folder": os.path.join(root, "mesh")}
    runs |= {
        "scored": {**scored, **no_mesh},
        "scored on a mesh": {**scored, "mesh_shape": "model:4"},
        "ranked on a mesh": {**scored, **mesh, "decoding": "rank"},
        "scored by too many": {**scored, "mesh_shape": "batch:16"},
    }
    told = [{"folder": os.path.join(root, name), **run} for name, run in runs.items()]
    printed, found = launch.alone("train_program", data_dir, json.dumps(told))
    return dict(zip(runs, found, strict=True)), printed


@pytest.fixture(scope="module")
def of_two_processes(root, data_dir):
    """How the runs of each of two processes ended, and what was printed.

    The one that does not write is asked to end at step 2; then both go on, and score.
    """
    run = {"folder": os.path.join(root, "two"), "mesh_shape": SHAPE}
    told = [{**run, "asked_to_end": {"1": 2}}, run]
    told += [{**run, "do": "score"}, {**run, "do": "score", "checkpoints": "follow"}]
    ended = launch.in_two_processes("train_program", data_dir, json.dumps(told))
    return [(found, printed) for printed, found in ended]


def tensors(folder, step=STEPS):
    reader = tf.train.load_checkpoint(RunFolder(folder, writes=False).prefix(step))
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


def away(root, folder, other):
    """The name that is farthest off, and how far."""
    got, expected = (tensors(os.path.join(root, name)) for name in (folder, other))
    assert got.keys() == expected.keys()
    assert any("_slot_" in name for name in got)
    off = {name: relative_error(got[name], expected[name]) for name in got}
    return max(off.items(), key=lambda item: item[1])


@pytest.mark.slow
def test_adamw_goes_on_with_its_slots_and_parts_of_batches(ended, root):
    assert ended[0]["adamw"] == ended[0]["adamw moved on"] == ENDED
    name, off = away(root, "adamw moved on", "adamw")
    assert off < TOLERANCE, name


@pytest.mark.slow
def test_a_run_ends_with_the_weights_and_slots_of_one_device(ended, root):
    assert ended[0]["mesh"] == ended[0]["one device"] == ENDED
    name, off = away(root, "mesh", "one device")
    assert 0 < off < TOLERANCE, name


@pytest.mark.slow
def test_so_do_its_losses(ended, root):
    logs = [read_log(os.path.join(root, name)) for name in ("mesh", "one device")]
    assert [record["step"] for record in logs[0]] == list(range(1, STEPS + 1))
    for mine, other in zip(*logs, strict=True):
        assert mine["step"] == other["step"]
        assert mine["task_examples"] == other["task_examples"]
        assert mine["learning_rate"] == other["learning_rate"]
        assert mine["loss"] == pytest.approx(other["loss"], rel=TOLERANCE)


@pytest.mark.slow
def test_a_run_asked_to_end_goes_on_as_if_never_stopped(ended, root):
    assert ended[0]["stopped"] == {"reached": 2}
    assert checkpoint_steps(os.path.join(root, "stopped")) == [2]
    assert ended[0]["resumed"] == ENDED
    assert away(root, "resumed", "mesh")[1] == 0
    assert "going on from" in ended[1]


@pytest.mark.slow
def test_waiting_for_data_is_measured(ended, root):
    records = read_log(os.path.join(root, "resumed"))
    assert ["share_waited" in record for record in records] == [
        False,
        False,
        True,
        True,
    ]
    assert "waiting for data: " in ended[1]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["moved off", "moved on"])
def test_a_run_goes_on_without_a_mesh_and_on_another(ended, root, folder):
    assert ended[0][folder] == ENDED
    name, off = away(root, folder, "one device")
    assert 0 < off < TOLERANCE, name


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_what_a_mesh_does_not_do_is_said_before_a_folder_is_claimed(ended, case):
    found = ended[0][case]
    assert REFUSED[case][1] in found["error"]
    assert len(found["error"].splitlines()) == 1
    assert not found["left"]


@pytest.mark.slow
def test_a_process_that_is_asked_to_end_ends_both(of_two_processes, root):
    for ended, printed in of_two_processes:
        assert ended[:2] == [{"reached": 2}, ENDED]
        assert "going on from" in printed


@pytest.mark.slow
def test_two_processes_end_with_the_weights_of_one_device(
    ended, of_two_processes, root
):
    name, off = away(root, "two", "one device")
    assert 0 < off < TOLERANCE, name


@pytest.mark.slow
def test_one_of_two_processes_writes(of_two_processes, root):
    folder = os.path.join(root, "two")
    assert checkpoint_steps(folder) == [2, STEPS]
    assert config_file.read(folder) == CONFIG
    with open(os.path.join(folder, "train.jsonl")) as lines:
        steps = [json.loads(line)["step"] for line in lines]
    assert steps == list(range(1, STEPS + 1))
    (_, said), (_, silent) = of_two_processes
    assert f"splitting it over a mesh of 4 devices, {SHAPE}" in said
    assert "splitting" not in silent and f"step {STEPS} of" not in silent


@pytest.mark.slow
def test_a_split_model_is_scored_as_a_whole_one(ended):
    whole, split = (ended[0][name] for name in ("scored", "scored on a mesh"))
    assert whole["how"] == "greedy" and set(whole["texts"]) == set(CONFIG_TASKS)
    assert split == whole
    ranked = ended[0]["ranked on a mesh"]
    assert ranked["how"] == "rank"
    for task, texts in ranked["texts"].items():
        assert set(texts) <= set(get_task(task).choices)


@pytest.mark.slow
def test_a_batch_that_does_not_divide_is_not_scored(ended):
    assert (
        "batch=104 does not divide by mesh dimension batch=16"
        in (ended[0]["scored by too many"]["error"])
    )


@pytest.mark.slow
def test_two_processes_score_and_one_tells(of_two_processes, root):
    (ended, said), (others, silent) = of_two_processes
    assert ended[2] == others[2] and set(ended[2]["scores"]) == {str(STEPS)}
    assert "best single checkpoint" in said and "best single" not in silent
    for found in (ended, others):
        assert "checkpoints='follow' with 2 processes" in found[3]["error"]


@pytest.mark.slow
def test_a_run_on_a_mesh_is_exported(ended, root, tmp_path, data_dir):
    run = os.path.join(root, "mesh")
    with shallow_nano():
        exported = export(
            run, tmp_path, signatures=["serving_default"], data_dir=data_dir
        )
    vocabulary = components.make_vocabulary(CONFIG)
    examples = components.make_mixture(CONFIG).examples(
        "validation",
        vocabulary=vocabulary,
        inputs_length=CONFIG.inputs_length,
        data_dir=data_dir,
    )
    for task, texts in ended[0]["scored on a mesh"]["texts"].items():
        asked = [example["inputs"] for example in examples[task][:4]]
        answers = hypertf.export.load(exported).answer(asked, task=task)
        assert answers == texts[:4]


def test_what_was_asked_is_read():
    assert on_mesh.asked() is None
    found = on_mesh.asked("v3-8", cores_per_replica=2)
    assert str(found.shape) == "batch:4,model:2"
    assert ("vocab", "model") in found.layout.rules
    found = on_mesh.asked("batch:2", "batch:batch", strategy="one_device")
    assert found.layout.rules == (("batch", "batch"),)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"layout": "d_ff:model"}, "layout='d_ff:model' without mesh_shape"),
        ({"cores_per_replica": 2}, "cores_per_replica=2 without mesh_shape"),
        ({"mesh_shape": "model=2"}, '"model=2", expected pairs such as'),
        ({"mesh_shape": SHAPE, "layout": "d_ff"}, '"d_ff", expected pairs such as'),
        ({"mesh_shape": SHAPE, "strategy": "mirrored"}, "strategy='mirrored' with"),
        ({"mesh_shape": SHAPE, "tpu": "local"}, "tpu='local' with mesh_shape"),
        (
            {"mesh_shape": "bacth:2,model:2"},
            "unknown mesh dimension 'bacth'; did you mean 'batch'",
        ),
        (
            {"mesh_shape": SHAPE, "layout": "batch:batch"},
            "unknown mesh dimension 'model'",
        ),
        (
            {"mesh_shape": SHAPE, "cores_per_replica": 2},
            "expected the name of a TPU, such as v3-8",
        ),
        ({"mesh_shape": "v3-8", "cores_per_replica": 3}, "does not divide its 8 cores"),
    ],
)
def test_a_mesh_that_is_none_is_refused(asked, words):
    with pytest.raises(ValueError) as error:
        on_mesh.asked(**asked)
    assert words in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"microbatches": 4},
            'batch_size, layout rule "batch:batch": batch=2 does not divide by mesh '
            "dimension batch=4",
        ),
        (
            {"batch_size": 6},
            'batch_size, layout rule "batch:batch": batch=6 does not divide by mesh '
            "dimension batch=4",
        ),
    ],
)
def test_settings_that_do_not_go_with_a_mesh_are_refused(changes, words):
    with pytest.raises(ValueError) as error:
        on_mesh.asked("batch:4").check(CONFIG.replace(**changes))
    assert words in str(error.value)
