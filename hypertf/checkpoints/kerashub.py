"""KerasHub presets of `T5Backbone`: `config.json` beside an HDF5 file, or several.

Keras names what it saves by class and order: the encoder's layers come first, then
the decoder's. Here they get their KerasHub names back.
"""

import os
import re
from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np

from hypertf.checkpoints.huggingface import CONFIG, read_json
from hypertf.checkpoints.reader import Reader, StoredTensor, numpy_type
from hypertf.checkpoints.rules import FINAL_NORM, STACK, SUBLAYER, Rule
from hypertf.t5.config import T5Config

WEIGHTS = "model.weights.h5"
INDEX = "model.weights.json"
CLASS = "T5Backbone"

_LAYER = "transformer_{stack}_layer_{block}/"
_SUBLAYERS = {
    "SelfAttention/q": "self_attention/query_projector",
    "SelfAttention/k": "self_attention/key_projector",
    "SelfAttention/v": "self_attention/value_projector",
    "SelfAttention/o": "self_attention/output_projector",
    "EncDecAttention/q": "cross_attention/query_projector",
    "EncDecAttention/k": "cross_attention/key_projector",
    "EncDecAttention/v": "cross_attention/value_projector",
    "EncDecAttention/o": "cross_attention/output_projector",
    "DenseReluDense/wi/kernel": "input_projector",
    "DenseReluDense/wi_0/kernel": "input_projector",
    "DenseReluDense/wi_1/kernel": "gate_projector",
    "DenseReluDense/wo/kernel": "output_projector",
}
_BLOCK = STACK + r"block_(?P<block>\d+)/"
RULES = (
    Rule("shared/embedding", ("token_embedding",)),
    Rule("decoder/logits/kernel", ("token_embedding/1",)),
    Rule(
        SUBLAYER + "SelfAttention/relative_attention_bias",
        (_LAYER + "self_attention",),
        transpose=True,
    ),
    *(Rule(SUBLAYER + k, (_LAYER + v,)) for k, v in _SUBLAYERS.items()),
    Rule(_BLOCK + "layer_000/rms_norm/scale", (_LAYER + "self_attention_layer_norm",)),
    Rule(
        r"(?P<stack>decoder)/block_(?P<block>\d+)/layer_001/rms_norm/scale",
        (_LAYER + "cross_attention_layer_norm",),
    ),
    Rule(SUBLAYER + "rms_norm/scale", (_LAYER + "layer_norm",)),
    Rule(FINAL_NORM, ("{stack}_output_layer_norm",)),
)


class KerasHubReader(Reader):
    """A folder as `T5Backbone.save_to_preset` writes it."""

    format = "KerasHub"
    looked_for = f"{CONFIG} with {WEIGHTS} or {INDEX} (KerasHub preset)"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._json = _read_backbone(path)
        self._datasets = {}
        self._files = []
        try:
            for file in _weight_files(path):
                self._files.append(_open(file))
                self._files[-1].visititems(self._add)
        except BaseException:
            self.close()
            raise

    def _add(self, path, item):
        if not isinstance(item, h5py.Dataset):
            return
        if item.external or item.is_virtual:
            raise ValueError(f"{self.path}: {path} keeps its values in another file")
        name = _kerashub_name(path, self._json["num_layers"])
        dtype = item.attrs.get("dtype", item.dtype.name)  # bfloat16 is marked so
        self._datasets[name] = item
        self.tensors[name] = StoredTensor(item.shape, dtype)

    @classmethod
    def recognises(cls, path: str) -> bool:
        """Tells whether a path is a preset's folder."""
        return os.path.isfile(os.path.join(path, CONFIG)) and any(
            os.path.isfile(os.path.join(path, name)) for name in (WEIGHTS, INDEX)
        )

    def config(self) -> T5Config:
        """Reads the T5Config of the preset."""
        return to_config(self._json, os.path.join(self.path, CONFIG))

    def rules(self, config: T5Config) -> Sequence[Rule]:
        """Returns the rules for a model of this T5Config."""
        return RULES

    def is_unused(self, name: str) -> bool:
        """Tells whether a tensor is the random state of dropout."""
        return "seed_generator" in name.split("/")  # of dropout, in older files

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        """Reads rows of a tensor."""
        dataset = self._datasets[name]
        rows = dataset[start:stop] if dataset.shape else dataset[()]
        if self.tensors[name].dtype == "bfloat16":
            rows = np.asarray(rows).view(numpy_type("bfloat16"))
        return rows

    def close(self) -> None:
        """Closes all files of the preset."""
        for file in self._files:
            file.close()


def _read_backbone(folder):
    path = os.path.join(folder, CONFIG)
    config = read_json(path)
    if config.get("class_name") != CLASS:
        raise ValueError(
            f"{path}: class_name={config.get('class_name')!r}, expected {CLASS!r}"
        )
    if "num_layers" not in config.get("config", {}):
        raise ValueError(f"{path} does not give num_layers")
    return config["config"]


def _open(path):
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"{path} is not a whole HDF5 file: {error}") from error


def _weight_files(folder):
    if os.path.isfile(os.path.join(folder, WEIGHTS)):
        return [os.path.join(folder, WEIGHTS)]
    files = set()
    for value in read_json(os.path.join(folder, INDEX))["weight_map"].values():
        files.update([value] if isinstance(value, str) else value)
    missing = [f for f in files if not os.path.isfile(os.path.join(folder, f))]
    if missing:
        missing = ", ".join(sorted(missing))
        raise ValueError(f"{folder}: {INDEX} names absent files: {missing}")
    return [os.path.join(folder, file) for file in sorted(files)]


def _kerashub_name(path, num_layers):
    """`layers/t5_transformer_layer_7/layer_norm/vars/0` by its KerasHub name.

    With 6 layers this is `transformer_decoder_layer_1/layer_norm`.
    """
    # Keras 2 wrote the longer word.
    path = re.sub("^(layers|_layer_checkpoint_dependencies)/", "", path)
    path = re.sub("/vars/0$", "", path).replace("/vars/", "/")
    kind, _, rest = path.partition("/")
    kind, number = re.fullmatch(r"(.*?)(?:_(\d+))?", kind).groups()
    number = int(number or 0)
    stack = "encoder" if number < num_layers else "decoder"
    if kind == "t5_transformer_layer":
        return f"transformer_{stack}_layer_{number % num_layers}/{rest}"
    if kind == "t5_layer_norm":
        return ("encoder", "decoder")[number] + "_output_layer_norm"
    if kind == "reversible_embedding":
        return "token_embedding" + (f"/{rest}" if rest else "")
    return path


def to_config(values: dict[str, Any], path: str) -> T5Config:
    """Reads the T5Config of a preset's `config.json`."""
    names = ("vocabulary_size", "hidden_dim", "intermediate_dim", "num_heads")
    missing = [name for name in names if name not in values]
    if missing:
        raise ValueError(f"{path} does not give {', '.join(missing)}")
    epsilon = values.get("layer_norm_epsilon", 1e-6)
    if epsilon != 1e-6:
        raise ValueError(f"{path}: layer_norm_epsilon={epsilon}, expected 1e-06")
    vocab_size, d_model, d_ff, num_heads = (values[name] for name in names)
    return T5Config(
        vocab_size=vocab_size,
        d_model=d_model,
        d_ff=d_ff,
        num_heads=num_heads,
        d_kv=values.get("key_value_dim") or d_model // num_heads,
        num_encoder_layers=values["num_layers"],
        num_decoder_layers=values["num_layers"],
        activation=_activation(values, path),
        tie_embeddings=values.get("tie_embedding_weights", True),
        dropout_rate=values.get("dropout", 0.1),
    )


def _activation(values, path):
    name = values.get("activation", "relu")
    gated = values.get("use_gated_activation", True)
    if isinstance(name, dict):  # a function that someone registered
        name = str(name.get("config"))
    # KerasHub's "gelu" is the erf form. It stands for T5's, which is the tanh form.
    if gated and "gelu" in name:
        return "gated-gelu"
    if not gated and name == "relu":
        return "relu"
    raise ValueError(
        f"{path}: activation={name!r}, use_gated_activation={gated}, expected 'relu' "
        "without a gate or 'gelu' with one"
    )
