"""Sources: data as solvers see it. Private: nothing of it is for users."""
