"""The papers' methods as conditioners of the plain T5; see `create`."""

# Importing a family registers its methods.
from hypertf.conditioning import (  # noqa: F401
    adapters,
    hyperdecoder,
    hyperformer,
    hypergrid,
    hyperprompt,
    modular_skills,
    prompt_tuning,
)
from hypertf.conditioning.base import TRAINS, Method, Options
from hypertf.conditioning.registry import create, names

__all__ = ["TRAINS", "Method", "Options", "create", "names"]
