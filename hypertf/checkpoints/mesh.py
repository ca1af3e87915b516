"""Mesh TensorFlow checkpoints: TensorFlow 1 files with one variable per name.

The names are hypertf's own. Older runs call the norms `layer_norm` and
`final_layer_norm`. Slots of Adafactor lie beside their variable, `<name>_slot_vr`.
"""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from hypertf.checkpoints.reader import Block, Reader, StoredTensor, row_ranges
from hypertf.checkpoints.rules import FINAL_NORM, NORM, STACK, Rule
from hypertf.checkpoints.values import grouped
from hypertf.keras_internals import trained_variables
from hypertf.t5 import T5
from hypertf.t5.config import T5Config
from hypertf.t5.weights import named_weights

Tensors = dict[str, tuple[tf.Tensor, tf.DType]]  # {name: (value, type to write)}

STEP = "global_step"
STATE = "checkpoint"

# Tensors handed to TensorFlow at once are an eighth of all, within these bounds; it
# writes a file for each group.
_GROUP_BYTES = (16 * 2**20, 256 * 2**20)

_SLOT = re.compile(r".*_slot_(v|vr|vc|m)")
_BLOCK = STACK + r"block_(?P<number>\d+)/.*"
RULES = (
    Rule(
        NORM,
        ("{name}", "{stack}/block_{block:03d}/layer_{layer:03d}/layer_norm/scale"),
    ),
    Rule(
        FINAL_NORM,
        ("{name}", "{stack}/final_layer_norm/scale", "{stack}/layer_norm/scale"),
    ),
    Rule(".*", ("{name}",)),
)


class MeshReader(Reader):
    """A prefix such as `DIR/model.ckpt-1000`, or the latest of a folder."""

    format = "Mesh TensorFlow"
    looked_for = f"the prefix of an .index file or a `{STATE}` file (Mesh TensorFlow)"
    unknown_fields = frozenset({"dropout_rate", "max_distance"})

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = _prefix(path)
        try:
            self._read_index(tf.compat.v1.train.NewCheckpointReader(self.path))
        except (tf.errors.OpError, IndexError) as error:
            raise ValueError(
                f"{self.path} is not a whole TensorFlow checkpoint: {error}"
            ) from error

    def _read_index(self, reader):
        dtypes = reader.get_variable_to_dtype_map()
        promised = 0
        for name, shape in reader.get_variable_to_shape_map().items():
            kind = self.slots if _SLOT.fullmatch(name) else self.tensors
            kind[name] = StoredTensor(tuple(shape), dtypes[name].name)
            if dtypes[name] != tf.string:
                promised += dtypes[name].size * math.prod(shape)
        self._check_size(promised)
        if self.tensors.pop(STEP, None) is not None:
            self.step = int(reader.get_tensor(STEP))

    def _check_size(self, promised):
        """Finds a file that is cut short before any weight is read from it."""
        files = tf.io.gfile.glob(self.path + ".data-*")
        size = sum(tf.io.gfile.stat(file).length for file in files)
        if size < promised:
            raise ValueError(
                f"{self.path} is not a whole TensorFlow checkpoint: its data files "
                f"have {size} bytes, its index speaks of {promised}"
            )

    @classmethod
    def recognises(cls, path: str) -> bool:
        """Tells whether a path is a checkpoint's prefix, or a folder of checkpoints."""
        return _prefix(path) is not None

    def config(self) -> T5Config:
        """Infers the T5Config of names and shapes."""
        return infer_config({name: t.shape for name, t in self.tensors.items()})

    def rules(self, config: T5Config) -> Sequence[Rule]:
        """Returns the rules for a model of this T5Config."""
        return RULES

    def blocks(self, name: str) -> Iterator[Block]:
        """Yields `(start, stop, rows)` of a tensor, rows as a numpy array."""
        tensor = self.tensors.get(name) or self.slots[name]
        # TensorFlow reads no less than a whole tensor.
        (value,) = tf.raw_ops.RestoreV2(
            prefix=self.path,
            tensor_names=[name],
            shape_and_slices=[""],
            dtypes=[tf.as_dtype(tensor.dtype)],
        )
        if not tensor.shape:
            yield 0, 1, value.numpy()
            return
        for start, stop in row_ranges(tensor):
            yield start, stop, value[start:stop].numpy()


def _prefix(path):
    """The prefix that a path stands for, or None."""
    path = path.removesuffix(".index")
    if tf.io.gfile.exists(path + ".index"):
        return path
    if not tf.io.gfile.exists(os.path.join(path, STATE)):
        return None
    state = tf.train.get_checkpoint_state(path)
    if state is None:
        return None
    # The folder may have been moved since it was written.
    moved = os.path.join(path, os.path.basename(state.model_checkpoint_path))
    for prefix in (state.model_checkpoint_path, moved):
        if tf.io.gfile.exists(prefix + ".index"):
            return prefix
    raise FileNotFoundError(f"{path}/{STATE} names {moved}, which is absent")


def infer_config(shapes: Mapping[str, Sequence[int]]) -> T5Config:
    """Infers the T5Config that variables of these names and shapes belong to.

    They do not tell the dropout rate and the largest distance: T5's own are taken.
    """
    first = "encoder/block_000/layer_000/SelfAttention/"
    ffn = "encoder/block_000/layer_001/DenseReluDense/"
    gated = ffn + "wi_0/kernel" in shapes

    def shape(name):
        if name not in shapes:
            raise ValueError(f"cannot tell the model's size: no variable {name!r}")
        return shapes[name]

    vocab_size, d_model = shape("shared/embedding")
    num_heads, num_buckets = shape(first + "relative_attention_bias")
    return T5Config(
        vocab_size=vocab_size,
        d_model=d_model,
        d_ff=shape(ffn + ("wi_0/kernel" if gated else "wi/kernel"))[1],
        num_heads=num_heads,
        d_kv=shape(first + "q")[1] // num_heads,
        num_encoder_layers=_layers(shapes, "encoder"),
        num_decoder_layers=_layers(shapes, "decoder"),
        activation="gated-gelu" if gated else "relu",
        tie_embeddings="decoder/logits/kernel" not in shapes,
        num_buckets=num_buckets,
    )


def _layers(names, stack):
    matches = (re.fullmatch(_BLOCK, name) for name in names)
    return len({m["number"] for m in matches if m and m["stack"] == stack})


def slot_name(name: str, slot: str) -> str:
    """Names the slot of a variable."""
    return f"{name}_slot_{slot}"


def tensors_to_write(
    model: T5,
    dtype: str,
    optimizer: keras.optimizers.Optimizer | None = None,
    step: int = 0,
) -> Tensors:
    """Lists all that a checkpoint holds: `{name: (value, type)}`."""
    tensors = {STEP: (tf.constant(step, tf.int64), tf.int64)}
    for name, variable in named_weights(model).items():
        tensors[name] = variable.value, tf.as_dtype(dtype)
        if optimizer is not None and is_trained(optimizer, variable):
            for slot, value in optimizer.slots(variable).items():
                # Mesh keeps them in float32, whatever its weights are.
                tensors[slot_name(name, slot)] = value.value, tf.float32
    return tensors


def check_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    """Raises ValueError unless the optimizer keeps slots as Mesh TensorFlow does."""
    if not hasattr(optimizer, "slots"):
        raise ValueError(
            f"{type(optimizer).__name__} keeps no slots as Mesh TensorFlow does; "
            "expected a hypertf.Adafactor"
        )


def is_trained(optimizer: keras.optimizers.Optimizer, variable: keras.Variable) -> bool:
    """Tells whether the optimizer was built for this variable."""
    return any(v is variable for v in trained_variables(optimizer))


def write(tensors: Tensors, prefix: str) -> None:
    """Writes a checkpoint of `{name: (value, type)}`."""
    parts = []
    for names in _groups(tensors):
        parts.append(f"{prefix}-part-{len(parts):05d}")
        tf.raw_ops.SaveV2(
            prefix=parts[-1],
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.cast(*tensors[name]) for name in names],
        )
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=parts, destination_prefix=prefix, delete_old_dirs=False
    )


def _groups(tensors):
    sizes = {k: t.size * v.shape.num_elements() for k, (v, t) in tensors.items()}
    low, high = _GROUP_BYTES
    return grouped(sizes, min(max(sum(sizes.values()) // 8, low), high))


def state_text(folder: str, prefix: str) -> str:
    """Writes the text of a folder's `checkpoint` file once `prefix` is its latest."""
    latest = os.path.basename(prefix)
    state = tf.train.get_checkpoint_state(folder)
    known = state.all_model_checkpoint_paths if state else ()
    names = [os.path.basename(path) for path in known]
    names = [name for name in names if name != latest]
    lines = [f"model_checkpoint_path: {json.dumps(latest)}"]
    lines += [f"all_model_checkpoint_paths: {json.dumps(n)}" for n in (*names, latest)]
    return "\n".join(lines) + "\n"
