"""Draws where each family of methods acts: one picture of a T5, places highlighted.

    python docs/draw_sites.py        # writes docs/pictures/<family>.svg

The picture is always the same: a block of the encoder on the left, one of the decoder
on the right, the stream going up. `FAMILIES` says which places a family uses; a test
compares that with what the code does.
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "pictures"
ATTENTION = ("q", "k", "v", "o")
ADAPTERS = {"after_attention", "after_ffn"}
ALL = {"tokens", "keys_values", "norm_scale", "observe", "beside_ffn", *ADAPTERS}
KERNELS = {*ATTENTION, "wi", "wo"}
CROSS = {f"cross_{name}" for name in ATTENTION}

# {picture: (methods drawn, places in the encoder, in the decoder, words below)}
FAMILIES = {
    "sites": (
        (),
        ALL | KERNELS,
        ALL | KERNELS | CROSS,
        ("All places where a method may act.",),
    ),
    "plain": (("none",), set(), set(), ("The plain T5: no place is used.",)),
    "hypergrid": (
        ("hypergrid",),
        {"tokens", "observe", "wo"},
        {"tokens", "observe", "wo"},
        (
            "One task token goes before the sequence. What self-attention makes of it",
            "writes the grid of gates over the kernel wo.",
        ),
    ),
    "hyperprompt": (
        ("hyperprompt-share", "hyperprompt-sep", "hyperprompt-global"),
        {"keys_values"},
        {"keys_values"},
        ("Hyper-prompts go before the keys and values of every self-attention.",),
    ),
    "adapters": (
        ("adapters",),
        ADAPTERS | {"norm_scale"},
        ADAPTERS | {"norm_scale"},
        (
            "Each task has its own adapters, and its own norms.",
            "adapters-shared-norm: the same places, T5's norms for all tasks.",
        ),
    ),
    "hyperformer": (
        ("adapters-shared-norm", "hyperformer", "hyperformer++"),
        ADAPTERS,
        ADAPTERS,
        ("Hypernetworks write the adapters, from the task.",),
    ),
    "hyperdecoder": (
        ("hyperdecoder",),
        {"beside_ffn"},
        {"beside_ffn", "pooled"},
        (
            "The encoder's adapters are trained. The decoder's are written by a",
            "hypernetwork that reads the mean of the encoder's output.",
        ),
    ),
    "parallel_adapters": (
        ("parallel-adapters", "task-hypernet"),
        {"beside_ffn"},
        {"beside_ffn"},
        ("Adapters beside the feed-forward, on the stream before its norm.",),
    ),
    "prompt_tuning": (
        ("prompt-tuning", "mpt"),
        {"tokens"},
        set(),
        ("The task's prompt goes before the embedded input of the encoder.",),
    ),
    "modular_skills": (
        ("modular-skills",),
        set(ATTENTION),
        {*ATTENTION, *CROSS},
        ("Low-rank skills are added to the kernels of all attention.",),
    ),
    "lora": (
        ("lora",),
        {"q", "v"},
        {"q", "v", "cross_q", "cross_v"},
        ("A low-rank product of each task is added to queries and values.",),
    ),
    "ia3": (
        ("ia3",),
        {"k", "v", "wo"},
        {"k", "v", "cross_k", "cross_v", "wo"},
        ("Keys, values and the feed-forward's hidden units are scaled.",),
    ),
}

INK, FAINT, PAPER, BOX = "#1f2933", "#9aa5b1", "#fbfbf9", "#e8edf2"
USED, USED_LINE = "#ffd27a", "#b35c00"
WIDTH, TOP, BASE = 800, 66, 560  # the stream starts at BASE and goes up
BRANCH = 152  # from the stream to the middle of the layers
SUBLAYERS = {
    "encoder": ("self-attention", "feed-forward"),
    "decoder": ("self-attention", "cross-attention", "feed-forward"),
}


def text(x, y, words, size=12, colour=INK, anchor="middle", weight="normal") -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}" font-weight="{weight}">{words}</text>'
    )


def box(x, y, width, height, words, used=None, size=12) -> str:
    """A box around (x, y); a place (`used` not None) is dashed while unused."""
    fill, line, colour, dashes = BOX, FAINT, INK, ""
    if used:
        fill, line = USED, USED_LINE
    elif used is not None:
        fill, colour, dashes = PAPER, FAINT, ' stroke-dasharray="3 3"'
    return (
        f'<rect x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width}" '
        f'height="{height}" rx="5" fill="{fill}" stroke="{line}"{dashes}/>'
        + text(x, f"{y + size * 0.35:g}", words, size, colour)
    )


def line(*points, colour=INK, arrow=True, dashes="") -> str:
    path = " L".join(f"{x:g} {y:g}" for x, y in points)
    end = f' marker-end="url(#{"used" if colour == USED_LINE else "ink"})"'
    dashes = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.4"'
        f"{dashes}{end if arrow else ''}/>"
    )


def place(used, *points) -> str:
    """The line to a place: orange where the place is used, else faint."""
    return line(*points, colour=USED_LINE if used else FAINT, arrow=bool(used))


def plus(x, y) -> str:
    return f'<circle cx="{x}" cy="{y}" r="9" fill="{PAPER}" stroke="{INK}"/>' + text(
        x, y + 5, "+", 15
    )


def kernels(x, y, names, used) -> str:
    """Small boxes of a layer's kernels, side by side."""
    first = x - 13 * (len(names) - 1)
    return "".join(
        box(first + 26 * i, y, 24, 17, name.removeprefix("cross_"), name in used, 11)
        for i, name in enumerate(names)
    )


def sublayer(name, x, bottom, used) -> tuple[str, int]:
    """Norm, layer and residual; returns the drawing and the height where it ends."""
    middle, parts = x + BRANCH, []
    adapter = {"self-attention": "after_attention", "feed-forward": "after_ffn"}
    names = {
        "self-attention": ATTENTION,
        "cross-attention": tuple(f"cross_{kernel}" for kernel in ATTENTION),
        "feed-forward": ("wi", "wo"),
    }[name]
    norm, layer, after = bottom - 12, bottom - 54, bottom - 98
    top = after - 24
    parts.append(line((x, bottom + 12), (middle, bottom + 12), (middle, norm + 11)))
    parts.append(box(middle, norm, 70, 20, "norm", "norm_scale" in used or None, 11))
    parts.append(line((middle, norm - 10), (middle, layer + 23)))
    parts.append(box(middle, layer, 140, 44, "", None))
    parts.append(text(middle, layer - 7, name))
    parts.append(kernels(middle, layer + 10, names, used))
    if name in adapter:
        parts.append(line((middle, layer - 22), (middle, after + 12)))
        parts.append(box(middle, after, 70, 20, "adapter", adapter[name] in used, 11))
        parts.append(line((middle, after - 10), (middle, top), (x + 10, top)))
    else:
        parts.append(line((middle, layer - 22), (middle, top), (x + 10, top)))
    if name == "self-attention":
        extra = "keys_values" in used
        parts.append(place(extra, (middle + 98, layer), (middle + 71, layer)))
        parts.append(box(middle + 124, layer, 52, 44, "", extra))
        for row, words in ((-8, "extra"), (5, "keys,"), (17, "values")):
            colour = INK if extra else FAINT
            parts.append(text(middle + 124, layer + row, words, 10, colour))
    if name == "feed-forward":
        beside = "beside_ffn" in used
        side = x - 48
        parts.append(
            place(beside, (x, bottom + 12), (side, bottom + 12), (side, layer + 12))
        )
        parts.append(place(beside, (side, layer - 12), (side, top), (x - 10, top)))
        parts.append(box(side, layer, 62, 22, "adapter", beside, 11))
    parts.append(plus(x, top))
    return "".join(parts), top


def stack(name, x, used) -> tuple[str, dict[str, tuple[int, int]]]:
    """One block, from its input to its output; also the heights of its sublayers."""
    parts, heights = (
        [text(x + BRANCH, BASE + 44, f"{name} block", 14, weight="bold")],
        {},
    )
    bottom = BASE - 16
    for sub in SUBLAYERS[name]:
        drawn, top = sublayer(sub, x, bottom, used)
        heights[sub] = (bottom, top)
        parts.append(drawn)
        bottom = top - 32
    ends = [(BASE, SUBLAYERS[name][0])] + [
        (heights[sub][1] - 9, after)
        for sub, after in zip(SUBLAYERS[name], SUBLAYERS[name][1:], strict=False)
    ]
    for start, sub in ends:
        parts.append(line((x, start), (x, heights[sub][1] + 10)))
    last = heights[SUBLAYERS[name][-1]][1]
    parts.append(line((x, last - 9), (x, last - 34)))
    parts.append(tokens(x, "tokens" in used))
    if "observe" in used:
        seen = heights["self-attention"][1] - 12
        wo = heights["feed-forward"][0] - 36
        right = x + BRANCH + 88
        points = [(x, seen), (right, seen), (right, wo - 8), (x + BRANCH + 27, wo - 8)]
        parts.append(line(*points, colour=USED_LINE, dashes="5 3"))
        parts.append(
            text(right + 4, (seen + wo) / 2 + 4, "reads", 10, USED_LINE, "start")
        )
    return "".join(parts), heights


def tokens(x, used) -> str:
    """The sequence below the stream: extra tokens, then the real ones."""
    parts = []
    for i in range(6):
        extra = i < 2
        fill, edge = (USED, USED_LINE) if extra and used else (BOX, FAINT)
        dashes = ' stroke-dasharray="2 2"' if extra and not used else ""
        parts.append(
            f'<rect x="{x - 42 + 15 * i}" y="{BASE + 4}" width="12" height="12" rx="2" '
            f'fill="{PAPER if dashes else fill}" stroke="{edge}"{dashes}/>'
        )
    parts.append(text(x - 30, BASE + 30, "extra", 10, INK if used else FAINT))
    return "".join(parts) + text(x + 16, BASE + 30, "tokens", 10)


def draw(family) -> str:
    """The SVG of a family, as text."""
    methods, encoder_used, decoder_used, words = FAMILIES[family]
    encoder, left = stack("encoder", 96, encoder_used)
    decoder, right = stack("decoder", 470, decoder_used)
    out = left["feed-forward"][1] - 34
    cross = right["cross-attention"][0] - 54
    memory = line(
        (96, out), (96, out - 14), (392, out - 14), (392, cross), (551, cross)
    )
    label = text(244, out - 22, "encoder's output, after all blocks", 11)
    pooled = ""
    if "pooled" in decoder_used:
        beside = right["feed-forward"][0] - 54
        points = [(392, out - 14), (392, beside - 34), (422, beside - 34)]
        points.append((422, beside - 12))
        pooled = line(*points, colour=USED_LINE, dashes="5 3")
        pooled += text(386, beside - 30, "mean, hypernetwork", 10, USED_LINE, "end")
    height = BASE + 70 + 18 * len(words)
    below = "".join(
        text(WIDTH / 2, BASE + 72 + 18 * i, row) for i, row in enumerate(words)
    )
    markers = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/>'
        "</marker>"
        for name, colour in (("ink", INK), ("used", USED_LINE))
    )
    title = ", ".join(methods) or "all places"
    tall = height - TOP
    # A background of its own: readable on light pages and dark ones.
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {TOP} {WIDTH} {tall}" '
        'font-family="system-ui, sans-serif" role="img">'
        f"<title>Where it acts: {title}</title><defs>{markers}</defs>"
        f'<rect y="{TOP}" width="{WIDTH}" height="{tall}" rx="10" fill="{PAPER}"/>'
        f"{memory}{label}{encoder}{decoder}{pooled}{below}</svg>\n"
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for family in FAMILIES:
        (FOLDER / f"{family}.svg").write_text(draw(family))
    print(f"wrote {len(FAMILIES)} pictures to {FOLDER}")
