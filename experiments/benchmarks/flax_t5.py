"""Hugging Face's Flax T5 with optax's Adafactor: its training step, for XLA.

transformers has no Flax models since its version 5, so the step is traced in an
environment of its own, made on first use; this file is also the program that runs
there, and imports nothing of ours.
"""

import json
import pathlib
import subprocess
import sys
import venv

REQUIRES = (
    "flax>=0.10.7,<0.11",
    "jax>=0.6.2,<0.7",  # in 0.10 a function has lost an argument that the model gives
    "optax>=0.2.5,<0.3",
    "transformers>=4.57,<5",
)


def traced(sizes: dict, folder: pathlib.Path) -> bytes:
    """Traces the step in the environment in `folder` and returns it as HLO.

    Args:
        sizes: rows, inputs_length, targets_length, and the fields of our T5Config.
        folder: of the environment; made if it is not there.

    Raises:
        ImportError: if the environment cannot be had.
    """
    python = environment(folder)
    output = folder / "step.hlo"
    # -P: the modules beside this file are not meant.
    command = [python, "-P", __file__, json.dumps(sizes), output]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ImportError(f"its step cannot be traced: {_reason(done.stderr)}")
    return output.read_bytes()


def environment(folder: pathlib.Path) -> pathlib.Path:
    """Makes the environment if it is not there, and returns its Python."""
    python = folder / "bin" / "python"
    installed = folder / "installed.json"
    if installed.exists() and json.loads(installed.read_text()) == [*REQUIRES]:
        return python
    print(f"installing {', '.join(REQUIRES)} into {folder}", flush=True)
    try:
        venv.create(folder, clear=True, with_pip=True)
        command = [python, "-m", "pip", "install", "--quiet", *REQUIRES]
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        why = _reason(error.stderr)
        raise ImportError(f"its environment cannot be made: {why}") from None
    installed.write_text(json.dumps(REQUIRES))
    return python


def _reason(output: str | bytes | None) -> str:
    """The last line that names an error, else the last."""
    text = output.decode() if isinstance(output, bytes) else output or ""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no reason given"])[-1].strip()


def write_step(sizes: dict, path: str) -> None:
    """Traces the step and writes its HLO."""
    import jax
    import jax.numpy as jnp
    import optax
    import transformers

    config = transformers.T5Config(
        vocab_size=sizes["vocab_size"],
        d_model=sizes["d_model"],
        d_kv=sizes["d_kv"],
        d_ff=sizes["d_ff"],
        num_layers=sizes["num_encoder_layers"],
        num_decoder_layers=sizes["num_decoder_layers"],
        num_heads=sizes["num_heads"],
        dropout_rate=sizes["dropout_rate"],
        feed_forward_proj=sizes["activation"],
        tie_word_embeddings=sizes["tie_embeddings"],
    )
    model = transformers.FlaxT5ForConditionalGeneration(
        config, dtype=jnp.bfloat16, _do_init=False
    )
    optimizer = optax.adafactor(1e-3)

    def loss_of(weights, batch, key):
        logits = model(
            batch["inputs"],
            attention_mask=batch["inputs"] != 0,
            decoder_input_ids=batch["decoder_inputs"],
            params=weights,
            dropout_rng=key,
            train=True,
        ).logits.astype(jnp.float32)
        losses = optax.softmax_cross_entropy_with_integer_labels(
            logits, batch["targets"]
        )
        counts = batch["targets"] != 0
        return jnp.sum(losses * counts) / jnp.sum(counts)

    def step(weights, slots, batch, number):
        key = jax.random.fold_in(jax.random.PRNGKey(0), number)
        loss, gradients = jax.value_and_grad(loss_of)(weights, batch, key)
        updates, slots = optimizer.update(gradients, slots, weights)
        return optax.apply_updates(weights, updates), slots, loss

    weights = jax.eval_shape(lambda: model.init_weights(jax.random.PRNGKey(0), (1, 1)))
    slots = jax.eval_shape(optimizer.init, weights)
    rows, inputs, targets = (
        sizes[name] for name in ("rows", "inputs_length", "targets_length")
    )
    batch = {
        "inputs": jax.ShapeDtypeStruct((rows, inputs), jnp.int32),
        "decoder_inputs": jax.ShapeDtypeStruct((rows, targets), jnp.int32),
        "targets": jax.ShapeDtypeStruct((rows, targets), jnp.int32),
    }
    number = jax.ShapeDtypeStruct((), jnp.int32)
    step = jax.jit(step, donate_argnums=(0, 1)).trace(weights, slots, batch, number)
    # Not for this machine: random numbers, for one, are made in other ways on a CPU.
    lowered = step.lower(lowering_platforms=("tpu",))
    hlo = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    pathlib.Path(path).write_bytes(hlo)


if __name__ == "__main__":
    write_step(json.loads(sys.argv[1]), sys.argv[2])
