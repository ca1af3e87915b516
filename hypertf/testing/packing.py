"""The check of packed rows: examples that share a row are as they are in their own."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from hypertf.t5 import T5
from hypertf.t5.inputs import PACKED
from hypertf.t5.packing import MODES
from hypertf.testing.case import Case, require, require_close, require_same, rows

# Input and target tokens of the examples that are packed.
LENGTHS = ((4, 3), (8, 4), (6, 2), (5, 4), (3, 1))
ROWS = {"task": ((0, 2), (1, 3, 4)), "mixed": ((4, 1, 0), (3, 2))}
SEGMENTS = 4  # that a row may have: one more than any has
ROOM = (18, 10)  # tokens of inputs and of targets
TOLERANCE = 1e-5

Batch = Mapping[str, np.ndarray]


def check_packed(case: Case) -> str | None:
    """Packed rows give what one example a row gives, in each mode the method packs.

    Loss, gradients and the logits of every example; modes that it does not pack are
    refused.
    """
    model, modes = case.model, case.model.conditioner.packs
    unpacked = examples(case)
    for mode in MODES:
        if mode not in modes:
            _require_refused(model, packed(unpacked, mode), mode)
    if not modes:
        return "the method packs no rows"
    expected = _loss_and_gradients(model, unpacked)
    for mode in modes:
        batch = packed(unpacked, mode)
        logits, *got = _loss_and_gradients(model, batch)
        for example, (row, segment) in enumerate(_places(mode)):
            own = batch["decoder_segment_ids"][row] == segment
            wanted = expected[0][example, : own.sum()]
            what = f"logits of an example in a row of packing={mode!r}"
            require_close(what, logits[row][own], wanted, TOLERANCE)
        # Sums in another order: small gradients are off by rounding of the large.
        require_same(f"packing={mode!r}:", got, expected[1:], TOLERANCE, least=0.01)
    return None


def examples(case: Case) -> dict[str, np.ndarray]:
    """Examples of two tasks, one a row, as the model takes them."""
    last, vocab = case.num_tasks - 1, case.config.vocab_size
    inputs, targets = zip(*LENGTHS, strict=True)
    targets = rows(targets, max(targets), vocab, seed=1)
    return {
        "encoder_tokens": rows(inputs, max(inputs), vocab),
        "decoder_tokens": np.where(
            targets > 0, np.roll(targets, 1, 1) * [0, 1, 1, 1], 0
        ),
        "task_ids": np.array([0, last, 0, last, last], "int32"),
    }


def packed(unpacked: Batch, mode: str) -> dict[str, np.ndarray]:
    """The same examples in rows of several."""
    made = {name: np.zeros((2, ROOM[name in PACKED[2:]]), "int32") for name in PACKED}
    for stack, room in zip(("encoder", "decoder"), ROOM, strict=True):
        made[f"{stack}_tokens"] = np.zeros((2, room), "int32")
    task_ids = np.zeros((2, SEGMENTS), "int32")
    index = np.full((2, SEGMENTS), -1, "int32")
    filled = np.zeros((2, 2), int)
    for example, (row, segment) in enumerate(_places(mode)):
        for side, stack in enumerate(("encoder", "decoder")):
            length = LENGTHS[example][side]
            at = row, slice(filled[row, side], filled[row, side] + length)
            tokens = unpacked[f"{stack}_tokens"][example, :length]
            made[f"{stack}_tokens"][at] = tokens
            made[f"{stack}_segment_ids"][at] = segment
            made[f"{stack}_positions"][at] = np.arange(length)
            filled[row, side] += length
        task_ids[row, segment - 1] = unpacked["task_ids"][example]
        index[row, segment - 1] = example
    task_ids = task_ids if mode == "mixed" else task_ids[:, 0]
    return {**made, "task_ids": task_ids, "index": index}


def _places(mode):
    """The row and the segment of each example, in the order of the examples."""
    places = {
        example: (row, segment)
        for row, of_row in enumerate(ROWS[mode])
        for segment, example in enumerate(of_row, start=1)
    }
    return [places[example] for example in range(len(LENGTHS))]


def _loss_and_gradients(model, batch):
    """Logits, loss of the real targets, gradients by the paths of the weights."""
    real = batch.get("decoder_segment_ids")
    if real is None:
        lengths = np.array([length for _, length in LENGTHS])
        real = np.arange(batch["decoder_tokens"].shape[1]) < lengths[:, None]
    real = tf.constant(np.asarray(real) > 0, tf.float32)[:, :, None]
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        logits = model({k: tf.constant(v) for k, v in batch.items()}, training=True)
        loss = tf.reduce_sum(tf.square(logits - 0.1) * real)
    gradients = tape.gradient(loss, [v.value for v in variables])
    arrays = [None if g is None else tf.convert_to_tensor(g).numpy() for g in gradients]
    paths = [variable.path for variable in variables]
    return logits.numpy(), loss.numpy(), dict(zip(paths, arrays, strict=True))


def _require_refused(model: T5, batch: Batch, mode: str) -> None:
    try:
        model(batch)
    except ValueError as error:
        require(
            f"packing={mode!r}" in str(error), f"refused for another reason: {error}"
        )
    else:
        raise AssertionError(f"packing={mode!r} is not in `packs`, and not refused")
