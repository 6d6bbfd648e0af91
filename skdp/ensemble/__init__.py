"""Private ensembles of trees."""
