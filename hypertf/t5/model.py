"""T5 as a Keras model: encoder, decoder, logits, and the conditioner's place."""

import functools
import random

import keras
import tensorflow as tf
from keras import ops

from hypertf.t5 import beam, decoding, scoring
from hypertf.t5 import inputs as model_inputs
from hypertf.t5.config import T5Config
from hypertf.t5.layer import Layer
from hypertf.t5.products import project, project_on_rows
from hypertf.t5.sites import StackSites
from hypertf.t5.stacks import Stack, mask_bias
from hypertf.t5.weights import add_weight, normal


@tf.custom_gradient
def _embed(table, tokens):
    """Rows of the table, with a dense gradient.

    The sparse one that TensorFlow would make is joined with the head's dense one
    as a sparse one of all rows, which is slower than adding them.
    """

    def gradient(upstream):
        rows = tf.reshape(upstream, [-1, table.shape[1]])
        tokens_of_rows = tf.reshape(tokens, [-1])
        return tf.math.unsorted_segment_sum(rows, tokens_of_rows, table.shape[0]), None

    return tf.gather(table, tokens), gradient


class Embedding(Layer):
    """The table that encoder and decoder share, and the head too when tied."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config

    def build(self, input_shape=None):
        dims = {"vocab": self.config.vocab_size, "d_model": self.config.d_model}
        self.embedding = add_weight(self, "embedding", dims, normal(1.0))
        self.built = True

    def call(self, tokens):
        """[batch, length] -> [batch, length, d_model]."""
        x = _embed(self.embedding.value, ops.cast(tokens, "int32"))
        return ops.cast(x, self.compute_dtype)

    def logits(self, x):
        """x [batch, length, d_model] times the table, scaled as T5 1.0 does."""
        x = x * ops.cast(self.config.d_model**-0.5, x.dtype)
        return project_on_rows(x, self.embedding)


@keras.saving.register_keras_serializable("hypertf")
class T5(keras.Model):
    """The text-to-text transformer, plain or with a conditioner.

    ```python
    model = hypertf.T5(hypertf.T5Config.from_name("t5-nano"))
    logits = model({
        "encoder_tokens": [[8, 9, 1]],  # 0 is padding
        "decoder_tokens": [[0, 5]],  # the targets, shifted right
    })  # [batch, target length, vocab]
    ids = model.generate({"encoder_tokens": [[8, 9, 1]]}, max_length=8)
    ```

    With a conditioner, `task_ids` [batch] names each example's task; a batch may
    mix them. Packed rows, several examples in one, are told apart by the optional
    `encoder_segment_ids`, `encoder_positions`, `decoder_segment_ids` and
    `decoder_positions`; segment 0 is padding.

    Token ids are checked when they are at hand. Inside a compiled function they are
    not: there an id outside the vocabulary is an error of the lookup on CPU, and
    reads some other row on TPU.

    `rematerialize` computes the blocks again in the backward pass of training: a
    large model then needs memory for one block's inner values, and a third more time.
    """

    def __init__(
        self, config, conditioner=None, seed=None, rematerialize=False, **kwargs
    ):
        super().__init__(autocast=False, **kwargs)
        self.config = T5Config(**config) if isinstance(config, dict) else config
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        policy = {"dtype": self.dtype_policy}
        self.shared = Embedding(self.config, name="shared", **policy)
        self.rematerialize = rematerialize
        parts = (self.config, self.seed_generator)
        options = {"rematerialize": rematerialize, **policy}
        self.encoder = Stack(*parts, name="encoder", **options)
        self.decoder = Stack(*parts, decoder=True, name="decoder", **options)
        self.conditioner = conditioner
        # Past Keras's tracking: compiled functions are no part of the model's state.
        self.__dict__["_compiled"] = {}
        self.build()

    def build(self, input_shape=None):
        # The largest weights first: the others take the memory these have freed.
        for layer in (self.shared, self.decoder, self.encoder, self.conditioner):
            if layer is not None and not layer.built:
                layer.build()
        self.built = True
        if self.conditioner is not None:
            self.conditioner.choose_trainable(self)

    def __call__(self, inputs, **kwargs):
        inputs = model_inputs.arrays(inputs)
        self.check(inputs, required=("encoder_tokens", "decoder_tokens"))
        return super().__call__(inputs, **kwargs)

    def call(self, inputs, training=False):
        memory, memory_mask = self.encode(inputs, training)
        sites = self.decoder_sites(inputs, memory, memory_mask, training)
        segments = inputs.get("decoder_segment_ids")
        memory_visible = memory_mask[:, None]
        if segments is not None:
            memory_visible = _same(segments, inputs["encoder_segment_ids"])
        x = self.decoder(
            self.shared(inputs["decoder_tokens"]),
            sites=sites,
            token_mask=None if segments is None else segments > 0,
            visible=None if segments is None else _same(segments, segments),
            positions=inputs.get("decoder_positions"),
            memory=memory,
            memory_bias=mask_bias(memory_visible),
            training=training,
        )
        return self.logits(x[:, sites.num_tokens :])

    def check(self, inputs, required):
        """Raises one clear error on bad input; see `hypertf.t5.inputs`."""
        optional = ["task_ids"]
        if "decoder_tokens" in required:
            optional += model_inputs.PACKED
        if self.conditioner is not None:
            optional.remove("task_ids")
            required = (*required, "task_ids")
        num_tasks = self.conditioner and self.conditioner.num_tasks
        model_inputs.check(
            inputs, required, optional, self.config.vocab_size, num_tasks
        )
        self._check_packing(inputs)

    def _check_packing(self, inputs):
        given = [name for name in model_inputs.PACKED if inputs.get(name) is not None]
        if given and self.conditioner is not None:
            raise ValueError(
                f"inputs: {given[0]!r} packs several examples in a row, but a "
                "conditioner needs one task per row"
            )
        if given and len(given) < len(model_inputs.PACKED):
            missing = sorted(set(model_inputs.PACKED) - set(given))
            raise ValueError(
                f"inputs: packed rows need all of {', '.join(model_inputs.PACKED)}; "
                f"missing {', '.join(missing)}"
            )

    def encode(self, inputs, training=False):
        """The encoder's output [batch, length, d_model] and its mask."""
        return self._encode(inputs, self.encoder_sites(inputs, training), training)

    def _encode(self, inputs, sites, training):
        tokens = inputs["encoder_tokens"]
        segments = inputs.get("encoder_segment_ids")
        mask = tokens > 0 if segments is None else segments > 0
        x = self.encoder(
            self.shared(tokens),
            sites=sites,
            token_mask=mask,
            visible=None if segments is None else _same(segments, segments),
            positions=inputs.get("encoder_positions"),
            training=training,
        )
        if sites.num_tokens:
            extra = ((0, 0), (sites.num_tokens, 0))
            mask = ops.pad(mask, extra, constant_values=True)
        return x, mask

    def encoder_sites(self, inputs, training=False):
        plain = StackSites.plain(self.config.num_encoder_layers)
        if self.conditioner is None:
            return plain
        return self.conditioner.encoder(
            inputs["task_ids"],
            training,
            first_pass=lambda sites=plain: self._encode(inputs, sites, training),
        )

    def decoder_sites(self, inputs, memory, memory_mask, training=False):
        if self.conditioner is None:
            return StackSites.plain(self.config.num_decoder_layers)
        return self.conditioner.decoder(
            inputs["task_ids"], memory, memory_mask, training
        )

    def logits(self, x):
        """The decoder's output [batch, length, d_model] -> [batch, length, vocab]."""
        if self.config.tie_embeddings:
            logits = self.shared.logits(x)
        else:
            logits = project(x, self.decoder.logits.kernel)
        return ops.cast(logits, "float32")

    def generate(
        self,
        inputs,
        max_length,
        beam_size=1,
        *,
        length_penalty=0.6,
        beam_style="t5",
        temperature=0.0,
        top_k=0,
        top_p=1.0,
        num_sequences=1,
        seed=None,
        return_scores=False,
    ):
        """Writes up to `max_length` tokens for each example.

        Greedy by default; `beam_size` above 1 searches, `temperature` above 0
        samples (among the `top_k` likeliest, or those that make up the mass
        `top_p`; repeatable for a `seed`).

        ```python
        model.generate({"encoder_tokens": [[8, 9, 1]]}, max_length=8, beam_size=4)
        ```

        Returns ids [batch, max_length], 0 after the end token 1; with
        `num_sequences` above 1, [batch, num_sequences, max_length], best first for
        beams. `return_scores` adds the rows' log probabilities, for beams divided
        by the length penalty ((5 + n) / 6)^length_penalty. `beam_style` is `"t5"`,
        `"t5-full"`, `"huggingface"` or `"huggingface-never"`; `hypertf.t5.beam`
        says how they differ.
        """
        options = decoding.Options(
            max_length=max_length,
            beam_size=beam_size,
            length_penalty=float(length_penalty),
            beam_style=beam_style,
            temperature=float(temperature),
            top_k=top_k,
            top_p=float(top_p),
            num_sequences=num_sequences,
            return_scores=bool(return_scores),
        )
        inputs = self._prepared(inputs, required=("encoder_tokens",))
        if seed is None:
            seed = random.randrange(2**31)  # what keras.utils.set_random_seed governs
        seed = ops.cast(seed, "int64")
        ids, scores = self._function("generate", options)(inputs, seed)
        return (ids, scores) if return_scores else ids

    def score(self, inputs):
        """Log-likelihood of the targets, for rank classification.

        ```python
        model.score({"encoder_tokens": [[8, 9, 1]], "targets": [[5, 1]]})  # [batch]
        ```

        `targets` [batch, length] gives [batch]; several choices per example,
        [batch, choices, length], give [batch, choices] and are encoded once.
        """
        inputs = self._prepared(inputs, required=("encoder_tokens", "targets"))
        return self._function("score", None)(inputs)

    def _prepared(self, inputs, required):
        """Checked int32 tensors: one compiled function whatever integers come."""
        inputs = model_inputs.arrays(inputs)
        self.check(inputs, required)
        return {
            name: ops.cast(value, "int32")
            for name, value in inputs.items()
            if value is not None
        }

    def _function(self, kind, options):
        """The compiled function of `kind` and options, made at the first use."""
        if (kind, options) not in self._compiled:
            run = functools.partial(_RUN[kind], self, options)
            function = tf.function(run, jit_compile=True, autograph=False)
            self._compiled[kind, options] = function
        return self._compiled[kind, options]

    def get_config(self):
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "conditioner": keras.saving.serialize_keras_object(self.conditioner),
            "seed": self.seed,
            "rematerialize": self.rematerialize,
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        conditioner = config.pop("conditioner", None)
        if conditioner is not None:
            conditioner = keras.saving.deserialize_keras_object(conditioner)
        return cls(conditioner=conditioner, **config)


def _same(query_segments, key_segments):
    """Which keys each query sees in packed rows: [batch, query, key]."""
    return query_segments[:, :, None] == key_segments[:, None, :]


def _generate(model, options, inputs, seed):
    if options.beam_size > 1:
        ids, scores = beam.search(model, inputs, options)
    else:
        ids, scores = decoding.sample(model, inputs, options, seed)
    if options.num_sequences == 1:
        return ids[:, 0], scores[:, 0]
    return ids[:, : options.num_sequences], scores[:, : options.num_sequences]


def _score(model, _, inputs):
    return scoring.log_likelihood(model, inputs)


_RUN = {"generate": _generate, "score": _score}
