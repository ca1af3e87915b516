"""The systems that are measured: one class each, the same four operations.

All get the same `Workload`.

Every method returns a function that runs the operation once and waits for it. Each
peer runs as its makers ship it; KerasHub also without XLA, which is faster on some
machines.
"""

import dataclasses
from collections.abc import Callable
from typing import Protocol

import keras
import numpy as np
import tensorflow as tf

import hypertf

Operation = Callable[[], object]  # runs once and waits for the end


@dataclasses.dataclass(frozen=True)
class Workload:
    """The batch that every system gets."""

    config: hypertf.T5Config
    batch: int = 8
    input_length: int = 128
    target_length: int = 16
    decode_length: int = 32

    def tokens(self, batch: int, length: int, seed: int) -> np.ndarray:
        """Draws ids [batch, length], int32, that are neither padding nor the end."""
        rng = np.random.default_rng(seed)
        return rng.integers(2, self.config.vocab_size, (batch, length)).astype("int32")


class System(Protocol):
    """What every system can be asked for."""

    def forward(self) -> Operation:
        """Makes an operation that computes the logits of a batch."""

    def gradient(self) -> Operation:
        """Makes one that computes the loss of a batch and its gradients."""

    def training_step(self) -> Operation:
        """Makes one that also updates the weights."""

    def decode(self, batch: int, length: int | None = None) -> Operation:
        """Makes one that decodes so many rows greedily, so far or as the workload."""


class TensorFlowSystem:
    """What the systems on TensorFlow share. `inputs`, `model`, `optimizer`, `loss`."""

    jit = False

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        w = workload
        self.source = w.tokens(w.batch, w.input_length, 0)
        self.decoder_tokens = w.tokens(w.batch, w.target_length, 1)
        self.targets = tf.constant(w.tokens(w.batch, w.target_length, 2))
        self.build()

    def compiled(self, function: Callable) -> Callable:
        """Compiles a function to one graph, by XLA if `jit`."""
        return tf.function(function, jit_compile=self.jit, autograph=False)

    def forward(self) -> Operation:
        """Makes an operation that computes the logits of a batch."""
        inputs = self.inputs()
        run = self.compiled(lambda: self.model(inputs, training=False))
        return lambda: run().numpy()

    def gradient(self) -> Operation:
        """Makes one that computes the loss of a batch and its gradients."""
        variables = self.model.trainable_variables
        run = self.compiled(lambda: self._gradients(variables))
        return lambda: run()[0].numpy()

    def training_step(self) -> Operation:
        """Makes one that also updates the weights."""
        variables = self.model.trainable_variables
        self.optimizer.build(variables)

        def step():
            loss, gradients = self._gradients(variables)
            self.optimizer.apply(gradients, variables)
            return loss

        run = self.compiled(step)
        return lambda: run().numpy()

    def _gradients(self, variables):
        with tf.GradientTape() as tape:
            logits = self.model(self.inputs(), training=True)
            loss = self.loss(self.targets, logits)
        return loss, tape.gradient(loss, [v.value for v in variables])


class Hypertf(TensorFlowSystem):
    """hypertf, plain or with the conditioner called `method`."""

    def __init__(
        self,
        workload: Workload,
        method: str = "none",
        num_tasks: int = 8,
        **options: object,
    ) -> None:
        self.method = (method, num_tasks, options)
        super().__init__(workload)

    def build(self) -> None:
        """Makes the model, the optimizer and the loss."""
        name, num_tasks, options = self.method
        config = self.workload.config
        conditioner = hypertf.conditioning.create(name, config, num_tasks, **options)
        self.model = hypertf.T5(config, conditioner=conditioner)
        task_ids = np.arange(self.workload.batch) % num_tasks
        self.task_ids = tf.constant(task_ids, tf.int32)
        never_end(self.model.shared.embedding)
        self.optimizer = hypertf.Adafactor()
        self.loss = hypertf.training.T5Loss()

    def inputs(self) -> dict[str, tf.Tensor]:
        """Returns what the model is called with."""
        inputs = {
            "encoder_tokens": tf.constant(self.source),
            "decoder_tokens": tf.constant(self.decoder_tokens),
        }
        if self.model.conditioner is not None:
            inputs["task_ids"] = self.task_ids
        return inputs

    def decode(self, batch: int, length: int | None = None) -> Operation:
        """Makes one that decodes so many rows greedily, so far or as the workload."""
        w, length = self.workload, length or self.workload.decode_length
        inputs = {"encoder_tokens": w.tokens(batch, w.input_length, 0)}
        if self.model.conditioner is not None:
            inputs["task_ids"] = np.resize(self.task_ids.numpy(), batch)
        return lambda: self.model.generate(inputs, length).numpy()


class HypertfXLA(Hypertf):
    """The same compiled by XLA, as `score` and `generate` run it everywhere."""

    jit = True


class KerasHub(TensorFlowSystem):
    """KerasHub's `T5Seq2SeqLM` with Keras's Adafactor."""

    def build(self) -> None:
        """Makes the model, the optimizer and the loss."""
        import keras_hub

        c = self.workload.config
        backbone = keras_hub.models.T5Backbone(
            vocabulary_size=c.vocab_size,
            num_layers=c.num_encoder_layers,
            num_heads=c.num_heads,
            hidden_dim=c.d_model,
            intermediate_dim=c.d_ff,
            key_value_dim=c.d_kv,
            dropout=c.dropout_rate,
            activation="gelu" if c.gated else "relu",
            use_gated_activation=c.gated,
            tie_embedding_weights=c.tie_embeddings,
        )
        self.model = keras_hub.models.T5Seq2SeqLM(backbone)
        self.model.compile(sampler="greedy", jit_compile=self.jit)
        never_end(backbone.token_embedding.embeddings)
        self.optimizer = keras.optimizers.Adafactor(learning_rate=1e-3)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def inputs(self) -> dict[str, tf.Tensor]:
        """Returns what the model is called with."""
        return {
            "encoder_token_ids": tf.constant(self.source),
            "encoder_padding_mask": tf.ones_like(self.source),
            "decoder_token_ids": tf.constant(self.decoder_tokens),
            "decoder_padding_mask": tf.ones_like(self.decoder_tokens),
        }

    def decode(self, batch: int, length: int | None = None) -> Operation:
        """Makes one that decodes so many rows greedily, so far or as the workload."""
        w = self.workload
        length = (length or w.decode_length) + 1  # its start token counts
        first = np.eye(1, length, dtype="int32").repeat(batch, axis=0)
        source = w.tokens(batch, w.input_length, 0)
        inputs = {
            "encoder_token_ids": source,
            "encoder_padding_mask": np.ones_like(source),
            "decoder_token_ids": np.zeros_like(first),
            "decoder_padding_mask": first,
        }
        return lambda: self.model.generate(inputs, stop_token_ids=None)


class KerasHubXLA(KerasHub):
    """As KerasHub compiles by default."""

    jit = True


class HuggingFace:
    """`T5ForConditionalGeneration` on torch, with torch's Adafactor."""

    def __init__(self, workload: Workload) -> None:
        import torch
        import transformers

        c = workload.config
        self.torch, self.workload = torch, workload
        self.model = transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                vocab_size=c.vocab_size,
                d_model=c.d_model,
                d_kv=c.d_kv,
                d_ff=c.d_ff,
                num_layers=c.num_encoder_layers,
                num_decoder_layers=c.num_decoder_layers,
                num_heads=c.num_heads,
                dropout_rate=c.dropout_rate,
                feed_forward_proj=c.activation,
                tie_word_embeddings=c.tie_embeddings,
                decoder_start_token_id=0,
            )
        )
        w = workload
        self.source = self._tensor(w.tokens(w.batch, w.input_length, 0))
        self.decoder_tokens = self._tensor(w.tokens(w.batch, w.target_length, 1))
        self.targets = self._tensor(w.tokens(w.batch, w.target_length, 2))

    def _tensor(self, array):
        return self.torch.from_numpy(array.astype("int64"))

    def _loss(self):
        output = self.model(
            input_ids=self.source,
            decoder_input_ids=self.decoder_tokens,
            labels=self.targets,
        )
        return output.loss

    def forward(self) -> Operation:
        """Makes an operation that computes the logits of a batch."""

        def run():
            with self.torch.no_grad():
                self.model.eval()
                self.model(input_ids=self.source, decoder_input_ids=self.decoder_tokens)

        return run

    def gradient(self) -> Operation:
        """Makes one that computes the loss of a batch and its gradients."""

        def run():
            self.model.train()
            self.model.zero_grad()
            self._loss().backward()

        return run

    def training_step(self) -> Operation:
        """Makes one that also updates the weights."""
        optimizer = self.torch.optim.Adafactor(self.model.parameters(), lr=1e-3)

        def run():
            self.model.train()
            optimizer.zero_grad()
            self._loss().backward()
            optimizer.step()

        return run

    def decode(self, batch: int, length: int | None = None) -> Operation:
        """Makes one that decodes so many rows greedily, so far or as the workload."""
        w, length = self.workload, length or self.workload.decode_length
        source = self._tensor(w.tokens(batch, w.input_length, 0))

        def run():
            self.model.eval()
            ids = self.model.generate(
                input_ids=source,
                attention_mask=self.torch.ones_like(source),
                min_new_tokens=length,
                max_new_tokens=length,
                num_beams=1,
                do_sample=False,
            )
            assert ids.shape[1] == length + 1

        return run


def never_end(embedding: keras.Variable) -> None:
    """Takes the likelihood from the end token: random weights must not stop early."""
    rows = embedding.numpy()
    rows[1] = 0.0
    embedding.assign(rows)
