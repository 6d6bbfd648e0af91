"""What models minimise. Private: nothing of it is for users."""
