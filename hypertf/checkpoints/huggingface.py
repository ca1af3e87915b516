"""Hugging Face folders: `config.json` beside one or several safetensors files.

A `Linear` weight is [out, in] there, and the relative bias [buckets, heads]: both
are ours transposed.
"""

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from hypertf.checkpoints import safetensors_file
from hypertf.checkpoints.reader import Reader
from hypertf.checkpoints.rules import (
    ATTENTION,
    CONDITIONER,
    FEED_FORWARD,
    FINAL_NORM,
    NORM,
    Rule,
    translate,
)
from hypertf.checkpoints.safetensors_file import SafetensorsFile
from hypertf.checkpoints.values import blocks, described, grouped
from hypertf.t5 import T5
from hypertf.t5.config import T5Config
from hypertf.t5.weights import named_weights

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
CONFIG = "config.json"

_SUBLAYER = "{stack}.block.{block}.layer.{layer}."
_EMBEDDING = (
    "shared.weight",
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
)
_HEAD = "lm_head.weight"
_RULES = (
    Rule(NORM, (_SUBLAYER + "layer_norm.weight",)),
    Rule(FINAL_NORM, ("{stack}.final_layer_norm.weight",)),
    Rule(
        ATTENTION + "(?P<part>q|k|v|o|relative_attention_bias)",
        (_SUBLAYER + "{kind}.{part}.weight",),
        transpose=True,
    ),
    Rule(FEED_FORWARD, (_SUBLAYER + "DenseReluDense.{part}.weight",), transpose=True),
    Rule(CONDITIONER + ".*", ("{name}",)),
)
# Kept by the published T5 1.0 files, although cross-attention has no bias.
_UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"

# What each T5Config field is called, and its value where config.json leaves it out.
_FIELDS = {
    "vocab_size": ("vocab_size", None),
    "d_model": ("d_model", None),
    "d_ff": ("d_ff", None),
    "num_heads": ("num_heads", None),
    "d_kv": ("d_kv", None),
    "num_encoder_layers": ("num_layers", None),
    "num_decoder_layers": ("num_decoder_layers", None),
    "dropout_rate": ("dropout_rate", 0.1),
    "num_buckets": ("relative_attention_num_buckets", 32),
    "max_distance": ("relative_attention_max_distance", 128),
}
_ACTIVATIONS = {
    ("relu", False): "relu",
    ("gelu_new", True): "gated-gelu",
    ("gelu_pytorch_tanh", True): "gated-gelu",
}


def rules(config: T5Config, head: str = _HEAD) -> Sequence[Rule]:
    """Returns the rules for a T5Config; a tied head is another name of the table."""
    embedding = (*_EMBEDDING, _HEAD) if config.tie_embeddings else _EMBEDDING
    return (
        Rule("shared/embedding", embedding),
        Rule("decoder/logits/kernel", (head,), transpose=True),
        *_RULES,
    )


class HuggingFaceReader(Reader):
    """A folder, or one safetensors file with `config.json` beside it."""

    format = "Hugging Face"
    looked_for = f"{WEIGHTS} or {INDEX} (Hugging Face)"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.folder = path if os.path.isdir(path) else os.path.dirname(path)
        self._files = {}  # {tensor name: the file that has it}
        for file in map(SafetensorsFile, _weight_files(path)):
            self._files.update(dict.fromkeys(file.tensors, file))
            self.tensors.update(file.tensors)

    @classmethod
    def recognises(cls, path: str) -> bool:
        """Tells whether a path is a folder or a file with safetensors."""
        if path.endswith(".safetensors"):
            return os.path.isfile(path)
        return any(os.path.isfile(os.path.join(path, f)) for f in (WEIGHTS, INDEX))

    def config(self) -> T5Config | None:
        """Reads the T5Config of `config.json`, or gives None where there is none."""
        path = os.path.join(self.folder, CONFIG)
        return read_config(path) if os.path.isfile(path) else None

    def rules(self, config: T5Config) -> Sequence[Rule]:
        """Returns the rules for a model of this T5Config."""
        head = _HEAD
        if _HEAD not in self.tensors and self._is_tied_without_scale():
            head = _EMBEDDING[0]
        return rules(config, head)

    def _is_tied_without_scale(self):
        """Transformers 5 leaves the head of an untied T5 tied until it is trained."""
        path = os.path.join(self.folder, CONFIG)
        if not os.path.isfile(path):
            return False
        config = read_json(path)
        return config.get("tie_word_embeddings") is True and _is_untied(config)

    def is_unused(self, name: str) -> bool:
        """Tells whether no T5 reads a tensor that published files keep."""
        return name == _UNUSED

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        """Reads rows of a tensor."""
        return self._files[name].read(name, start, stop)


def _weight_files(path):
    if not os.path.isdir(path):
        return [path]
    if os.path.isfile(os.path.join(path, WEIGHTS)):
        return [os.path.join(path, WEIGHTS)]
    names = sorted(set(read_json(os.path.join(path, INDEX))["weight_map"].values()))
    missing = [n for n in names if not os.path.isfile(os.path.join(path, n))]
    if missing:
        raise ValueError(f"{path}: {INDEX} names absent files: {', '.join(missing)}")
    return [os.path.join(path, name) for name in names]


def read_json(path: str) -> dict[str, Any]:
    """Reads a JSON file; what is not JSON is an error that names the file."""
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} is not JSON: {error}") from error


def read_config(path: str) -> T5Config:
    """Reads the T5Config of a `config.json`."""
    config = read_json(path)
    if config.get("model_type", "t5") not in ("t5", "mt5"):
        raise ValueError(f"{path}: model_type={config['model_type']!r}, expected 't5'")
    epsilon = config.get("layer_norm_epsilon", 1e-6)
    if epsilon != 1e-6:
        raise ValueError(f"{path}: layer_norm_epsilon={epsilon}, expected 1e-06")
    values = {k: config.get(n, default) for k, (n, default) in _FIELDS.items()}
    if values["num_decoder_layers"] is None:
        values["num_decoder_layers"] = values["num_encoder_layers"]
    missing = [_FIELDS[field][0] for field, v in values.items() if v is None]
    if missing:
        raise ValueError(f"{path} does not give {', '.join(missing)}")
    return T5Config(
        **values,
        activation=_activation(config, path),
        tie_embeddings=not _is_untied(config),
    )


def _is_untied(config):
    # Transformers 5 always says tie_word_embeddings, and keeps the real choice here.
    tied = config.get("tie_word_embeddings", True)
    return not config.get("scale_decoder_outputs", tied)


def _activation(config, path):
    projection = config.get("feed_forward_proj", "relu")
    function = "gelu_new" if projection == "gated-gelu" else projection.split("-")[-1]
    function = config.get("dense_act_fn", function)
    gated = config.get("is_gated_act", projection.startswith("gated-"))
    if (function, gated) not in _ACTIVATIONS:
        raise ValueError(
            f"{path}: feed_forward_proj={projection!r} (dense_act_fn={function!r}, "
            f"is_gated_act={gated}), expected 'relu' or 'gated-gelu'"
        )
    return _ACTIVATIONS[function, gated]


def write(model: T5, folder: str, dtype: str, max_shard_size: int) -> None:
    """Writes the model's weights and `config.json` into an empty folder."""
    weights = {}  # {their name: (variable, dtype, transpose)}
    for name, variable in named_weights(model).items():
        names, transpose = translate(name, rules(model.config))
        weights[names[0]] = variable, dtype, transpose
    tensors = {name: described(*weights[name]) for name in sorted(weights)}
    shards = _shards(tensors, max_shard_size)
    for file, names in shards.items():
        safetensors_file.write(
            os.path.join(folder, file),
            {name: tensors[name] for name in names},
            lambda name: blocks(*weights[name]),
        )
    if len(shards) > 1:
        _write_json(os.path.join(folder, INDEX), _index(tensors, shards))
    _write_json(os.path.join(folder, CONFIG), to_json(model.config, dtype))


def _shards(tensors, max_shard_size):
    """`{file: [tensor names]}`."""
    groups = grouped({n: t.nbytes for n, t in tensors.items()}, max_shard_size)
    if len(groups) == 1:
        return {WEIGHTS: groups[0]}
    count = len(groups)
    return {
        f"model-{i:05d}-of-{count:05d}.safetensors": group
        for i, group in enumerate(groups, start=1)
    }


def _index(tensors, shards):
    return {
        "metadata": {"total_size": sum(tensor.nbytes for tensor in tensors.values())},
        "weight_map": {name: file for file, names in shards.items() for name in names},
    }


def _write_json(path, values):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(values, file, indent=2)
        file.write("\n")


def to_json(config: T5Config, dtype: str = "float32") -> dict[str, Any]:
    """Gives what `transformers` wants to read of a T5Config."""
    values = {name: getattr(config, field) for field, (name, _) in _FIELDS.items()}
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        **values,
        "feed_forward_proj": config.activation,
        "dense_act_fn": "gelu_new" if config.gated else "relu",
        "is_gated_act": config.gated,
        "tie_word_embeddings": config.tie_embeddings,
        "layer_norm_epsilon": 1e-6,
        "initializer_factor": 1.0,
        "is_encoder_decoder": True,
        "use_cache": True,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        "torch_dtype": dtype,
    }
