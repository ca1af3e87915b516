"""The shape of a T5: a dataclass, and the published sizes by name."""

import dataclasses
from typing import Any, Self

from hypertf.names import unknown

ACTIVATIONS = ("relu", "gated-gelu")


@dataclasses.dataclass(frozen=True)
class T5Config:
    """Sizes and options of one T5.

    ```python
    config = hypertf.T5Config.from_name("t5-base")
    config = hypertf.T5Config.from_name("t5.1.1-small", dropout_rate=0.0)
    ```

    `activation` is `"relu"` (T5 1.0) or `"gated-gelu"` (1.1, tanh form).
    `tie_embeddings` reads the logits off the embedding table and scales the
    decoder's output by `d_model ** -0.5` first, as 1.0 does; without it the head
    has its own kernel and there is no scale, as in 1.1. `dropout_rate` is the rate
    of fine-tuning, for the 1.1 sizes too, although they were pretrained at 0.
    `shared_dropout` draws once for all positions of a row, as Mesh TensorFlow does;
    without it every element has a draw of its own, as in Hugging Face's T5.
    """

    vocab_size: int
    d_model: int
    d_ff: int
    num_heads: int
    d_kv: int
    num_encoder_layers: int
    num_decoder_layers: int
    activation: str = "relu"
    tie_embeddings: bool = True
    dropout_rate: float = 0.1
    shared_dropout: bool = True
    num_buckets: int = 32
    max_distance: int = 128

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.type in (int, "int"):
                self._require_positive(field.name)
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"T5Config: activation={self.activation!r}, expected one of "
                f"{', '.join(map(repr, ACTIVATIONS))}"
            )
        if not 0.0 <= self.dropout_rate < 1.0:
            raise ValueError(
                f"T5Config: dropout_rate={self.dropout_rate}, expected 0 <= rate < 1"
            )
        # Half the buckets of the encoder serve each direction, and half of those
        # are exact: the logarithmic ones need a distance beyond them.
        if self.num_buckets % 4 or self.max_distance <= self.num_buckets // 2:
            raise ValueError(
                f"T5Config: num_buckets={self.num_buckets}, max_distance="
                f"{self.max_distance}, expected num_buckets divisible by 4 and "
                "max_distance above num_buckets / 2"
            )

    def _require_positive(self, name):
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"T5Config: {name}={value!r}, expected an integer >= 1")

    @property
    def gated(self) -> bool:
        """Whether the feed-forward multiplies two products, as in T5 1.1."""
        return self.activation == "gated-gelu"

    @property
    def d_heads(self) -> int:
        """Width of all heads together; need not equal `d_model`."""
        return self.num_heads * self.d_kv

    @classmethod
    def from_name(cls, name: str, **overrides: Any) -> Self:
        """Returns the published size `name`, with any field replaced by `overrides`."""
        if name not in _SIZES:
            raise ValueError(unknown("T5 size", name, _SIZES))
        return dataclasses.replace(_SIZES[name], **overrides)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields by name, as `T5Config(**fields)` takes them."""
        return dataclasses.asdict(self)


def _size(layers, d_model, d_ff, num_heads, d_kv, **options):
    return T5Config(
        vocab_size=options.pop("vocab_size", 32128),  # 32,100 pieces, padded to 128
        d_model=d_model,
        d_ff=d_ff,
        num_heads=num_heads,
        d_kv=d_kv,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        **options,
    )


_V1_1 = {"activation": "gated-gelu", "tie_embeddings": False}

_SIZES = {
    "t5-small": _size(6, 512, 2048, 8, 64),
    "t5-base": _size(12, 768, 3072, 12, 64),
    "t5-large": _size(24, 1024, 4096, 16, 64),
    "t5-3b": _size(24, 1024, 16384, 32, 128),
    "t5-11b": _size(24, 1024, 65536, 128, 128),
    "t5.1.1-small": _size(8, 512, 1024, 6, 64, **_V1_1),
    "t5.1.1-base": _size(12, 768, 2048, 12, 64, **_V1_1),
    "t5.1.1-large": _size(24, 1024, 2816, 16, 64, **_V1_1),
    "t5.1.1-xl": _size(24, 2048, 5120, 32, 64, **_V1_1),
    "t5.1.1-xxl": _size(24, 4096, 10240, 64, 64, **_V1_1),
    # Small enough to learn from scratch on two cores.
    "t5-nano": _size(2, 128, 512, 4, 32, vocab_size=1024, dropout_rate=0.0),
}
