"""A scheduler under churn and faults for half an hour: what must hold, holds, and nothing grows."""
