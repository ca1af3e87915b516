"""The contract of a conditioner, which tells T5 the task of each example."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras

from hypertf.t5.config import T5Config
from hypertf.t5.sites import StackSites
from hypertf.types import Tensor

if TYPE_CHECKING:
    from hypertf.t5.model import T5


class Conditioner(keras.layers.Layer):
    """Turns task ids into what each block needs at its sites.

    Pure: tensors in, tensors out, nothing kept on layers during a call. What
    `decoder` returns is made once and then used at every decoding step.

    All that others read of a conditioner is declared here:

    Attributes:
        config: the `T5Config` of the model that it conditions; `num_layers` reads it.
        num_tasks: how many tasks it knows, None if it does not say. Ids are checked
            against it where their values are at hand. In a compiled function a wrong
            id is an error of the lookup on CPU, and reads some other task on TPU.
        method: its name in messages and tables, by default that of the class.
        reads_input: the stacks, "encoder" or "decoder", for which the task ids are
            not enough. What other stacks do can be baked.
        needs_first_pass: whether `encoder` calls `first_pass`.
        packs: how several examples may share a row: "task", examples of one task, and
            "mixed", of any. For the first the task ids of rows are enough, unless a
            stack is one of `reads_input`. Else the ids that the two methods below get
            are those of all segments of all rows, and what they return is taken to
            packed rows by `Sites.by_segment`.
        what_trains: which weights `choose_trainable` leaves to train, in a word; the
            methods' are keys of `hypertf.conditioning.TRAINS`.
    """

    config: T5Config | None
    num_tasks: int | None
    method: str
    reads_input: tuple[str, ...] = ()
    needs_first_pass: bool = False
    packs: tuple[str, ...] = ()
    what_trains: str = "all"

    def __init__(
        self,
        config: T5Config | dict | None = None,
        num_tasks: int | None = None,
        method: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", "conditioner")
        super().__init__(autocast=False, **kwargs)
        self.config = T5Config(**config) if isinstance(config, dict) else config
        self.method = method or type(self).__name__
        whole = isinstance(num_tasks, int) and not isinstance(num_tasks, bool)
        if num_tasks is not None and not (whole and num_tasks >= 1):
            raise ValueError(
                f"{self.method}: num_tasks={num_tasks!r}, expected an integer >= 1"
            )
        self.num_tasks = num_tasks

    def encoder(
        self,
        task_ids: Tensor,
        training: bool = False,
        first_pass: Callable | None = None,
    ) -> StackSites:
        """Task ids [batch] -> what is done in the encoder.

        `first_pass(sites)` runs the encoder, as T5 has it unless other `StackSites`
        are given, for methods that condition the encoder on what it reads: its
        output [batch, length, d_model] and mask, which is that of `decoder`.
        """
        raise NotImplementedError

    def decoder(
        self,
        task_ids: Tensor,
        encoder_output: Tensor,
        encoder_mask: Tensor,
        training: bool = False,
    ) -> StackSites:
        """Task ids [batch] -> what is done in the decoder.

        encoder_output [batch, length, d_model]; encoder_mask [batch, length]. Both
        are None when a method that does not read the input is baked. Of packed rows,
        whose segments are asked for one by one, they are encoder_output [rows, length,
        d_model] and encoder_mask [rows, segments, length].
        """
        raise NotImplementedError

    def packs_in_words(self, mode: str) -> str:
        """Says that rows packed in a mode are refused, and what is not."""
        expected = " or ".join(map(repr, (*self.packs, "off")))
        refused = f"packing={mode!r}: {self.method} does not pack rows so"
        return f"{refused}, expected {expected}"

    def num_layers(self, stack: str) -> int:
        """How many blocks "encoder" or "decoder" has."""
        c = self.config
        return c.num_encoder_layers if stack == "encoder" else c.num_decoder_layers

    def choose_trainable(self, model: "T5") -> None:
        """Freezes what the method does not train; called once the model is built."""

    def initialize_from(self, model: "T5") -> None:
        """Sets weights that start from T5's own; called when those were loaded."""
