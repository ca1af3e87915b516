"""The systems that are measured: one class each, the same four operations.

Every method returns a function that runs the operation once and waits for it. Each
peer runs as its makers ship it; KerasHub also without XLA, which is faster on some
machines.
"""

import keras
import numpy as np
import tensorflow as tf

import hypertf


class TensorFlowSystem:
    """What the systems on TensorFlow share. `inputs`, `model`, `optimizer`, `loss`."""

    jit = False

    def __init__(self, workload):
        self.workload = workload
        w = workload
        self.source = w.tokens(w.batch, w.input_length, 0)
        self.decoder_tokens = w.tokens(w.batch, w.target_length, 1)
        self.targets = tf.constant(w.tokens(w.batch, w.target_length, 2))
        self.build()

    def compiled(self, function):
        return tf.function(function, jit_compile=self.jit, autograph=False)

    def forward(self):
        inputs = self.inputs()
        run = self.compiled(lambda: self.model(inputs, training=False))
        return lambda: run().numpy()

    def gradient(self):
        variables = self.model.trainable_variables
        run = self.compiled(lambda: self._gradients(variables))
        return lambda: run()[0].numpy()

    def training_step(self):
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

    def __init__(self, workload, method="none", num_tasks=8, **options):
        self.method = (method, num_tasks, options)
        super().__init__(workload)

    def build(self):
        name, num_tasks, options = self.method
        config = self.workload.config
        conditioner = hypertf.conditioning.create(name, config, num_tasks, **options)
        self.model = hypertf.T5(config, conditioner=conditioner)
        task_ids = np.arange(self.workload.batch) % num_tasks
        self.task_ids = tf.constant(task_ids, tf.int32)
        never_end(self.model.shared.embedding)
        self.optimizer = hypertf.Adafactor()
        self.loss = hypertf.training.T5Loss()

    def inputs(self):
        inputs = {
            "encoder_tokens": tf.constant(self.source),
            "decoder_tokens": tf.constant(self.decoder_tokens),
        }
        if self.model.conditioner is not None:
            inputs["task_ids"] = self.task_ids
        return inputs

    def decode(self, batch):
        inputs = {"encoder_tokens": self.source[:batch]}
        if self.model.conditioner is not None:
            inputs["task_ids"] = self.task_ids.numpy()[:batch]
        length = self.workload.decode_length
        return lambda: self.model.generate(inputs, length).numpy()


class KerasHub(TensorFlowSystem):
    """KerasHub's `T5Seq2SeqLM` with Keras's Adafactor."""

    def build(self):
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

    def inputs(self):
        return {
            "encoder_token_ids": tf.constant(self.source),
            "encoder_padding_mask": tf.ones_like(self.source),
            "decoder_token_ids": tf.constant(self.decoder_tokens),
            "decoder_padding_mask": tf.ones_like(self.decoder_tokens),
        }

    def decode(self, batch):
        length = self.workload.decode_length + 1  # its start token counts
        first = np.eye(1, length, dtype="int32").repeat(batch, axis=0)
        inputs = {
            "encoder_token_ids": self.source[:batch],
            "encoder_padding_mask": np.ones_like(self.source[:batch]),
            "decoder_token_ids": np.zeros_like(first),
            "decoder_padding_mask": first,
        }
        return lambda: self.model.generate(inputs, stop_token_ids=None)


class KerasHubXLA(KerasHub):
    """As KerasHub compiles by default."""

    jit = True


class HuggingFace:
    """`T5ForConditionalGeneration` on torch, with torch's Adafactor."""

    def __init__(self, workload):
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

    def forward(self):
        def run():
            with self.torch.no_grad():
                self.model.eval()
                self.model(input_ids=self.source, decoder_input_ids=self.decoder_tokens)

        return run

    def gradient(self):
        def run():
            self.model.train()
            self.model.zero_grad()
            self._loss().backward()

        return run

    def training_step(self):
        optimizer = self.torch.optim.Adafactor(self.model.parameters(), lr=1e-3)

        def run():
            self.model.train()
            optimizer.zero_grad()
            self._loss().backward()
            optimizer.step()

        return run

    def decode(self, batch):
        source, length = self.source[:batch], self.workload.decode_length

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


def never_end(embedding):
    """Random weights must not stop early: the end token gets no likelihood."""
    rows = embedding.numpy()
    rows[1] = 0.0
    embedding.assign(rows)
