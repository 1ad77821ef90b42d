"""Groups as histories: rows of given and when; the then is kube-scheduler's result.

The numbers are those of the reference Moorage was written from. `python -m tests.parity.group_oracle --record` runs
kube-scheduler and stores its results in rows.jsonl.gz.
"""

from typing import Final

from tests.parity.group_rows.claims import CLAIM_ROWS
from tests.parity.group_rows.parts import Row
from tests.parity.group_rows.preemption import PREEMPTION_ROWS
from tests.parity.group_rows.queue import QUEUE_ROWS
from tests.parity.group_rows.topology import TOPOLOGY_ROWS
from tests.parity.group_rows.trees import TREE_ROWS

ROWS: Final[dict[str, Row]] = {**QUEUE_ROWS, **TOPOLOGY_ROWS, **PREEMPTION_ROWS, **TREE_ROWS, **CLAIM_ROWS}
