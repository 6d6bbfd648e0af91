"""Private ensembles of trees that are drawn without data."""
