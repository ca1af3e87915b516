"""The base of all methods: options, what trains, once per task what can be."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from hypertf.conditioning.options import Options
from hypertf.conditioning.parts import look_up
from hypertf.t5 import T5, Conditioner, StackSites, T5Config
from hypertf.t5.dropout import uniform
from hypertf.t5.layer import BuildsChildren
from hypertf.types import Tensor


class Method(BuildsChildren, Conditioner):
    """A conditioner with options; `hypertf.conditioning` says how to write one.

    A method declares `Options`, and `trains`, what the paper trains. Layers that it
    sets in `__init__` are built with it; weights of its own are made in `add_weights`.
    One weight per block where the paper has one, as Adafactor takes each weight by
    itself.
    """

    Options: type[Options] = Options
    trains: str = "all"

    def __init__(
        self,
        config: T5Config | dict,
        num_tasks: int,
        options: Options | Mapping[str, Any] | None = None,
        method: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, num_tasks, method, **kwargs)
        if num_tasks is None:
            raise ValueError(f"{self.method}: num_tasks=None, expected an integer >= 1")
        if not isinstance(options, self.Options):
            options = self.Options.of(self.method, options or {})
        self.options = options
        self.seed_generator = keras.random.SeedGenerator()

    @property
    def packs(self) -> tuple[str, ...]:
        """Rows of one task need nothing of a method that goes by the task alone."""
        return () if self.reads_input else ("task",)

    @property
    def what_trains(self) -> str:
        """The key of `TRAINS` that holds: the one asked for, else the paper's."""
        return self.options.trains or self.trains

    def choose_trainable(self, model: T5) -> None:
        """Freezes what the option `trains` leaves out, T5's norms and all."""
        freeze(model, self.what_trains, self.weights, self.method)
        self.on_built(model)

    def on_built(self, model: T5) -> None:
        """What is to be done once the model is built and its weights are frozen."""

    def has(self, stack: str) -> bool:
        """Whether the method works in this stack, by the option `stacks`."""
        return stack in self.options.chosen_stacks

    def each_stack(self, make: Callable[[str], Any]) -> list:
        """What `make` makes for each stack that the method works in."""
        return [make(stack) for stack in self.options.chosen_stacks]

    def of_stack(self, made: Sequence, stack: str) -> Any:
        """What `each_stack` made for a stack."""
        return made[self.options.chosen_stacks.index(stack)]

    def stack_sites(
        self, stack: str, task_ids: Tensor, training: bool = False
    ) -> StackSites:
        """What is done in "encoder" or "decoder", of task ids [batch] alone.

        Asked of the stacks that the method `has`. A method that reads more overrides
        `encoder` or `decoder`.
        """
        raise NotImplementedError

    def encoder(
        self,
        task_ids: Tensor,
        training: bool = False,
        first_pass: Callable | None = None,
    ) -> StackSites:
        return self._chosen_sites("encoder", task_ids, training)

    def decoder(
        self,
        task_ids: Tensor,
        encoder_output: Tensor,
        encoder_mask: Tensor,
        training: bool = False,
    ) -> StackSites:
        return self._chosen_sites("decoder", task_ids, training)

    def _chosen_sites(self, stack: str, task_ids: Tensor, training: bool) -> StackSites:
        if not self.has(stack):
            return StackSites.plain(self.num_layers(stack))
        return self.stack_sites(stack, task_ids, training)

    def per_example(
        self,
        generate: Callable,
        task_ids: Tensor,
        axis: int = 0,
        training: bool = False,
    ) -> Any:
        """What `generate(ids, dropout)` makes, once per task where tasks are fewer.

        generate: ids [n] -> nest of tensors with n at `axis`. Returns the nest for
        each example, the batch in place of n. A batch larger than the number of tasks
        generates for every task and looks the examples up.

        `dropout(x)` is for x with n at `axis`. It draws once per task, whatever the
        batch: examples of one task are dropped alike.
        """
        batch = task_ids.shape[0]
        if batch is not None and batch <= self.num_tasks:
            return generate(task_ids, self._dropout(task_ids, axis, training))
        all_tasks = tf.range(self.num_tasks)
        made = generate(all_tasks, self._dropout(None, axis, training))
        return tf.nest.map_structure(lambda x: look_up(x, task_ids, axis), made)

    def _dropout(self, task_ids: Tensor | None, axis: int, training: bool) -> Callable:
        """Element by element, with T5's rate; alike where `task_ids` are, if given."""
        rate = self.config.dropout_rate

        def dropout(x: Tensor) -> Tensor:
            if not training or not rate:
                return x
            draws = uniform(ops.shape(x), self.seed_generator)
            mask = ops.where(draws >= rate, 1.0 / (1.0 - rate), 0.0)
            if task_ids is not None:
                same = ops.expand_dims(task_ids, 1) == ops.expand_dims(task_ids, 0)
                first = tf.argmax(tf.cast(same, tf.int32), axis=1)  # of each row's task
                mask = tf.gather(mask, first, axis=axis)
            return x * ops.cast(mask, x.dtype)

        return dropout

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "num_tasks": self.num_tasks,
            "options": dataclasses.asdict(self.options),
            "method": self.method,
        }


def is_task_table(weight: keras.Variable) -> bool:
    """Whether a weight has a row for each task."""
    return getattr(weight, "dims", ())[:1] == ("task_num",)


def freeze(
    model: T5, trains: str, own: Iterable[keras.Variable], method: str = "the method"
) -> None:
    """Freezes weights of a model, by a key of `TRAINS`; `own` are the method's."""
    if trains == "task-vectors":
        own = [weight for weight in own if is_task_table(weight)]
        if not own:
            raise ValueError(
                f"{method}: trains={trains!r}, but no task has weights of its own; "
                "expected another choice"
            )
    if trains == "all":
        return
    if trains == "all-but-embeddings":
        model.shared.trainable = False
        return
    mine = {id(weight) for weight in own}
    for weight in model.weights:
        norm = trains == "task+norms" and weight.path.endswith("rms_norm/scale")
        weight.trainable = id(weight) in mine or norm
