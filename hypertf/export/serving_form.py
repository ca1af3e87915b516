"""A model whose weights are stored in the shapes that serving reads them in.

Training keeps a weight for each of the paper's; a server wants few, large products.
Kernels that are used side by side are joined, and a tied head gets a kernel of its own:
on CPU the product with the table's rows takes three times as long from two rows on.
"""

import keras

from hypertf.t5 import T5


def arrange(model: T5) -> list[keras.Variable]:
    """Rearranges the weights of a model that is not to be trained any more, in place.

    Returns what was added: weights of the model's functions that `model.weights` does
    not list.
    """
    added = []
    for block in (*model.encoder.blocks, *model.decoder.blocks):
        added.append(block.self_attention.layer.keep_joined("qkv"))
        if block.cross_attention is not None:
            added.append(block.cross_attention.layer.keep_joined("kv"))
    if model.config.tie_embeddings:
        added.append(model.shared.keep_head())
    return added
