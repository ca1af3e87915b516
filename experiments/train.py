"""Trains one T5 on a mixture of tasks.

    python -m experiments.train --config=nano --model_dir=/tmp/nano
    python -m experiments.train --model=t5-base --init=PATH \\
        --conditioner=hyperprompt-global --mixture=en_mix --model_dir=gs://...
    python -m experiments.train --config=nano --mesh_shape=batch:2,model:2 \\
        --model_dir=/tmp/mesh

Started again with the same model_dir it goes on from the newest checkpoint, to the
same weights as a run that never stopped. SIGTERM saves and ends. --verbosity=1 prints
every setting.
"""

import os

from absl import app, flags

from experiments.configs import Config, config_names, get_config
from experiments.runs import components, on_mesh, program
from experiments.runs import flags as run_flags
from experiments.runs.training_run import train_run


def train(
    config: Config | str,
    model_dir: str | os.PathLike,
    *,
    data_dir: str | os.PathLike | None = None,
    strategy: str = "auto",
    tpu: str | None = None,
    profile: bool = False,
    mesh_shape: str | None = None,
    layout: str | None = None,
    cores_per_replica: int | None = None,
) -> int:
    """Trains a configuration to its last step; returns the step reached.

    ```python
    from experiments.configs import get_config
    from experiments.train import train

    config = get_config("nano").replace(conditioner="hypergrid", steps=100)
    train(config, "/tmp/hypergrid")
    ```

    Args:
        config: a `Config`, or the name of one.
        model_dir: folder of the run, local or gs://...; a run that is there goes on.
        data_dir: folder of the TFDS data, by default TFDS's own.
        strategy: devices to train on, one of `hypertf.training.STRATEGIES`.
        tpu: name of the TPU; "local" on a TPU VM.
        profile: print the share of time spent waiting for data; a bit slower.
        mesh_shape: a mesh to split the model over, such as "batch:2,model:4", or a
            TPU's name with `cores_per_replica`.
        layout: what is split over it, by default as T5's; see `hypertf.mesh`.
        cores_per_replica: over how many devices of the TPU the model is split.
    """
    if isinstance(config, str):
        config = get_config(config)
    model_dir, data_dir = components.expand(model_dir), components.expand(data_dir)
    asked = on_mesh.asked(mesh_shape, layout, cores_per_replica, strategy, tpu)
    return train_run(config, model_dir, data_dir, strategy, tpu, profile, asked)


def _define(values):
    run_flags.define_config(values)
    run_flags.define_devices(values)
    run_flags.define_mesh(values)
    flags.DEFINE_string(
        "model_dir", None, "Folder of the run, local or gs://...", flag_values=values
    )
    flags.DEFINE_boolean(
        "profile",
        False,
        "Print the share of time spent waiting for data; a bit slower.",
        flag_values=values,
    )


def _call(values):
    if values.config == "list":
        print("\n".join(config_names()))
        return
    if values.model_dir is None:
        raise app.UsageError("--model_dir is not set; expected a folder for the run")
    options = program.given(values, "data_dir", "strategy", "tpu", "profile")
    options |= program.given(values, *run_flags.MESH)
    train(run_flags.config_of(values), values.model_dir, **options)


if __name__ == "__main__":
    program.run("experiments.train", _define, _call)
