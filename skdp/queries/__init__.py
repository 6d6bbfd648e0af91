"""What is asked of records: bounded sums, one proof page each. Private."""
