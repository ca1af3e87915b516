"""Baking: what depends on the task alone is computed once and kept as constants.

A baked HyperFormer is plain adapters, a baked HyperPrompt fixed keys and values: the
same outputs, no hypernetwork. Methods that read the input as well keep what they need
for that, and say so.
"""

import dataclasses

import numpy as np
import tensorflow as tf
from absl import logging
from keras import ops

from hypertf.t5 import T5, Conditioner, StackSites, named_weights

STACKS = ("encoder", "decoder")


def bake(model, tasks=None):
    """A model equal to `model` whose task-conditioned weights are constants.

    ```python
    config = hypertf.T5Config.from_name("t5-nano")
    conditioner = hypertf.conditioning.create("hyperformer++", config, num_tasks=8)
    model = hypertf.T5(config, conditioner=conditioner)
    baked = hypertf.export.bake(model)
    ```

    Args:
        model: a `hypertf.T5`. Without a conditioner there is nothing to bake, and the
            model itself is returned.
        tasks: the task ids to keep, all by default. Ids keep their meaning; the others
            are an error.
    """
    conditioner = model.conditioner
    if conditioner is None:
        return model
    tasks = _checked(tasks, conditioner.num_tasks)
    stays = [s for s in STACKS if s in conditioner.reads_input]
    if len(stays) == len(STACKS):
        logging.info("bake: both stacks read the input; the conditioner stays as it is")
    baked = Baked(conditioner, tasks, stays)
    copy = T5(model.config, conditioner=baked, dtype=model.dtype_policy)
    source = named_weights(model)
    mine = {id(weight) for weight in baked.weights}
    for name, weight in named_weights(copy).items():
        if id(weight) not in mine:
            weight.assign(source[name])
    copy.trainable = False
    logging.info("bake: %s", baked.report)
    return copy


def _checked(tasks, num_tasks):
    if tasks is None:
        return list(range(num_tasks))
    tasks = [int(task) for task in tasks]
    wrong = [task for task in tasks if not 0 <= task < num_tasks]
    if wrong or not tasks or len(set(tasks)) < len(tasks):
        raise ValueError(
            f"bake: tasks={tasks}, expected different ids from 0 to {num_tasks - 1}"
        )
    return tasks


class Baked(Conditioner):
    """Constants per task at the sites of another conditioner."""

    def __init__(self, conditioner, tasks, stays):
        super().__init__(
            autocast=False, name=conditioner.name, dtype=conditioner.dtype_policy
        )
        self.num_tasks = conditioner.num_tasks
        self.config = conditioner.config
        self.method = f"baked {conditioner.method}"
        self.rest = conditioner if stays else None
        rows = np.full(self.num_tasks, -1, "int32")
        rows[tasks] = np.arange(len(tasks))
        self._rows, self._stays = rows, tuple(stays)
        # Past Keras's tracking: templates hold tensors, the tables are tracked below.
        self.__dict__["templates"] = {}
        self._tables = []
        for stack in STACKS:
            if stack not in stays:
                sites = self._made(conditioner, stack, tf.constant(tasks, tf.int32))
                self.templates[stack] = self._stack_template(sites, stack)
        self.built = True

    @staticmethod
    def _made(conditioner, stack, tasks):
        if stack == "encoder":
            return conditioner.encoder(tasks, training=False)
        return conditioner.decoder(tasks, None, None, training=False)

    @property
    def report(self):
        held = sum(int(np.prod(table.shape)) for table in self._tables)
        text = f"{held:,} numbers are constants"
        if self._stays:
            text += f"; the {' and '.join(self._stays)} reads the input and stays"
        return text

    def _stack_template(self, sites, stack):
        blocks = tuple(
            self._template(block, f"{stack}_block_{i:03d}")
            for i, block in enumerate(sites.blocks)
        )
        return {
            "blocks": blocks,
            "tokens": self._kept(sites.tokens, f"{stack}_tokens"),
            "norm_scale": self._kept(sites.norm_scale, f"{stack}_norm_scale"),
            "num_keys": sites.num_keys,
        }

    def _template(self, block, name):
        """The block's Sites, and the tables of its per-example and shared fields."""
        if not dataclasses.is_dataclass(block):
            return block, {}, {}
        tables, shared = {}, {}
        for field in dataclasses.fields(block):
            value = getattr(block, field.name)
            kept = shared if field.metadata.get("shared") else tables
            if value is not None and (kept is tables or _holds_tensors(value)):
                kept[field.name] = self._kept(value, f"{name}_{field.name}")
        return block, tables, shared

    def _kept(self, value, name):
        """A nest of tensors as weights that do not train; None stays None."""
        if value is None:
            return None
        numbers = iter(range(10**6))

        def keep(tensor):
            array = ops.convert_to_numpy(tensor)
            weight = self.add_weight(
                name=f"{name}_{next(numbers)}",
                shape=array.shape,
                dtype=tensor.dtype if isinstance(tensor.dtype, str) else None,
                initializer="zeros",
                trainable=False,
                autocast=False,
            )
            weight.assign(array)
            self._tables.append(weight)
            return weight

        return tf.nest.map_structure(keep, value)

    def encoder(self, task_ids, training=False, first_pass=None):
        if "encoder" in self._stays:
            return self.rest.encoder(task_ids, training, first_pass)
        return self._rebuilt("encoder", task_ids)

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        if "decoder" in self._stays:
            return self.rest.decoder(task_ids, encoder_output, encoder_mask, training)
        return self._rebuilt("decoder", task_ids)

    def _rebuilt(self, stack, task_ids):
        rows = tf.gather(tf.constant(self._rows), task_ids)

        def look_up(tables):
            return tf.nest.map_structure(lambda table: tf.gather(table, rows), tables)

        def rebuild(block, tables, shared):
            if not tables and not shared:
                return block
            fields = {name: look_up(table) for name, table in tables.items()}
            values = {
                name: tf.nest.map_structure(tf.convert_to_tensor, value)
                for name, value in shared.items()
            }
            return dataclasses.replace(block, **fields, **values)

        template = self.templates[stack]
        tokens, scale = template["tokens"], template["norm_scale"]
        return StackSites(
            blocks=tuple(rebuild(*block) for block in template["blocks"]),
            tokens=None if tokens is None else look_up(tokens),
            norm_scale=None if scale is None else look_up(scale),
            num_keys=template["num_keys"],
        )

    def get_config(self):
        raise NotImplementedError(
            "a baked model is for export; save the model it was baked from"
        )


def _holds_tensors(value):
    leaves = tf.nest.flatten(value)
    return bool(leaves) and all(
        tf.is_tensor(leaf) or hasattr(leaf, "assign") for leaf in leaves
    )
