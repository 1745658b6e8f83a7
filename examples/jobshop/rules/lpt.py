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
    """Longest processing time first."""
    return duration
