"""What a graph is traced for: which devices run it, whether XLA compiles it.

The same sums are written in another order where that is faster. By default a graph is
for the devices of this machine, may be compiled and may be differentiated. Whoever
traces it for something else says so:

    with target.tracing_for(xla=False, gradients=False):  # a stock TF Serving
        concrete = function.get_concrete_function(...)
"""

import contextlib
import contextvars
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Target:
    """What is known of who will run a graph.

    Attributes:
        device: "CPU" if there is no other kind, else that.
        xla: whether XLA may compile it. If not, shapes may be unknown when it is
            traced, and no op may need the compiler.
        gradients: whether anybody may ask for gradients.
        whole: None, or if tensors are split over a mesh of devices, what lays one out
            whole on each of them. Not every op can be split; see `hypertf.mesh`.
    """

    device: str
    xla: bool = True
    gradients: bool = True
    whole: Callable[[tf.Tensor], tf.Tensor] | None = None

    @property
    def mesh(self) -> bool:
        """Whether tensors are split over a mesh of devices."""
        return self.whole is not None


_asked: contextvars.ContextVar[Target | None] = contextvars.ContextVar(
    "target", default=None
)


def current() -> Target:
    """The target that was asked for, else the devices of this machine."""
    return _asked.get() or Target(_device_here())


@contextlib.contextmanager
def tracing_for(
    device: str | None = None,
    xla: bool = True,
    gradients: bool = True,
    whole: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> Iterator[Target]:
    """Traces what is in the block for a kind of device, by default this machine's."""
    target = Target(device or _device_here(), xla, gradients, whole)
    token = _asked.set(target)
    try:
        yield target
    finally:
        _asked.reset(token)


def custom_gradient(function: Callable) -> Callable:
    """As `tf.custom_gradient`; leaves no trace in a graph without gradients.

    A SavedModel would otherwise carry the gradient, or warn that it does not.
    """
    with_gradient = tf.custom_gradient(function)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return with_gradient(*args) if current().gradients else function(*args)[0]

    return call


def _device_here() -> str:
    kinds = {device.device_type for device in tf.config.list_logical_devices()}
    others = sorted(kinds - {"CPU"})
    return others[0] if others else "CPU"
