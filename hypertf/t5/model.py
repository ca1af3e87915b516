"""T5 as a Keras model: encoder, decoder, logits, and the conditioner's place."""

import functools
import random
from collections.abc import Sequence
from typing import Any, Self

import keras
import tensorflow as tf
from keras import ops

from hypertf.t5 import beam, decoding, scoring, target
from hypertf.t5 import inputs as model_inputs
from hypertf.t5.conditioner import Conditioner
from hypertf.t5.config import T5Config
from hypertf.t5.embedding import Embedding
from hypertf.t5.inputs import (
    DECODER_TOKENS,
    ENCODER_TOKENS,
    INDEX,
    PACKED,
    TARGETS,
    TASK_IDS,
)
from hypertf.t5.packing import mode_of, packed_rows
from hypertf.t5.products import cast_once, project
from hypertf.t5.sites import StackSites
from hypertf.t5.stacks import Stack, mask_bias
from hypertf.types import Batch, Tensor


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
    `decoder_positions`; segment 0 is padding. `task_ids` may then be [rows, segments],
    a task for each example in the row, if the conditioner `packs` rows that mix tasks.

    Token ids are checked when they are at hand. Inside a compiled function they are
    not: there an id outside the vocabulary is an error of the lookup on CPU, and
    reads some other row on TPU.

    `rematerialize` computes the blocks again in the backward pass of training: a
    large model then needs memory for one block's inner values, and a third more time.
    `loop_layers` runs blocks that are alike as a loop: the same results and weights,
    and a deep model compiles in the time of one block.
    """

    def __init__(
        self,
        config: T5Config | dict[str, Any],
        conditioner: Conditioner | None = None,
        seed: int | None = None,
        rematerialize: bool = False,
        loop_layers: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.config = T5Config(**config) if isinstance(config, dict) else config
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        policy = {"dtype": self.dtype_policy}
        self.shared = Embedding(self.config, name="shared", **policy)
        self.rematerialize = rematerialize
        parts = (self.config, self.seed_generator)
        self.loop_layers = loop_layers
        options = {"rematerialize": rematerialize, "loop_layers": loop_layers, **policy}
        self.encoder = Stack(*parts, name="encoder", **options)
        self.decoder = Stack(*parts, decoder=True, name="decoder", **options)
        self.conditioner = conditioner
        # Past Keras's tracking: compiled functions are no part of the model's state.
        self.__dict__["_compiled"] = {}
        self.build()

    def build(self, input_shape: Any = None) -> None:
        # The largest weights first: the others take the memory these have freed.
        for layer in (self.shared, self.decoder, self.encoder, self.conditioner):
            if layer is not None and not layer.built:
                layer.build()
        self.built = True
        if self.conditioner is not None:
            self.conditioner.choose_trainable(self)

    def __call__(self, inputs: Batch, **kwargs: Any) -> Tensor:
        """Checks the inputs, and runs the model on them."""
        inputs = model_inputs.arrays(inputs)
        self.check(inputs, required=(ENCODER_TOKENS, DECODER_TOKENS))
        return super().__call__(inputs, **kwargs)

    def call(self, inputs: Batch, training: bool = False) -> Tensor:
        """Computes logits [batch, target length, vocab]."""
        tokens = inputs[ENCODER_TOKENS], inputs[DECODER_TOKENS]
        embedded, x, table = self.shared.rows_and_table(*tokens)
        sites = self.encoder_sites(inputs, training)
        memory, memory_mask = self._encode(inputs, sites, training, embedded)
        sites = self.decoder_sites(inputs, memory, memory_mask, training)
        packed, told = packed_rows(inputs, "decoder"), {}
        memory_visible = ops.expand_dims(memory_mask, 1)
        if packed is not None:
            told = packed.arguments(sites)
            memory_visible = packed.memory_visible(sites, memory)
        x = self.decoder(
            x,
            sites=sites,
            **told,
            memory=memory,
            memory_bias=mask_bias(memory_visible),
            training=training,
        )
        return self.logits(x[:, sites.num_tokens :, :], table, training)

    def check(self, inputs: Batch, required: Sequence[str]) -> None:
        """Raises one clear error on bad input; see `hypertf.t5.inputs`."""
        optional = [TASK_IDS]
        if DECODER_TOKENS in required:
            optional += PACKED
            if mode_of(inputs):
                optional.append(INDEX)
        if self.conditioner is not None:
            optional.remove(TASK_IDS)
            required = (*required, TASK_IDS)
        num_tasks = self.conditioner and self.conditioner.num_tasks
        model_inputs.check(
            inputs, required, optional, self.config.vocab_size, num_tasks
        )
        self._check_packing(inputs)

    def _check_packing(self, inputs):
        mode = mode_of(inputs)
        if mode is None:
            return
        missing = sorted(name for name in PACKED if inputs.get(name) is None)
        if missing:
            raise ValueError(
                f"inputs: packed rows need all of {', '.join(PACKED)}; "
                f"missing {', '.join(missing)}"
            )
        if self.conditioner is not None and mode not in self.conditioner.packs:
            raise ValueError(self.conditioner.packs_in_words(mode))

    def encode(self, inputs: Batch, training: bool = False) -> tuple[Tensor, Tensor]:
        """Computes the encoder's output [batch, length, d_model] and its mask."""
        return self._encode(inputs, self.encoder_sites(inputs, training), training)

    def _encode(self, inputs, sites, training, embedded=None):
        tokens = inputs[ENCODER_TOKENS]
        x = self.shared(tokens) if embedded is None else embedded
        packed, told = packed_rows(inputs, "encoder"), {"token_mask": tokens > 0}
        if packed is not None:
            told = packed.arguments(sites)
        x = self.encoder(x, sites=sites, **told, training=training)
        mask = told["token_mask"]
        if sites.num_tokens:
            extra = ((0, 0), (sites.num_tokens, 0))
            mask = ops.pad(mask, extra, constant_values=True)
        return x, mask

    def encoder_sites(self, inputs: Batch, training: bool = False) -> StackSites:
        """Asks the conditioner, if there is one, what to change in the encoder."""
        plain = StackSites.plain(self.config.num_encoder_layers)
        if self.conditioner is None:
            return plain
        packed, task_ids = packed_rows(inputs, "encoder"), inputs[TASK_IDS]
        if packed is None:
            return self.conditioner.encoder(
                task_ids,
                training,
                first_pass=lambda sites=plain: self._encode(inputs, sites, training),
            )
        if not self._is_by_segment("encoder", inputs):
            return packed.with_copies(self.conditioner.encoder(task_ids, training))

        def first_pass(sites: StackSites = plain) -> tuple[Tensor, Tensor]:
            x, _ = self._encode(inputs, packed.join(sites), training)
            return x, packed.masks(packed.ids, x)

        task_ids = packed.task_ids(task_ids)
        return packed.join(self.conditioner.encoder(task_ids, training, first_pass))

    def decoder_sites(
        self, inputs: Batch, memory: Tensor, memory_mask: Tensor, training: bool = False
    ) -> StackSites:
        """Asks the conditioner, if there is one, what to change in the decoder."""
        if self.conditioner is None:
            return StackSites.plain(self.config.num_decoder_layers)
        packed, task_ids = packed_rows(inputs, "decoder"), inputs[TASK_IDS]
        make = self.conditioner.decoder
        if packed is None:
            return make(task_ids, memory, memory_mask, training)
        if not self._is_by_segment("decoder", inputs):
            return packed.with_copies(make(task_ids, memory, memory_mask, training))
        masks = packed.masks(packed.memory, memory)
        sites = make(packed.task_ids(task_ids), memory, masks, training)
        return packed.join(sites, memory)

    def _is_by_segment(self, stack, inputs):
        """Whether the conditioner has to be asked for every segment of packed rows."""
        return mode_of(inputs) == "mixed" or stack in self.conditioner.reads_input

    def logits(
        self, x: Tensor, table: Tensor | None = None, training: bool = False
    ) -> Tensor:
        """Reads logits [batch, length, vocab] off the decoder's output.

        `table` is what the embedding gave out beside its rows, by default its weight.
        """
        if self.config.tie_embeddings:
            logits = self.shared.logits(x, table, training)
        else:
            kernel = self.decoder.logits.kernel
            logits = project(x, cast_once(kernel, x.dtype) if training else kernel)
        return ops.cast(logits, "float32")

    def generate(
        self,
        inputs: Batch,
        max_length: int,
        beam_size: int = 1,
        *,
        length_penalty: float = 0.6,
        beam_style: str = "t5",
        min_length: int = 0,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        num_sequences: int = 1,
        seed: int | None = None,
        return_scores: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Writes `min_length` to `max_length` tokens for each example.

        The end token counts. Greedy by default; `beam_size` above 1 searches,
        `temperature` above 0 samples (among the `top_k` likeliest, or those that
        make up the mass `top_p`; repeatable for a `seed`).

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
            min_length=min_length,
            temperature=float(temperature),
            top_k=top_k,
            top_p=float(top_p),
            num_sequences=num_sequences,
            return_scores=bool(return_scores),
        )
        inputs = self._prepared(inputs, required=(ENCODER_TOKENS,))
        if seed is None:
            seed = random.randrange(2**31)  # what keras.utils.set_random_seed governs
        seed = ops.cast(seed, "int64")
        ids, scores = self._function("generate", options)(inputs, seed)
        return (ids, scores) if return_scores else ids

    def score(self, inputs: Batch) -> Tensor:
        """Computes the log-likelihood of the targets, for rank classification.

        ```python
        model.score({"encoder_tokens": [[8, 9, 1]], "targets": [[5, 1]]})  # [batch]
        ```

        `targets` [batch, length] gives [batch]; several choices per example,
        [batch, choices, length], give [batch, choices] and are encoded once.
        """
        inputs = self._prepared(inputs, required=(ENCODER_TOKENS, TARGETS))
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

    def export(self, filepath: str, *args: Any, **kwargs: Any) -> None:
        """Exports the forward pass as Keras does: tokens in, logits out, any shape.

        `hypertf.export.save` makes what answers text.
        """
        names = [ENCODER_TOKENS, DECODER_TOKENS]
        specs = {n: keras.InputSpec("int32", shape=(None, None), name=n) for n in names}
        if self.conditioner is not None:
            specs[TASK_IDS] = keras.InputSpec("int32", shape=(None,), name=TASK_IDS)
        kwargs.setdefault("input_signature", [specs])
        with target.tracing_for(xla=False, gradients=False):
            super().export(filepath, *args, **kwargs)

    def quantize(self, *args: Any, **kwargs: Any) -> None:
        """Refuses: weights are quantised when a model is exported."""
        raise NotImplementedError(
            "T5.quantize: its kernels are no Keras Dense layers; expected "
            "hypertf.export.save(..., quantize='int8'), which stores weights as int8"
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "conditioner": keras.saving.serialize_keras_object(self.conditioner),
            "seed": self.seed,
            "rematerialize": self.rematerialize,
            "loop_layers": self.loop_layers,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes a model of what `get_config` returned."""
        config = dict(config)
        conditioner = config.pop("conditioner", None)
        if conditioner is not None:
            conditioner = keras.saving.deserialize_keras_object(conditioner)
        return cls(conditioner=conditioner, **config)


def generate_ids(
    model: T5, options: decoding.Options, inputs: Batch, seed: Tensor
) -> tuple[Tensor, Tensor]:
    """Writes ids [batch, max_length] and their scores, in whatever graph it is traced.

    With `num_sequences` above 1, [batch, num_sequences, max_length].
    """
    if options.beam_size > 1:
        ids, scores = beam.search(model, inputs, options)
    else:
        ids, scores = decoding.sample(model, inputs, options, seed)
    if options.num_sequences == 1:
        return ids[:, 0], scores[:, 0]
    return ids[:, : options.num_sequences], scores[:, : options.num_sequences]


def _score(model, _, inputs):
    return scoring.log_likelihood(model, inputs)


_RUN = {"generate": generate_ids, "score": _score}
