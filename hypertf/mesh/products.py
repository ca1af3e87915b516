"""The products of a T5 with its kernels, by named dimensions."""

import dataclasses

from hypertf.mesh.activations import Extra, Sizes, stack_lengths
from hypertf.mesh.tensors import Named
from hypertf.t5 import T5Config


@dataclasses.dataclass(frozen=True)
class Product:
    """y = x times a kernel; kernels that share x give several y.

    Attributes:
        x: what is multiplied.
        y: the result of one kernel.
        kernel: the kernel's dimensions.
        kernels: how many there are; their gradients for x are added up on each device
            before anything is sent.
        count: how often the model has it.
        in_block: whether a rematerialised block computes it twice.
        has_gradient: whether x has one; token ids have none.
    """

    x: Named
    y: Named
    kernel: tuple[str, str]
    kernels: int = 1
    count: int = 1
    in_block: bool = True
    has_gradient: bool = True

    @property
    def name(self) -> str:
        """The name of the layer."""
        return self.y.name


class _Stack:
    """Makes the products of one stack."""

    def __init__(self, name: str, config: T5Config, sizes: Sizes, layers: int):
        self.name, self.sizes, self.layers = name, sizes, layers
        self.widths = {
            "d_model": config.d_model,
            "heads": config.d_heads,
            "d_ff": config.d_ff,
            "vocab": config.vocab_size,
        }

    def product(
        self, part: str, inward: str, outward: str, length: int, **options: int | bool
    ) -> Product:
        """The product that turns a width, such as d_model, into another."""

        def tensor(dim: str) -> Named:
            shape = (self.sizes.batch_size, length, self.widths[dim])
            dims = ("batch", "length", dim)
            return Named(f"{self.name} {part}", dims, shape, self.sizes.itemsize)

        options.setdefault("count", self.layers)
        return Product(tensor(inward), tensor(outward), (inward, outward), **options)

    def attention(self, part: str, length: int, memory: int | None = None):
        """Queries, keys, values and output; keys and values may be of a memory."""
        separate = [] if memory is None else [(memory, 2)]
        inward = [(length, 3 if memory is None else 1), *separate]
        return [
            *(self.product(part, "d_model", "heads", n, kernels=k) for n, k in inward),
            self.product(part, "heads", "d_model", length),
        ]


def products(config: T5Config, sizes: Sizes, extra: dict[str, Extra]) -> list[Product]:
    """Lists the products of the forward pass."""
    lengths, found = stack_lengths(sizes, extra), []
    layers = (config.num_encoder_layers, config.num_decoder_layers)
    tokens = (sizes.inputs_length, sizes.targets_length)
    once = {"count": 1, "in_block": False}
    for name, number, real in zip(lengths, layers, tokens, strict=True):
        stack, length = _Stack(name, config, sizes, number), lengths[name]
        found.append(
            # A row is looked up by the device that has it: a product with one-hot ids.
            stack.product(
                "embedding", "vocab", "d_model", real, has_gradient=False, **once
            )
        )
        found += stack.attention("self-attention", length)
        if name == "decoder":
            found += stack.attention("cross-attention", length, lengths["encoder"])
        gated = 2 if config.gated else 1
        found += [
            stack.product("feed-forward", "d_model", "d_ff", length, kernels=gated),
            stack.product("feed-forward", "d_ff", "d_model", length),
        ]
    return [*found, stack.product("logits", "d_model", "vocab", real, **once)]
