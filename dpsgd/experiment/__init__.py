"""One experiment: configuration to plan, plan to run folder."""
