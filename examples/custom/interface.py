def f(x: float) -> float:
    """Approximate the unknown function at x, between 0 and 3."""
