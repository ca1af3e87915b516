"""The places where a method may change T5.

The blocks know no method. Each of them is given a `Sites`, whose base class below
does nothing and costs nothing; a method overrides what it uses:

| site | what it changes |
|---|---|
| `keys_values` | extra keys and values in self-attention |
| `after_attention`, `after_ffn` | a sublayer's output, before the residual |
| `beside_ffn` | what is added beside the feed-forward |
| `norm_scale` | the scale of the norm before a sublayer |
| `kernels`, `project` | the product with a kernel |
| `observe` | reads the stream inside the block, for `project` |

Extra tokens before a stack's input belong to the stack: `StackSites.tokens`.

A `Sites` with values is a dataclass, and all it holds are its fields:

    @dataclasses.dataclass(frozen=True)
    class Shift(Sites):
        by: object  # [batch, 1, d_model]: each example's own
        factor: float = shared()  # the same for all examples

        def after_ffn(self, y, training):
            return y + self.factor * self.by

A field holds tensors, or a nest of dicts, lists, tuples and other `Sites` of them.
Unless it is declared `shared()`, their first axis is the batch. Whoever takes a `Sites`
apart does so with `map_tensors`: rematerialisation, which hands all tensors to the
block as inputs, so that gradients reach who made them; and baking, which keeps a table
of each example's values by task, and the shared ones as they are. A shared field may
also hold what is no tensor: a number, a name, a Keras layer.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import keras
import tensorflow as tf

from hypertf.t5.products import project
from hypertf.types import Tensor

if TYPE_CHECKING:
    from hypertf.t5.packing import Segments

SHARED = "shared"
SUBLAYERS = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}
STACKS = tuple(SUBLAYERS)
OF_MEMORY = ("cross_k", "cross_v")  # kernels that multiply the encoder's output


def shared(**options: Any) -> Any:
    """Declares a field of a `Sites` whose value is the same for all examples."""
    return dataclasses.field(metadata={SHARED: True}, **options)


class Sites:
    """What is done inside one block. This base class leaves T5 as it is."""

    # Kernels whose product goes through `project`: any of q k v o wi wi_0 wi_1 wo, and
    # of cross-attention cross_q cross_k cross_v cross_o, which get what was observed at
    # "attention".
    kernels: frozenset[str] = frozenset()

    def uses(self, site: str) -> bool:
        """Whether anything is done at `site`, the name of one of the methods below."""
        return getattr(type(self), site) is not getattr(Sites, site)

    def keys_values(self) -> tuple[Tensor, Tensor] | None:
        """Keys and values [batch, heads, extra, d_kv] put before the real ones."""
        return None

    def observe(self, x: Tensor, place: str) -> Any:
        """Reads the stream x [batch, length, d_model] at a place of the block.

        `place` is `"input"` (before self-attention) or `"attention"` (after it, the
        residual added). What it returns, a nest of tensors with the batch in front,
        is handed to `project` for the kernels that follow. In cached decoding it is
        called once, on the stack's extra tokens, and kept.
        """
        return None

    def project(self, name: str, x: Tensor, kernel: Tensor, observed: Any) -> Tensor:
        """The product of x [batch, length, in] with the kernel `name`.

        Attention asks for q, k and v together, if one of them is in `kernels`.
        """
        return project(x, kernel)

    def folded(self, name: str, kernel: Tensor) -> Tensor | None:
        """The kernel [in, out] whose plain product is what `project` computes.

        Asked of sites made for one example, with a kernel whose name is in `kernels`.
        None says that there is no such kernel; see `hypertf.export.bake`.
        """
        return None

    def after_attention(self, y: Tensor, training: bool) -> Tensor:
        """What becomes of self-attention's output y before dropout and residual."""
        return y

    def after_ffn(self, y: Tensor, training: bool) -> Tensor:
        """What becomes of the feed-forward's output y before dropout and residual."""
        return y

    def beside_ffn(self, x: Tensor, normed: Tensor, training: bool) -> Tensor | None:
        """What to add to the stream beside the FFN, after its dropout.

        x [batch, length, d_model] is the stream, normed what the FFN reads of it.
        """
        return None

    def norm_scale(self, sublayer: str) -> Tensor | None:
        """The scale [batch, 1, d_model] of the norm before `sublayer`, None for T5's.

        `sublayer` is `"self_attention"`, `"cross_attention"` or `"feed_forward"`.
        """
        return None

    def by_segment(self, segments: "Segments") -> Self:
        """These sites for packed rows; asked of sites of [rows * segments] examples.

        Sites that hold nothing of single examples and observe nothing serve packed
        rows as they are; others say here how each segment gets its own.
        """
        own = [f.name for f in _fields(self) if not f.metadata.get(SHARED)]
        if self.uses("observe") or own:
            raise NotImplementedError(
                f"{type(self).__name__} does not tell the segments of a packed row "
                "apart, expected a by_segment of its own"
            )
        return self


PLAIN = Sites()


@dataclasses.dataclass(frozen=True)
class StackSites:
    """What is done in one stack: extra input tokens, and a `Sites` per block.

    `tokens` [batch, extra, d_model] come before the embedded input and count as
    positions. `num_keys` is the static length of every block's `keys_values`; they
    sit at positions `-num_keys..-1`, so that no real distance changes. `norm_scale`
    [batch, 1, d_model] takes the place of the final norm's scale.

    In packed rows there are `key_copies` of each extra key, one for every segment, and
    as many of each extra token; see `hypertf.t5.packing`.
    """

    blocks: tuple[Sites, ...]
    tokens: Any = None
    num_keys: int = shared(default=0)
    norm_scale: Any = None
    key_copies: int = shared(default=1)

    def __post_init__(self) -> None:
        for block in self.blocks:
            check(block)

    @classmethod
    def plain(cls, num_layers: int) -> "StackSites":
        """Nothing is done in any of `num_layers` blocks."""
        return cls(blocks=(PLAIN,) * num_layers)

    @property
    def num_tokens(self) -> int:
        return 0 if self.tokens is None else self.tokens.shape[1]


def check(sites: Sites) -> None:
    """Refuses sites that hold values where nobody who takes them apart would look."""
    kind = type(sites).__name__
    if not isinstance(sites, Sites):
        raise TypeError(f"{sites!r} in place of a block's sites, expected a Sites")
    fields = {f.name: f for f in _fields(sites)}
    hidden = [name for name in getattr(sites, "__dict__", ()) if name not in fields]
    if hidden:
        raise TypeError(
            f"{kind} holds {', '.join(hidden)} outside the fields of a dataclass, "
            "where baking and rematerialisation do not look; expected a subclass of "
            "Sites declared with @dataclasses.dataclass(frozen=True)"
        )
    for name, field in fields.items():
        if not field.metadata.get(SHARED):
            _check_per_example(getattr(sites, name), f"{kind}.{name}")


def _check_per_example(value: Any, path: str) -> None:
    if isinstance(value, Sites):
        check(value)
    elif (inner := _inner(value)) is not None:
        for key, each in inner:
            _check_per_example(each, f"{path}[{key!r}]")
    elif value is not None and not (is_tensor(value) and len(value.shape)):
        raise TypeError(
            f"{path} is {value!r}, expected tensors with the batch in front; declare "
            "what is the same for all examples with hypertf.t5.shared()"
        )


def map_tensors(function: Callable, value: Any, is_shared: bool = False) -> Any:
    """Sites, or a nest of them, with `function(tensor, is_shared)` for each tensor.

    It walks dicts, lists, tuples and dataclasses in a fixed order; `is_shared` says
    whether the field that holds the tensor is. What is no tensor stays.

    ```python
    from hypertf.t5 import map_tensors

    shapes = []
    sites = hypertf.t5.StackSites((), tokens=np.zeros((8, 4, 16)))
    map_tensors(lambda x, is_shared: shapes.append((x.shape, is_shared)), sites)
    ```
    """

    def leaf(value: Any, is_shared: bool) -> Any:
        return function(value, is_shared) if is_tensor(value) else value

    return _map(leaf, value, is_shared)


def map_parts(of_tensor: Callable, of_layer: Callable, value: Any) -> Any:
    """As `map_tensors`, with a function for each Keras layer that is held too."""

    def leaf(value: Any, _: bool) -> Any:
        if is_tensor(value):
            return of_tensor(value)
        return of_layer(value) if isinstance(value, keras.layers.Layer) else value

    return _map(leaf, value, False)


def _map(leaf: Callable, value: Any, is_shared: bool) -> Any:
    if is_tensor(value):
        return leaf(value, is_shared)
    if isinstance(value, dict):
        return {k: _map(leaf, v, is_shared) for k, v in value.items()}
    if isinstance(value, list | tuple):
        inner = [_map(leaf, v, is_shared) for v in value]
        return type(value)(*inner) if hasattr(value, "_fields") else type(value)(inner)
    changed = {
        f.name: _map(
            leaf,
            getattr(value, f.name),
            is_shared or bool(f.metadata.get(SHARED)),
        )
        for f in _fields(value)
    }
    return dataclasses.replace(value, **changed) if changed else leaf(value, is_shared)


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor, an array or a variable."""
    return tf.is_tensor(value) or isinstance(value, keras.Variable) or _is_array(value)


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "shape")


def _fields(value: Any) -> tuple[dataclasses.Field, ...]:
    is_instance = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return dataclasses.fields(value) if is_instance else ()


def _inner(value: Any) -> list[tuple] | None:
    """Pairs of key and value of what a container holds, None for other values."""
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list | tuple) else None
