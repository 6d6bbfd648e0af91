"""Plan, door and answers: the only way from records to released numbers."""
