"""The papers' methods as conditioners of the plain T5; see `create`.

**How to write a method.** One file here, and its name in the import below:

1. `Options`, a frozen dataclass that extends `hypertf.conditioning.Options`: every
   option has a default and is checked in `__post_init__` with the `require...` methods.
2. A `Method`: declares `Options` and `trains` (a key of `TRAINS`, what the paper
   trains). Layers set in `__init__` are built with it; weights of its own are made in
   `add_weights`. Every weight names its dimensions (`hypertf.t5.weights.add_weight`),
   that of tasks `task_num`.
3. `stack_sites(stack, task_ids, training)` returns a `StackSites`: a `Sites` for every
   block of the encoder or the decoder, perhaps extra tokens. It is pure: tensors in,
   tensors out. Generate for all blocks in one product, and once per task with
   `Method.per_example`, whose `dropout` draws once per task whatever the batch. (A
   method that reads the encoder's output overrides `encoder` and `decoder` instead.)
4. `register(MyMethod, "my-method")`. A second method of that name is an error.

**What a `Sites` may hold.** It is a frozen dataclass, and holds nothing but its fields;
anything else is refused. A field is *per example* unless declared with `shared()`:

- A per-example field holds tensors with the batch in front, or None. Baking keeps a
  table of them by task and looks the examples up; rematerialisation hands them to the
  block as inputs.
- A shared field holds what is the same for all examples: tensors, which baking keeps as
  constants and rematerialisation hands over as inputs, or values that are no tensors,
  such as a name or a Keras layer, which stay as they are.

Both may hold nests: dicts, lists and tuples of tensors, and other `Sites`. Whoever
takes a `Sites` apart walks it with `hypertf.t5.map_tensors`.

If what a stack does depends on more than the task ids (the encoder's output, a token
observed inside a block), `reads_input` names the stack, and it is not baked. A method
that only changes kernels and norms can be folded into a plain T5 if its sites say how:
`Sites.folded`. Packed rows of one task need nothing more of a method that goes by the
task ids alone; for rows that mix tasks it `packs` them, and its sites say in
`Sites.by_segment` how each token gets what its own example has.

**Then check it**: `hypertf.testing.check_method("my-method", **options)` tries all that
a method must hold to.
"""

# Importing a family registers its methods.
from hypertf.conditioning import (  # noqa: F401
    adapters,
    hyperdecoder,
    hyperformer,
    hypergrid,
    hyperprompt,
    ia3,
    lora,
    modular_skills,
    mpt,
    prompt_tuning,
)
from hypertf.conditioning.method import Method
from hypertf.conditioning.options import TRAINS, Options
from hypertf.conditioning.registry import create, names, register

__all__ = ["TRAINS", "Method", "Options", "create", "names", "register"]
