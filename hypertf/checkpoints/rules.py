"""Rules that translate the names of weights, as all formats use them.

hypertf names its weights as Mesh TensorFlow does, in Mesh's shapes. A format is a
list of rules from those names to its own. The same list serves import and export,
and a name without a rule is an error.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

# Weights of a hypernetwork, which a plain T5 checkpoint does not have.
CONDITIONER = "conditioner/"

STACK = r"(?P<stack>encoder|decoder)/"
SUBLAYER = STACK + r"block_(?P<block>\d+)/layer_(?P<layer>\d+)/"
ATTENTION = SUBLAYER + r"(?P<kind>SelfAttention|EncDecAttention)/"
FEED_FORWARD = SUBLAYER + r"DenseReluDense/(?P<part>wi|wi_0|wi_1|wo)/kernel"
NORM = SUBLAYER + "rms_norm/scale"
FINAL_NORM = STACK + "rms_norm/scale"


class Rule(NamedTuple):
    """Weights that match `pattern` go by any of `names` in a format.

    The names are templates over the pattern's groups, numbers without leading
    zeros, and `{name}`, the whole. The first is the one to write; where a
    checkpoint has several of them, they must hold the same values.
    """

    pattern: str
    names: tuple
    transpose: bool = False


class Translation(NamedTuple):
    """The names of one weight in a format, and whether its axes are swapped."""

    names: tuple
    transpose: bool


def translate(name: str, rules: Iterable[Rule]) -> Translation:
    """Applies the first rule that matches the whole of `name`.

    ```python
    rules = [Rule(NORM, ("{stack}.block.{block}.layer.{layer}.layer_norm.weight",))]
    translate("encoder/block_003/layer_000/rms_norm/scale", rules).names
    # ("encoder.block.3.layer.0.layer_norm.weight",)
    ```
    """
    for rule in rules:
        match = re.fullmatch(rule.pattern, name)
        if match:
            groups = {k: _plain_number(v) for k, v in match.groupdict().items()}
            names = tuple(t.format(name=name, **groups) for t in rule.names)
            return Translation(names, rule.transpose)
    raise ValueError(f"no rule translates the weight {name!r}")


def _plain_number(text):
    return int(text) if text.isdigit() else text
