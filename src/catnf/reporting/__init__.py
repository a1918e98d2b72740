"""Tables and pages about the whole project: the paper's figures, ours, and pictures."""
