"""HyperGrid's whole T5 in numpy: slow, one example at a time, from the equations."""

import itertools

import numpy as np

import hypertf
from hypertf.t5.relative_bias import buckets


class Naive:
    """The whole model in numpy, one example at a time, from the equations."""

    def __init__(self, model):
        self.model, self.config = model, model.config
        self.options = model.conditioner.options
        self.weights = {
            name: weight.numpy().astype("float64")
            for name, weight in hypertf.t5.named_weights(model).items()
        }

    def run(self, tokens, decoder_tokens, task):
        """The encoder's output and the logits."""
        embedding = self.weights["shared/embedding"]
        x = np.stack([self.task_vector("encoder", task), *embedding[tokens]])
        for i in range(self.config.num_encoder_layers):
            x = self.block("encoder", i, x)
        memory = rms_norm(x, self.weights["encoder/rms_norm/scale"])
        x = np.stack([self.task_vector("decoder", task), *embedding[decoder_tokens]])
        for i in range(self.config.num_decoder_layers):
            x = self.block("decoder", i, x, memory)
        x = rms_norm(x, self.weights["decoder/rms_norm/scale"])[1:]
        if self.config.tie_embeddings:
            return memory, x @ embedding.T * self.config.d_model**-0.5
        return memory, x @ self.weights["decoder/logits/kernel"]

    def task_vector(self, stack, task):
        own = f"conditioner/{stack}_task_embedding"
        if self.options.task_embedding == "shared":
            own = "conditioner/task_embedding"
        return self.weights[own][task]

    def block(self, stack, i, x, memory=None):
        """[1 + length, d_model], the task token first."""

        def weight(name):
            return self.weights[f"{stack}/block_{i:03d}/{name}"]

        before = x[0]
        y = rms_norm(x, weight("layer_000/rms_norm/scale"))
        q, k, v = (
            y @ self.gated(stack, i, n, weight(f"layer_000/SelfAttention/{n}"), before)
            for n in "qkv"
        )
        y = self.attend(q, k, v, self.bias(stack, len(x)))
        x = x + y @ weight("layer_000/SelfAttention/o")
        after = x[0]  # T' of eq. 6, in the stream
        if memory is not None:
            y = rms_norm(x, weight("layer_001/rms_norm/scale"))
            q = y @ weight("layer_001/EncDecAttention/q")
            k, v = (memory @ weight(f"layer_001/EncDecAttention/{n}") for n in "kv")
            y = self.attend(q, k, v, np.zeros((self.config.num_heads, len(x), len(k))))
            x = x + y @ weight("layer_001/EncDecAttention/o")
        ffn = f"layer_{1 if memory is None else 2:03d}"
        y = rms_norm(x, weight(f"{ffn}/rms_norm/scale"))

        def product(y, name):
            kernel = weight(f"{ffn}/DenseReluDense/{name}/kernel")
            return y @ self.gated(stack, i, name, kernel, after)

        if self.config.gated:
            hidden = gelu(product(y, "wi_0")) * product(y, "wi_1")
        else:
            hidden = np.maximum(product(y, "wi"), 0)
        return x + product(hidden, "wo")

    def bias(self, stack, length):
        """[heads, query, key]"""
        name = f"{stack}/block_000/layer_000/SelfAttention/relative_attention_bias"
        bias = np.zeros((self.config.num_heads, length, length))
        for query, key in itertools.product(range(length), repeat=2):
            bucket = buckets(np.array(key - query), stack == "encoder", 32, 128)
            bias[:, query, key] = self.weights[name][:, bucket]
            if stack == "decoder" and key > query:
                bias[:, query, key] = -np.inf
        return bias

    def attend(self, q, k, v, bias):
        heads, d_kv = self.config.num_heads, self.config.d_kv
        out = np.zeros((len(q), heads * d_kv))
        for head in range(heads):
            part = slice(head * d_kv, (head + 1) * d_kv)
            logits = q[:, part] @ k[:, part].T + bias[head]
            weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
            out[:, part] = weights / weights.sum(-1, keepdims=True) @ v[:, part]
        return out

    def gated(self, stack, i, name, kernel, token):
        """The kernel of this example."""
        placement = {
            "second": ["wo"],
            "first": ["wi", "wi_0", "wi_1"],
            "both": ["wi", "wi_0", "wi_1", "wo"],
            "all": ["q", "k", "v", "wi", "wi_0", "wi_1", "wo"],
        }
        if name not in placement[self.options.placement]:
            return kernel
        path = f"conditioner/{stack}_block_{i:03d}_{name}/"
        weights = {
            key.removeprefix(path): value
            for key, value in self.weights.items()
            if key.startswith(path)
        }
        gates = naive_gates(self.options, weights, token)
        expanded = np.zeros_like(kernel)  # psi
        for row, column in np.ndindex(*kernel.shape):
            cell_row = row * gates.shape[0] // kernel.shape[0]
            cell_column = column * gates.shape[1] // kernel.shape[1]
            expanded[row, column] = gates[cell_row, cell_column]
        residual = self.options.residual
        if residual is None:
            residual = self.options.variant != "output"
        return expanded * kernel + (kernel if residual else 0)


def naive_gates(options, weights, token):
    """[d_r, d_c]: eq. 2 (L), 3 (L2), 4 (LG), 5 (GL), 8 (output) and section 6.5."""
    variant = options.variant
    if variant in ("L", "output"):
        if options.axis == "columns":
            return sigmoid(token @ weights["local_columns"])[None, :]
        return sigmoid(token @ weights["local_rows"])[:, None]
    if variant == "LG":
        return sigmoid(
            np.outer(token @ weights["local_rows"], weights["global_columns"])
        )
    if variant == "GL":
        return sigmoid(
            np.outer(weights["global_rows"], token @ weights["local_columns"])
        )
    logits = np.outer(token @ weights["local_rows"], token @ weights["local_columns"])
    if variant == "scalar" and options.pool == "logits":
        return sigmoid(logits.mean(keepdims=True))
    if variant == "scalar":
        return sigmoid(logits).mean(keepdims=True)
    return sigmoid(logits)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def rms_norm(x, scale):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale
