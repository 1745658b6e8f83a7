"""Runs in another process and holds the answers: the mean gap to the best known makespans, in percent.

Nothing that the candidate's process says is believed: the makespan is recomputed from the order of
the jobs on each machine.
"""


def evaluate(given, answers, output):
    if not isinstance(output, dict) or sorted(output) != sorted(answers):
        raise ValueError("expected an object with the orders of each instance")
    gaps = {}
    for name, best_known in answers.items():
        found = makespan(name, given[name]["machines"], given[name]["durations"], output[name])
        gaps[name] = 100.0 * (found - best_known) / best_known
    return {"score": sum(gaps.values()) / len(gaps), "metrics": gaps}


def makespan(name, machines, durations, order):
    """When the last operation ends if each machine takes the jobs in the given order."""
    jobs, count = len(machines), len(machines[0])
    if not isinstance(order, list) or len(order) != count:
        raise ValueError(f"{name}: expected the order of {count} machines")
    for machine, row in enumerate(order):
        if not isinstance(row, list) or any(type(job) is not int for job in row) or sorted(row) != list(range(jobs)):
            raise ValueError(f"{name}: machine {machine} does not take each of the {jobs} jobs once")
    step = [0] * jobs
    ready = [0] * jobs
    free = [0] * count
    position = [0] * count
    left = jobs * count
    while left:
        moved = False
        for machine in range(count):
            while position[machine] < jobs:
                job = order[machine][position[machine]]
                if step[job] == count or machines[job][step[job]] != machine:
                    break
                end = max(ready[job], free[machine]) + durations[job][step[job]]
                ready[job] = free[machine] = end
                step[job] += 1
                position[machine] += 1
                left -= 1
                moved = True
        if not moved:
            raise ValueError(f"{name}: the orders wait for one another")
    return max(ready)
