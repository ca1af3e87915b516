"""What a step keeps besides variables, by named dimensions.

Training keeps values for the backward pass, decoding keeps keys and values. Attention
is that of `hypertf.t5.lean_attention`, and what follows from a kept value without a
product, such as a norm or dropout, is computed again.
"""

import dataclasses

import keras
import tensorflow as tf

from hypertf.mesh.tensors import Named
from hypertf.t5 import T5, StackSites, T5Config, map_tensors


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of a step.

    Attributes:
        batch_size: examples of all devices together.
        inputs_length: tokens of an input.
        targets_length: tokens of a target.
        itemsize: bytes of an element, as computed with.
        rematerialize: whether blocks are computed again in the backward pass.
        beam_size: beams of decoding.
    """

    batch_size: int
    inputs_length: int
    targets_length: int
    itemsize: int = 2
    rematerialize: bool = False
    beam_size: int = 1


@dataclasses.dataclass(frozen=True)
class Extra:
    """What a conditioner adds to a stack.

    Attributes:
        tokens: how many come before the stack's input.
        keys: how many come before the keys of self-attention.
        generated: what the conditioner writes for the examples.
    """

    tokens: int = 0
    keys: int = 0
    generated: tuple[Named, ...] = ()


def extras(model: T5, sizes: Sizes) -> dict[str, Extra]:
    """What the model's conditioner adds to "encoder" and "decoder".

    The conditioner is asked in a graph that never runs: nothing is allocated.
    """
    if model.conditioner is None:
        return {"encoder": Extra(), "decoder": Extra()}
    shape = [sizes.batch_size, sizes.inputs_length, model.config.d_model]
    dtype = tf.bfloat16 if sizes.itemsize == 2 else tf.float32
    with tf.Graph().as_default():
        values = [(v, tf.zeros(v.shape, v.dtype)) for v in model.variables]
        with keras.StatelessScope(state_mapping=values):
            ids = tf.zeros(shape[:1], tf.int32)
            memory = tf.zeros(shape, dtype), tf.ones(shape[:2], tf.bool)
            encoder = model.conditioner.encoder(
                ids, training=True, first_pass=lambda sites=None: memory
            )
            decoder = model.conditioner.decoder(ids, *memory, training=True)
            return {
                "encoder": _extra("encoder", encoder, sizes),
                "decoder": _extra("decoder", decoder, sizes),
            }


def _extra(stack: str, sites: StackSites, sizes: Sizes) -> Extra:
    generated = []

    def keep(tensor, is_shared):
        # Variables are counted as such.
        if not isinstance(tensor, keras.Variable) and not is_shared:
            shape = tuple(tensor.shape)
            dims = ("batch", *["generated"] * (len(shape) - 1))
            name = f"{stack}: written by the conditioner"
            generated.append(Named(name, dims, shape, sizes.itemsize))
        return tensor

    map_tensors(keep, sites)
    return Extra(sites.num_tokens, sites.num_keys, tuple(generated))


def kept_in_training(
    config: T5Config, sizes: Sizes, extra: dict[str, Extra]
) -> list[Named]:
    """Lists what the forward pass of training keeps for the backward pass."""
    lengths = stack_lengths(sizes, extra)
    found = []
    for stack, layers in _stacks(config):
        length, memory = lengths[stack], lengths["encoder"]
        block = _block(config, stack, length, memory, extra[stack].keys, sizes)
        stream = _stream(f"{stack}: stream", config, length, sizes)
        if sizes.rematerialize:  # every block's input, and one block's inner values
            found += [_times(stream, layers)]
        found += block if sizes.rematerialize else [_times(t, layers) for t in block]
        found += [_stream(f"{stack}: final norm", config, length, sizes)]
        bias = (config.num_heads, length, extra[stack].keys + length)
        dims = ("heads", "length", "memory_length")
        found += [Named(f"{stack}: relative bias", dims, bias), *extra[stack].generated]
    dims = ("batch", "length", "vocab")
    shape = (sizes.batch_size, sizes.targets_length, config.vocab_size)
    return [*found, Named("logits", dims, shape, sizes.itemsize)]


def in_one_block(
    config: T5Config, sizes: Sizes, extra: dict[str, Extra]
) -> list[Named]:
    """Lists what an encoder block's backward pass holds: what was kept, and more.

    That is the largest tensor of all, the weights of attention, and their gradient.
    """
    length = stack_lengths(sizes, extra)["encoder"]
    keys = extra["encoder"].keys
    shape = (sizes.batch_size, config.num_heads, length, keys + length)
    dims = ("batch", "heads", "length", "memory_length")
    weights = Named("encoder: weights of attention", dims, shape, sizes.itemsize, 2)
    return [*_block(config, "encoder", length, length, keys, sizes), weights]


def gradient_of_memory(
    config: T5Config, sizes: Sizes, extra: dict[str, Extra]
) -> Named:
    """The gradient of the encoder's output: a part of each decoder block's k and v.

    They are added up when all are there.
    """
    length = stack_lengths(sizes, extra)["encoder"]
    part = _stream("encoder: gradient of its output", config, length, sizes)
    return _times(part, 2 * config.num_decoder_layers)


def decoding_cache(
    config: T5Config, sizes: Sizes, extra: dict[str, Extra]
) -> list[Named]:
    """Lists the keys and values that decoding keeps, of its own steps and the input."""
    own = extra["decoder"].keys + extra["decoder"].tokens + sizes.targets_length
    memory = stack_lengths(sizes, extra)["encoder"]
    rows, heads, d_kv = sizes.batch_size, config.num_heads, config.d_kv
    count = 2 * config.num_decoder_layers
    return [
        Named(
            "cache: steps so far",
            ("batch", "heads", "beams", "memory_length", "d_kv"),
            (rows, heads, sizes.beam_size, own, d_kv),
            sizes.itemsize,
            count,
        ),
        Named(
            "cache: keys and values of the input",
            ("batch", "heads", "memory_length", "d_kv"),
            (rows, heads, memory, d_kv),
            sizes.itemsize,
            count,
        ),
    ]


def _stacks(config):
    return (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    )


def stack_lengths(sizes: Sizes, extra: dict[str, Extra]) -> dict[str, int]:
    """The lengths that "encoder" and "decoder" compute with."""
    return {
        "encoder": sizes.inputs_length + extra["encoder"].tokens,
        "decoder": sizes.targets_length + extra["decoder"].tokens,
    }


def _times(tensor, count):
    return dataclasses.replace(tensor, count=tensor.count * count)


def _stream(name, config, length, sizes):
    shape = (sizes.batch_size, length, config.d_model)
    return Named(name, ("batch", "length", "d_model"), shape, sizes.itemsize)


def _block(config, stack, length, memory, keys, sizes):
    """What one block keeps: the stream before each norm, and products' results."""
    found = _attention(config, f"{stack}: self-attention", length, keys + length, sizes)
    if stack == "decoder":
        found += _attention(config, f"{stack}: cross-attention", length, memory, sizes)
    name = f"{stack}: feed-forward"
    shape = (sizes.batch_size, length, config.d_ff)
    hidden = Named(name, ("batch", "length", "d_ff"), shape, sizes.itemsize)
    stream = _stream(name, config, length, sizes)
    return [*found, stream, _times(hidden, 3 if config.gated else 1)]


def _attention(config, name, length, memory, sizes):
    rows, heads, d_kv = sizes.batch_size, config.num_heads, config.d_kv

    def named(dims: str, *shape: int, count: int = 1) -> Named:
        return Named(name, ("batch", *dims.split()), shape, sizes.itemsize, count)

    # The largest logit, and the sum of their exponentials.
    softmax = named("heads length", rows, heads, length, count=2)
    return [
        _stream(name, config, length, sizes),
        named("heads length d_kv", rows, heads, length, d_kv, count=2),  # q, output
        named("heads memory_length d_kv", rows, heads, memory, d_kv, count=2),  # k, v
        dataclasses.replace(softmax, itemsize=4),
    ]
