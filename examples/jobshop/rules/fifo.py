def priority(
    duration: float,
    next_duration: float,
    work_remaining: float,
    operations_remaining: float,
    job_work: float,
    earliest_start: float,
    waiting: float,
    machine_work: float,
    next_machine_work: float,
    mean_duration: float,
) -> float:
    """First in, first out: who has waited longest for the machine goes first."""
    return waiting - earliest_start
