"""Runs in another process and holds the answers: the mean squared error at the points."""


def evaluate(given, answers, output):
    if not isinstance(output, list) or len(output) != len(answers["values"]):
        raise ValueError(f"expected {len(answers['values'])} numbers")
    return sum((y - t) ** 2 for y, t in zip(output, answers["values"])) / len(output)
