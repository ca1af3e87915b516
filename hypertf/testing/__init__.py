"""The kit that every method must pass, those of users too.

```python
import dataclasses

import keras
import tensorflow as tf

import hypertf
from hypertf.conditioning import Method, Options, register
from hypertf.t5 import Sites, StackSites
from hypertf.t5.weights import add_weight, normal


@dataclasses.dataclass(frozen=True)
class ScaleOptions(Options):
    deviation: float = 0.1  # of the initial values


@dataclasses.dataclass(frozen=True)
class ScaleSites(Sites):
    scale: object  # [batch, 1, d_model]

    def after_ffn(self, y, training):
        return y * tf.cast(1.0 + self.scale, y.dtype)


@keras.saving.register_keras_serializable("mine")
class Scale(Method):  # each task scales what the decoder's feed-forward layers say
    Options, trains = ScaleOptions, "task"

    def add_weights(self):
        sizes = (self.num_tasks, self.num_layers("decoder"), self.config.d_model)
        dims = dict(zip(("task_num", "layers", "d_model"), sizes))
        self.scales = add_weight(self, "scales", dims, normal(self.options.deviation))

    def encoder(self, task_ids, training=False, first_pass=None):
        return StackSites.plain(self.num_layers("encoder"))

    def decoder(self, task_ids, encoder_output, encoder_mask, training=False):
        scales = tf.gather(self.scales, task_ids)[:, :, None]  # [batch, layers, 1, ...]
        return StackSites(tuple(map(ScaleSites, tf.unstack(scales, axis=1))))


register(Scale, "scale")
print(hypertf.testing.check_method("scale", deviation=0.5))
```
"""

from hypertf.testing.case import Case
from hypertf.testing.kit import CHECKS, Summary, check_method

__all__ = ["CHECKS", "Case", "Summary", "check_method"]
