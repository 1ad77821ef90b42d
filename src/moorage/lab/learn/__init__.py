"""Learning to schedule: a Gymnasium environment around the real scheduler. Importing this registers it.

>>> import gymnasium, moorage.lab.learn
>>> environment = gymnasium.make("Moorage/Scheduling-v0", trials="batch", nodes=4, pods=20)
>>> observation, info = environment.reset(seed=1)
>>> observation["nodes"].shape, info["action_mask"].shape
((4, 8), (4,))
>>> environment.close()
"""

try:
    import gymnasium
except ImportError as error:
    raise ImportError("moorage.lab.learn needs Gymnasium: pip install 'moorage[learn]'") from error

from moorage.contrib import ObservedColumns
from moorage.lab.learn.environment import SchedulingEnv, chosen_by
from moorage.lab.learn.episodes import StepFacts

ENVIRONMENT = "Moorage/Scheduling-v0"

if ENVIRONMENT not in gymnasium.registry:
    gymnasium.register(ENVIRONMENT, entry_point="moorage.lab.learn.environment:SchedulingEnv")

__all__ = ["ENVIRONMENT", "ObservedColumns", "SchedulingEnv", "StepFacts", "chosen_by"]
