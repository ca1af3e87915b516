"""Baking: what depends on the task alone is computed once and kept as constants.

A baked HyperFormer is plain adapters, a baked HyperPrompt fixed keys and values: the
same outputs, no hypernetwork. Methods that read the input as well keep what they need
for that, and say so. Where a task does nothing but change kernels and norms, one task
can be folded into a plain T5: see `fold.py`.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging
from keras import ops

from hypertf.export.fold import fold_into_plain
from hypertf.t5 import T5, Conditioner, StackSites, map_tensors, named_weights
from hypertf.t5.sites import STACKS
from hypertf.types import Tensor


def bake(model: T5, tasks: Iterable[int] | None = None, fold: bool = False) -> T5:
    """A model equal to `model` whose task-conditioned weights are constants.

    ```python
    config = hypertf.T5Config.from_name("t5-nano")
    conditioner = hypertf.conditioning.create("hyperformer++", config, num_tasks=8)
    model = hypertf.T5(config, conditioner=conditioner)
    baked = hypertf.export.bake(model)

    conditioner = hypertf.conditioning.create("lora", config, num_tasks=8)
    model = hypertf.T5(config, conditioner=conditioner)
    plain = hypertf.export.bake(model, tasks=[3], fold=True)  # a T5 of task 3
    hypertf.checkpoints.save(plain, "task_3", format="huggingface")
    ```

    Args:
        model: a `hypertf.T5`. Without a conditioner there is nothing to bake, and the
            model itself is returned.
        tasks: the task ids to keep, all by default. Ids keep their meaning; the others
            are an error.
        fold: makes a plain T5 of one task, without a conditioner and without task
            ids. A method that does more than change kernels and norms is an error
            that says what it does.
    """
    conditioner = model.conditioner
    if conditioner is None:
        return model
    tasks = _checked(tasks, conditioner.num_tasks)
    if fold:
        return _folded(model, tasks)
    stays = [s for s in STACKS if s in conditioner.reads_input]
    if len(stays) == len(STACKS):
        logging.info("bake: both stacks read the input; the conditioner stays as it is")
    baked = Baked(conditioner, tasks, stays)
    copy = T5(model.config, conditioner=baked, dtype=model.dtype_policy)
    _copy_weights(model, copy, but=baked.weights)
    copy.trainable = False
    logging.info("bake: %s", baked.report)
    return copy


def _checked(tasks: Iterable[int] | None, num_tasks: int | None) -> list[int]:
    if num_tasks is None:
        raise ValueError(
            "bake: num_tasks of the conditioner is None, expected a number"
        )
    if tasks is None:
        return list(range(num_tasks))
    tasks = [int(task) for task in tasks]
    wrong = [task for task in tasks if not 0 <= task < num_tasks]
    if wrong or not tasks or len(set(tasks)) < len(tasks):
        raise ValueError(
            f"bake: tasks={tasks}, expected different ids from 0 to {num_tasks - 1}"
        )
    return tasks


def _copy_weights(model: T5, copy: T5, but: Iterable[keras.Variable] = ()) -> None:
    source, own = named_weights(model), {id(weight) for weight in but}
    for name, weight in named_weights(copy).items():
        if id(weight) not in own:
            weight.assign(source[name])


def _folded(model: T5, tasks: list[int]) -> T5:
    if len(tasks) != 1:
        raise ValueError(f"bake: tasks={tasks} with fold=True, expected one task")
    conditioner = model.conditioner
    if conditioner.reads_input:
        raise ValueError(
            f"bake: {conditioner.method} cannot be folded into a plain T5: the "
            f"{' and '.join(conditioner.reads_input)} "
            f"{'are' if len(conditioner.reads_input) > 1 else 'is'} conditioned on the "
            "input, which no fixed kernel is"
        )
    plain = T5(model.config, dtype=model.dtype_policy)
    _copy_weights(model, plain)
    for stack in STACKS:
        sites = sites_of_tasks(conditioner, stack, tasks)
        fold_into_plain(getattr(plain, stack), sites, conditioner.method)
    return plain


def sites_of_tasks(
    conditioner: Conditioner, stack: str, tasks: list[int]
) -> StackSites:
    """What a conditioner that reads no input does in a stack, a row for each task."""
    task_ids = tf.constant(tasks, tf.int32)
    if stack == "encoder":
        return conditioner.encoder(task_ids, training=False)
    return conditioner.decoder(task_ids, None, None, training=False)


class Baked(Conditioner):
    """Constants per task at the sites of another conditioner."""

    def __init__(
        self, conditioner: Conditioner, tasks: list[int], stays: list[str]
    ) -> None:
        super().__init__(
            conditioner.config,
            conditioner.num_tasks,
            method=f"baked {conditioner.method}",
            name=conditioner.name,
            dtype=conditioner.dtype_policy,
        )
        self.rest = conditioner if stays else None
        self.reads_input = tuple(stays)
        self.needs_first_pass = conditioner.needs_first_pass
        rows = np.full(self.num_tasks, -1, "int32")
        rows[tasks] = np.arange(len(tasks))
        self._rows = rows
        # Past Keras's tracking: it would not keep them as they are.
        self.__dict__["templates"] = {
            stack: self._template(conditioner, stack, tasks)
            for stack in STACKS
            if stack not in stays
        }
        self.built = True

    def _template(
        self, conditioner: Conditioner, stack: str, tasks: list[int]
    ) -> StackSites:
        """The sites of all kept tasks, with weights in place of tensors."""
        numbers = itertools.count()

        def keep(tensor: Tensor, is_shared: bool) -> keras.Variable:
            array = ops.convert_to_numpy(tensor)
            weight = self.add_weight(
                name=f"{stack}_{next(numbers)}",
                shape=array.shape,
                dtype=tf.as_dtype(tensor.dtype).name,
                initializer="zeros",
                trainable=False,
                autocast=False,
            )
            weight.assign(array)
            return weight

        return map_tensors(keep, sites_of_tasks(conditioner, stack, tasks))

    @property
    def report(self) -> str:
        """What was baked and what was not, as text."""
        mine = {id(weight) for weight in self.rest.weights} if self.rest else ()
        tables = (weight for weight in self.weights if id(weight) not in mine)
        constants = sum(int(np.prod(table.shape)) for table in tables)
        text = f"{constants:,} numbers are constants"
        if self.reads_input:
            text += f"; the {' and '.join(self.reads_input)} reads the input and stays"
        return text

    def encoder(
        self,
        task_ids: Tensor,
        training: bool = False,
        first_pass: Callable | None = None,
    ) -> StackSites:
        if "encoder" in self.reads_input:
            return self.rest.encoder(task_ids, training, first_pass)
        return self._looked_up("encoder", task_ids)

    def decoder(
        self,
        task_ids: Tensor,
        encoder_output: Tensor,
        encoder_mask: Tensor,
        training: bool = False,
    ) -> StackSites:
        if "decoder" in self.reads_input:
            return self.rest.decoder(task_ids, encoder_output, encoder_mask, training)
        return self._looked_up("decoder", task_ids)

    def _looked_up(self, stack: str, task_ids: Tensor) -> StackSites:
        rows = tf.gather(tf.constant(self._rows), task_ids)

        def of_examples(table: keras.Variable, is_shared: bool) -> Tensor:
            if is_shared:
                return tf.convert_to_tensor(table)
            return tf.gather(table, rows)

        return map_tensors(of_examples, self.templates[stack])

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError(
            "a baked model is for export; save the model it was baked from"
        )
