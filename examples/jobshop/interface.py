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
    """Rank an operation that could go next on its machine; the operation with the largest value goes first.

    duration: processing time of the operation
    next_duration: processing time of the job's next operation (0 after the last)
    work_remaining: processing time that the job has left, this operation included
    operations_remaining: operations that the job has left, this one included
    job_work: processing time of the whole job
    earliest_start: when the operation could start
    waiting: for how long it will have waited for its machine by then
    machine_work: processing time that its machine has left, of all jobs
    next_machine_work: the same of the machine that the job needs next (0 after the last)
    mean_duration: mean processing time of all operations of the instance
    """
