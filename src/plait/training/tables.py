"""Every variant that a recipe may name, in one place for its reader."""

from plait.data.batch import READS
from plait.data.make import MAKES
from plait.encoder.pooling import POOLINGS
from plait.evaluation.metrics import METRICS
from plait.gradients.combine import COMBINERS, find_combiner
from plait.heads import HEADS, SHARED_LAYERS
from plait.losses import LOSSES, SHORTHANDS
from plait.recipe.checks import Tables
from plait.schedules import LR_SCHEDULES, SCHEDULES
from plait.training.optimizer import OPTIMIZERS

__all__ = ["TABLES"]

TABLES = Tables(
    heads=HEADS,
    losses={name: loss.function for name, loss in LOSSES.items()},
    shorthands=SHORTHANDS,
    schedules=SCHEDULES,
    lr_schedules=LR_SCHEDULES,
    optimizers=OPTIMIZERS,
    shared_layers=SHARED_LAYERS,
    combiners={name: combiner.weigh for name, combiner in COMBINERS.items()},
    find_combiner=find_combiner,
    poolings=POOLINGS,
    makes=MAKES,
    metrics={kind: list(metrics) for kind, metrics in METRICS.items()},
    reads=READS,
)
