"""Runs in the sandbox with the candidate: builds an active schedule with it for each instance.

The method is Giffler and Thompson's (1960): of all operations that could go next, take the one that
could end first; among those that compete with it for its machine, the candidate's `priority` chooses.
Prints, for each instance, the order of the jobs on each machine.
"""

import json
import sys
from pathlib import Path


def schedule(machines, durations, priority):
    """The order of the jobs on each machine."""
    jobs = range(len(machines))
    count = len(machines[0])
    mean = sum(map(sum, durations)) / (len(machines) * count)
    total = [float(sum(row)) for row in durations]
    left = total[:]
    step = [0] * len(machines)
    ready = [0.0] * len(machines)  # when each job's next operation may start at the earliest
    free = [0.0] * count  # when each machine is free
    load = [0.0] * count
    for row, times in zip(machines, durations):
        for machine, time in zip(row, times):
            load[machine] += time
    order = [[] for _ in range(count)]
    active = list(jobs)
    while active:
        best_end, best_machine, best_job = float("inf"), 0, -1
        for job in active:
            k = step[job]
            machine = machines[job][k]
            start = ready[job] if ready[job] > free[machine] else free[machine]
            end = start + durations[job][k]
            if end < best_end:
                best_end, best_machine, best_job = end, machine, job
        chosen, chosen_value, chosen_start = -1, 0.0, 0.0
        open_at = free[best_machine]
        for job in active:
            k = step[job]
            row = machines[job]
            if row[k] != best_machine:
                continue
            start = ready[job] if ready[job] > open_at else open_at
            if start >= best_end and job != best_job:  # one of no duration starts when it ends
                continue
            last = k + 1 == count
            value = priority(
                float(durations[job][k]),
                0.0 if last else float(durations[job][k + 1]),
                left[job],
                float(count - k),
                total[job],
                start,
                start - ready[job],
                load[best_machine],
                0.0 if last else load[row[k + 1]],
                mean,
            )
            if chosen < 0 or value > chosen_value:
                chosen, chosen_value, chosen_start = job, value, start
        k = step[chosen]
        time = durations[chosen][k]
        ready[chosen] = free[best_machine] = chosen_start + time
        left[chosen] -= time
        load[best_machine] -= time
        order[best_machine].append(chosen)
        step[chosen] = k + 1
        if k + 1 == count:
            active.remove(chosen)
    return order


def main():
    here = Path(__file__).parent
    given = json.loads((here / "data.json").read_text())
    answer, sys.stdout = sys.stdout, sys.stderr  # what the candidate prints is no answer
    space = {}
    exec(compile((here / "program.py").read_text(), "program.py", "exec"), space)
    priority = space["priority"]
    orders = {
        name: schedule(instance["machines"], instance["durations"], priority) for name, instance in given.items()
    }
    json.dump(orders, answer, separators=(",", ":"))


main()
