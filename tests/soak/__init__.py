"""A scheduler under churn and faults for half an hour: invariants hold, and no resource use grows."""
