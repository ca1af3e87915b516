"""A model whose weights are stored in the shapes that serving reads them in.

Training keeps a weight for each of the paper's; a server wants few, large products.
Kernels that are used side by side are joined. What else is done is for TensorFlow's own
products on CPU, and was measured there with one row and with eight:

- A tied head gets a kernel of its own: with the table's rows the product takes three
  times as long from two rows on.
- The decoder's wo, which has more rows than columns, is laid out transposed: a third
  less time with one row.
"""

import keras

from hypertf.t5 import T5


def arrange(model: T5, xla: bool = False) -> list[keras.Variable]:
    """Rearranges the weights of a model that is not to be trained any more, in place.

    Returns what was added: weights of the model's functions that `model.weights` does
    not list. With `xla` layouts are left to the compiler.
    """
    # A loop would take for every block what the first one keeps.
    model.encoder.loop_layers = model.decoder.loop_layers = False
    added = []
    for block in (*model.encoder.blocks, *model.decoder.blocks):
        added.append(block.self_attention.layer.keep_joined("qkv"))
        if block.cross_attention is not None:
            added.append(block.cross_attention.layer.keep_joined("kv"))
    if xla:
        return added
    for block in model.decoder.blocks:
        added.append(block.feed_forward.layer.wo.keep_transposed())
    if model.config.tie_embeddings:
        added.append(model.shared.keep_head())
    return added
