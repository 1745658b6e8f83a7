"""A strategy, a proposer and a projection of one's own for evolog; see README.md."""
