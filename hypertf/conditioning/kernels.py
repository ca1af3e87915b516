"""The kernels of a block by name, for methods that change some of them."""

from collections.abc import Iterable

from hypertf.t5 import T5Config

SELF_ATTENTION = ("q", "k", "v", "o")
CROSS_ATTENTION = ("cross_q", "cross_k", "cross_v", "cross_o")  # in the decoder only
FEED_FORWARD = ("wi", "wo")
KERNELS = (*SELF_ATTENTION, *CROSS_ATTENTION, *FEED_FORWARD)


def site_names(kernels: Iterable[str], config: T5Config, stack: str) -> tuple[str, ...]:
    """The names that the sites of a stack use for some of `KERNELS`.

    `wi` stands for both of a gated FFN; the encoder has no cross-attention.

    >>> config = T5Config.from_name("t5.1.1-small")
    >>> site_names(("q", "cross_q", "wi"), config, "encoder")
    ('q', 'wi_0', 'wi_1')
    """
    gated = {"wi": ("wi_0", "wi_1")} if config.gated else {}
    absent = CROSS_ATTENTION if stack == "encoder" else ()
    kernels = (kernel for kernel in kernels if kernel not in absent)
    return tuple(name for kernel in kernels for name in gated.get(kernel, (kernel,)))


def kernel_dims(name: str, config: T5Config) -> tuple[dict[str, int], dict[str, int]]:
    """Inputs and outputs of a kernel, each `{dimension: size}`."""
    d_model = {"d_model": config.d_model}
    is_attention = name in (*SELF_ATTENTION, *CROSS_ATTENTION)
    inner = {"heads": config.d_heads} if is_attention else {"d_ff": config.d_ff}
    return (inner, d_model) if name.endswith("o") else (d_model, inner)
